// Package load drives a server with requests in closed loops and measures what comes back.
//
// It speaks HTTP/1.1 over raw keep-alive connections with preformatted requests, because the
// generator runs on the machine that it measures: net/http's client would take as much processor
// time as the server.
package load
