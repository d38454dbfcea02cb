// Package fabric connects Raft nodes of one process without sockets, so that a cluster runs in a
// testing/synctest bubble, where an hour takes a second. Links between nodes can be cut.
package fabric
