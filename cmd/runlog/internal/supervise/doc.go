// Package supervise runs the nodes of a cluster as child processes of this one, keeps them running
// and stops them. It is what `runlog dev` and `runlog quickstart` stand on; a cluster that matters
// has one node a machine and that machine's own supervisor.
package supervise
