// Package projection folds the records of a run into what readers ask for: the transcript, the
// history of tool calls and the shared state. Folds are pure: they read no clock, no random
// source and no map order, so every node computes the same bytes from the same records, at any
// offset, whether it starts from the first record or from a checkpoint.
//
// # The transcript is what the published client shows
//
// [KindTranscript] computes, record by record, the messages array of npm @ag-ui/client 1.0.0:
// its enforcement (unknown members are dropped), its chunk expansion (transformChunks) and its
// reducer (defaultApplyEvents), without its verifier; a strict run has been verified on append.
// Where that pipeline throws, the run is over for the client; the fold instead ignores the one
// event that it cannot read and goes on. Absent fields that the protocol requires read as
// absent, an absent id being an id of its own, because recorded runs are full of them.
//
// The deprecated THINKING_* events (up to AG-UI 0.0.59) carry no ids. The client either drops
// them or, behind its compatibility boundary, gives them random ids that no two clients share;
// here they are dropped, and stay readable as events.
//
// # Threads
//
// A thread's runs are folded one after the other, with [BeginRun] before each. The fold stays the
// client's; [History] renders it as a model can be given it, [Connect] brings a client to where it
// stands, and [Envelope] packs it up for a fresh run, which the folds then do not take in again.
//
// # Bytes
//
// A delta is a string of UTF-16 units, and a producer may split it anywhere, also between the
// halves of a surrogate pair. So text and arguments are kept as the bodies of JSON strings, as
// the host wrote them, and appended to one another unread: "\ud83d" and "\ude00" become one
// character for whoever parses the result, and no digit of a number is lost. Values that are
// not appended to (metadata, content arrays, state leaves) are kept as the JSON they came as.
//
// # Cost
//
// Folding an event costs as much as the event is long, not as much as the transcript: messages
// and calls are found by id, texts grow in place. MESSAGES_SNAPSHOT is the exception; it looks
// at every message, as it must.
package projection
