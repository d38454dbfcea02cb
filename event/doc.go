// Package event is runlog's vocabulary: identifiers, events and their parsed headers,
// the batches that hosts append, the commands that travel through Raft, the grammar of
// a run, and every refusal that the state machine can answer with.
//
// It imports nothing else of ours; every other package speaks in its terms. Nothing in it
// reads a clock, a random source or the environment, so all of it may be used inside Apply.
//
// An event's JSON is kept as the bytes that its host sent ([Event.Raw]). What the state
// machine must know of it is parsed once, by the node that received it ([Parse]), and
// travels beside those bytes ([Header]), so that followers parse no JSON.
package event
