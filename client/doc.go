// Package client speaks to a runlog cluster over HTTP: it appends events, tails runs and reads
// what a run amounts to.
//
// A [Client] knows several servers and treats them as one, since any node answers any request. It
// stays with the server that answered last and moves to the next when one fails. What it repeats
// by itself depends on what is known:
//
//   - nothing was written (no connection, 503, 429): the request goes to the next server;
//   - perhaps something was written (the connection broke, 504): it is repeated only when a
//     repetition is harmless, that is for reads and for writes that carry producer headers, an
//     expected offset or an Idempotency-Key;
//   - refused: the answer is final.
//
// A refusal comes back as the same value of package event that the state machine decided on, so
// errors.Is(err, event.ErrFenced) holds across the wire and errors.As finds its data. What is not
// a refusal is [ErrUnavailable], [ErrOutcomeUnknown] or a [*Problem].
//
// Every method takes a context; without a deadline a call still gives up after Config.RetryFor.
// A Client is safe for concurrent use.
package client
