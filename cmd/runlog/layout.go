package main

import (
	"fmt"
	"net"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/runlog/runlog/cmd/runlog/internal/supervise"
)

// localNodes lays out three nodes on this machine, n1 to n3, on consecutive ports.
func localNodes(dir string, httpPort, raftPort int) []supervise.Node {
	nodes := make([]supervise.Node, 3)
	for i := range nodes {
		id := fmt.Sprintf("n%d", i+1)
		nodes[i] = supervise.Node{
			ID:   id,
			HTTP: net.JoinHostPort("127.0.0.1", strconv.Itoa(httpPort+i)),
			Raft: net.JoinHostPort("127.0.0.1", strconv.Itoa(raftPort+i)),
			Dir:  filepath.Join(dir, id),
		}
	}
	return nodes
}

// serveArgs returns what makes this binary serve as a node of nodes. Whatever else it should do it
// finds in the environment, which it shares with its parent.
func serveArgs(nodes []supervise.Node) func(supervise.Node) []string {
	members := make([]string, len(nodes))
	for i, n := range nodes {
		members[i] = fmt.Sprintf("%s=%s@%s", n.ID, n.Raft, n.HTTP)
	}
	bootstrap := strings.Join(members, ",")
	return func(n supervise.Node) []string {
		return []string{"serve", "--id", n.ID, "--data", n.Dir, "--http", n.HTTP, "--raft", n.Raft, "--bootstrap", bootstrap}
	}
}

// urls joins the nodes' URLs.
func urls(nodes []supervise.Node, sep string) string {
	all := make([]string, len(nodes))
	for i, n := range nodes {
		all[i] = n.URL()
	}
	return strings.Join(all, sep)
}

// portsFree returns an error that names the first address that somebody else listens on.
func portsFree(nodes []supervise.Node) error {
	for _, n := range nodes {
		for _, addr := range []string{n.HTTP, n.Raft} {
			l, err := net.Listen("tcp", addr)
			if err != nil {
				return fmt.Errorf("%s is taken (is a cluster running already?); --http-port and --raft-port choose others", addr)
			}
			l.Close()
		}
	}
	return nil
}

// anyPorts moves nodes to ports that nobody listens on now.
func anyPorts(nodes []supervise.Node) error {
	var held []net.Listener
	defer func() {
		for _, l := range held {
			l.Close()
		}
	}()
	for i := range nodes {
		for _, addr := range []*string{&nodes[i].HTTP, &nodes[i].Raft} {
			l, err := net.Listen("tcp", "127.0.0.1:0")
			if err != nil {
				return err
			}
			held = append(held, l)
			*addr = l.Addr().String()
		}
	}
	return nil
}
