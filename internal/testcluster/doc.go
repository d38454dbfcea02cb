// Package testcluster runs three whole nodes, Raft and state machine, in one process for tests, in
// virtual time when called within a testing/synctest bubble.
package testcluster
