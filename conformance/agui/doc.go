// Command agui runs folds for the comparison with the published AG-UI client.
//
// It reads runs from standard input, one JSON object {"name","events":[…],"held"?:[ids]} a line, and writes
// one JSON object a line: {"prefixes":[{"messages","state"},…]}, what the folds hold after each
// event, and with -preludes also {"preludes":[[event,…],…]}, what a client that joins before
// each event is sent first (see projection.Prelude), or one that holds messages (projection.Connect).
//
// agui.test.mjs feeds the same runs to both sides; npm test in this folder runs it.
package main
