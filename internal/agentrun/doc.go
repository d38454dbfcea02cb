// Package agentrun makes runs for tests: what agents emit, generated and recorded, and the ways in which
// a second host may say the same again.
package agentrun
