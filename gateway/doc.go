// Package gateway serves runlog's HTTP API: it turns requests into commands and reads, and their
// results into answers.
//
// A write's journey begins here: [Gateway] parses a body into one [event.Batch] (append.go) and
// proposes it to the [Log], which carries it to the leader, so that any node takes any write.
// Reads and tails are answered from this node's own state (read.go, tail.go); what only a complete
// state may say ("not found", "beyond the tail") is said after a read index has proved it
// (consistency.go). Every refusal and every failure becomes an RFC 9457 problem through one table
// (problem.go); no handler chooses a status.
//
// Gin routes the requests and lives in this package alone. Each file that has handlers lists its
// own routes; routes.go joins the lists.
package gateway
