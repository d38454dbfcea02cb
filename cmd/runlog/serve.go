package main

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"net/netip"
	"os"
	"runtime/debug"
	"strings"
	"sync"
	"time"

	"github.com/runlog/runlog/raftlog"
)

// serveCmd runs one node.
type serveCmd struct {
	ID        string   `help:"This node's id; the same for the life of its data." required:"" placeholder:"n1"`
	Data      string   `help:"Directory of this node's data." required:"" placeholder:"DIR"`
	HTTP      string   `name:"http" help:"Address to serve HTTP on." default:"127.0.0.1:4437" placeholder:"HOST:PORT"`
	Raft      string   `help:"Address for the other nodes, as they reach it." default:"127.0.0.1:5437" placeholder:"HOST:PORT"`
	Bootstrap []string `help:"All members of a new cluster, the same list on each: n1=RAFT@HTTP,n2=RAFT@HTTP,…" placeholder:"MEMBER,…"`
	Join      []string `help:"Nodes of a cluster to become a member of, instead of --bootstrap." placeholder:"URL,…"`
	Voter     bool     `help:"With --join: get a vote once caught up." default:"true" negatable:""`
	Insecure  bool     `help:"Serve beyond loopback although nothing asks who is calling."`

	WebhookAllow []netip.Prefix `help:"Networks that webhooks of subscriptions may go to although they are private or loopback." placeholder:"CIDR,…"`

	LogStore         string        `help:"Raft log store, fixed by the first start: wal or bolt." enum:"wal,bolt" default:"wal"`
	HeartbeatTimeout time.Duration `help:"How long a follower goes without its leader before it stands for election." default:"500ms"`
	ElectionTimeout  time.Duration `help:"How long a candidate waits for votes." default:"500ms"`
	CommitTimeout    time.Duration `help:"How late an idle leader tells its followers what is committed." default:"5ms"`

	LongPoll     time.Duration `help:"How long a long poll of a stream waits for a message; less than what proxies in between allow." default:"15s"`
	StreamWindow time.Duration `help:"After how long a stream's server-sent events end, for their reader to come back." default:"1m"`
	Level        uint64        `help:"Know no newer commands than those of this level; for tests." hidden:""`
	MinLease     time.Duration `help:"The shortest lease; less than a second is for tests." default:"1s" hidden:""`

	LogLevel    string `help:"debug, info, warn or error." enum:"debug,info,warn,error" default:"info"`
	LogFormat   string `help:"text or json." enum:"text,json" default:"text"`
	MemoryLimit int64  `help:"Soft limit of the heap in MiB, unless GOMEMLIMIT is set." default:"512" placeholder:"MIB"`
	DebugAddr   string `help:"Serve pprof on this loopback address." placeholder:"HOST:PORT"`
}

// Run serves until ctx is done, or the node cannot go on.
func (c *serveCmd) Run(ctx context.Context, t *terminal) error {
	members, err := parseMembers(c.Bootstrap)
	if err != nil {
		return usageError(err.Error())
	}
	if err := c.checkAddresses(); err != nil {
		return err
	}
	if len(c.Join) > 0 && len(members) > 0 {
		return usageError("--join and --bootstrap exclude each other")
	}
	c.tuneGC()
	log := c.logger(t)
	n, err := openNode(c, members, log)
	if err != nil {
		log.Error("start failed", "node", c.ID, "error", err)
		return errReported
	}
	joining, stop := context.WithCancel(ctx)
	var join sync.WaitGroup
	if len(c.Join) > 0 {
		join.Go(func() { n.join(joining, c) })
	}
	err = n.serve(ctx)
	stop()
	join.Wait()
	if err != nil {
		log.Error("node stopped", "node", c.ID, "error", err)
		return errReported
	}
	return nil
}

// checkAddresses refuses what would let anybody in: there is no access control.
func (c *serveCmd) checkAddresses() error {
	for _, a := range [][2]string{{"--http", c.HTTP}, {"--raft", c.Raft}} {
		flag, addr := a[0], a[1]
		if _, _, err := net.SplitHostPort(addr); err != nil {
			return usageError(fmt.Sprintf("%s %q is not host:port", flag, addr))
		}
		if !loopback(addr) && !c.Insecure {
			return usageError(fmt.Sprintf("%s %s can be reached from other machines and nothing asks who is calling; --insecure allows it", flag, addr))
		}
	}
	if c.DebugAddr != "" && !loopback(c.DebugAddr) {
		return usageError("--debug-addr must be a loopback address")
	}
	return nil
}

// loopback reports whether only this machine reaches addr.
func loopback(addr string) bool {
	host, _, err := net.SplitHostPort(addr)
	if err != nil {
		return false
	}
	if host == "localhost" {
		return true
	}
	ip := net.ParseIP(host)
	return ip != nil && ip.IsLoopback()
}

// tuneGC trades memory for fewer collections, which is worth a few per cent of the appends, within
// a soft limit. The environment has the last word.
func (c *serveCmd) tuneGC() {
	if _, ok := os.LookupEnv("GOGC"); !ok {
		debug.SetGCPercent(400)
	}
	if _, ok := os.LookupEnv("GOMEMLIMIT"); !ok {
		debug.SetMemoryLimit(c.MemoryLimit << 20)
	}
}

func (c *serveCmd) logger(t *terminal) *slog.Logger {
	var level slog.Level
	if err := level.UnmarshalText([]byte(c.LogLevel)); err != nil {
		panic(err) // the flag's enum allows levels only
	}
	options := &slog.HandlerOptions{Level: level}
	if c.LogFormat == "json" {
		return slog.New(slog.NewJSONHandler(t.err, options))
	}
	return slog.New(slog.NewTextHandler(t.err, options))
}

// parseMembers reads n1=RAFT@HTTP, one a member.
func parseMembers(list []string) ([]raftlog.Member, error) {
	members := make([]raftlog.Member, len(list))
	for i, s := range list {
		id, addrs, ok := strings.Cut(s, "=")
		raft, http, ok2 := strings.Cut(addrs, "@")
		if !ok || !ok2 || id == "" || raft == "" || http == "" {
			return nil, fmt.Errorf("member %q is not ID=RAFT@HTTP", s)
		}
		members[i] = raftlog.Member{ID: id, Raft: raft, HTTP: http}
	}
	return members, nil
}
