// Command runlog is the one binary: a node of the cluster (serve), a whole cluster on one machine
// (dev, quickstart), a client of either, and the benchmarks.
//
// Each command is a struct in a file of its own; its fields are its flags and its Run method does
// the work. Every flag can also be given as an environment variable, RUNLOG_ and its name in
// capitals, and in a JSON file named by --config; the command line wins over the environment, the
// environment over the file.
//
// What a command answers goes to standard output, what went wrong, in one line, to standard error.
// The exit code is 0 when it did what it was asked to, 1 when it failed or was refused, and 2 when
// the command line was wrong.
package main
