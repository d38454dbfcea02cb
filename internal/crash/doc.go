// Package crash runs the real binary as three processes on loopback and kills them: what the
// laws of proptest say must hold there too, on real disks.
package crash
