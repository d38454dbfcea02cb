// Package lease judges time: which leases are live, and which runs the cluster must end.
//
// A [Lessor] lives on the leader alone and knows, for each open run and each lock, until when its
// lease lasts and when its window for a takeover is over. It decides nothing for good: what it finds
// due are verdicts, commands that carry what they were judged by (epoch and tail), which the state
// machine checks again. A verdict that comes too late changes nothing.
//
// A Lessor has no clock. Its time moves only through [Lessor.Advance], and only by time during
// which the leader could have heard of every renewal; any other time is left out, which
// moves every deadline back by as much. It therefore errs to one side only: a lease may last longer than was
// promised, never shorter. This is Gray and Cheriton's rule for leases ("Leases: An Efficient
// Fault-Tolerant Mechanism for Distributed File Cache Consistency", 1989) with the clock's
// error made one-sided; etcd's lessor (server/lease/lessor.go) likewise extends every lease at a
// new leader.
//
// Renewals are kept in memory. What outlives the leader is the log: who holds what at which epoch
// for how long. A new leader starts from that with a full term for everybody ([Lessor.Restart]).
package lease
