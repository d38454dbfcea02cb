package raftlog

import (
	"context"
	"net"

	"github.com/hashicorp/raft"
)

// Network carries what the nodes of a cluster say to each other. [listenTCP] is the real one.
type Network interface {
	// Raft is raft's transport. Its LocalAddr is what the cluster's configuration lists.
	Raft() raft.Transport
	// Peers accepts the connections that peers open for the internal RPC.
	Peers() net.Listener
	// DialPeer opens one to the node whose raft address is addr.
	DialPeer(ctx context.Context, addr raft.ServerAddress) (net.Conn, error)
	// Close ends all of it, and returns when nothing that Network started runs any more.
	Close() error
}
