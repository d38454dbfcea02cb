// Package proptest holds the laws that runlog promises, as properties over a naive model: of the
// state machine alone, and of three Raft nodes in virtual time. It ships nothing.
package proptest
