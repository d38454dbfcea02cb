// Command durable holds a cluster to the Durable Streams protocol with what is published on npm.
//
// It builds runlog, starts three nodes on free ports of this machine, and runs the published
// conformance suite against one of them, then against a TCP load balancer that gives each
// connection to the next node, with a connection for each request. Every test must pass, and
// there must be as many as expected. Then it runs the tests of client/, which use the published
// client beyond what the suite asks, and kill nodes under it.
//
// With -reference the suite is held against the protocol's own reference server instead.
//
// It needs Node 20 or later and npm; conformance/run runs it.
package main
