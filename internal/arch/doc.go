// Package arch holds no code: its test keeps the direction of imports and the one home of each
// engine as docs/explanation/architecture.md draws them.
package arch
