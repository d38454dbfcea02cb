package main

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"time"

	"github.com/runlog/runlog/cmd/runlog/internal/load"
)

// benchFloorCmd measures what one append consists of at the least, on this machine and this disk:
// a request and its answer, the leader's fdatasync, the round trip to a follower and the
// follower's fdatasync. hashicorp/raft stores on the leader before it sends, so the two syncs come
// one after the other.
type benchFloorCmd struct {
	Data   string `help:"A directory on the disk to measure." default:"." placeholder:"DIR"`
	Rounds int    `help:"How often each part is measured." default:"2000"`
	Size   int    `help:"Bytes that are written and sent." default:"512"`
	Output string `short:"o" enum:"text,json" default:"text" help:"text or json."`
}

// floorPoint is the measurement as JSON: medians in nanoseconds.
type floorPoint struct {
	HTTP  time.Duration `json:"httpRoundTripNs"`
	Sync  time.Duration `json:"fdatasyncNs"`
	Peer  time.Duration `json:"peerRoundTripNs"`
	Floor time.Duration `json:"floorNs"`
}

// Validate refuses measurements of nothing.
func (c *benchFloorCmd) Validate() error {
	return positives("rounds", c.Rounds, "size", c.Size)
}

// Run measures the parts one after the other and prints their sum.
func (c *benchFloorCmd) Run(t *terminal) error {
	var p floorPoint
	for _, part := range []struct {
		into    *time.Duration
		measure func() (time.Duration, error)
	}{{&p.HTTP, c.http}, {&p.Sync, c.sync}, {&p.Peer, c.peer}} {
		d, err := part.measure()
		if err != nil {
			return err
		}
		*part.into = d
	}
	p.Floor = p.HTTP + 2*p.Sync + p.Peer
	if c.Output == "json" {
		return printJSONLine(t.out, p)
	}
	fmt.Fprintf(t.out, "floor %s = HTTP round trip %s + 2 × fdatasync %s + peer round trip %s (medians of %d)\n",
		p.Floor.Round(time.Microsecond), p.HTTP.Round(time.Microsecond), p.Sync.Round(time.Microsecond), p.Peer.Round(time.Microsecond), c.Rounds)
	return nil
}

// repeat returns the median duration of f.
func (c *benchFloorCmd) repeat(f func() error) (time.Duration, error) {
	var d []time.Duration
	for i := range c.Rounds + c.Rounds/10 {
		began := time.Now()
		if err := f(); err != nil {
			return 0, err
		}
		if i >= c.Rounds/10 {
			d = append(d, time.Since(began))
		}
	}
	p50, _ := load.Quantiles(d)
	return p50, nil
}

// http is a POST to net/http that does nothing with it.
func (c *benchFloorCmd) http() (time.Duration, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return 0, err
	}
	s := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		io.Copy(io.Discard, r.Body)
		io.WriteString(w, `{"firstOffset":1,"tail":2,"duplicate":false}`)
	})}
	go s.Serve(l)
	defer s.Close()
	addr := l.Addr().String()
	conn, err := load.Dial(addr)
	if err != nil {
		return 0, err
	}
	defer conn.Close()
	request := load.Request("POST", addr, "/", jsonHeader, benchDelta(c.Size))
	return c.repeat(func() error { return conn.Do(request) })
}

// sync is a write into a file whose blocks are there, and an fdatasync: what a log segment costs.
func (c *benchFloorCmd) sync() (time.Duration, error) {
	f, err := os.CreateTemp(c.Data, ".runlog-floor-*")
	if err != nil {
		return 0, err
	}
	defer os.Remove(f.Name())
	defer f.Close()
	if _, err := f.Write(make([]byte, 4<<20)); err != nil {
		return 0, err
	}
	if err := f.Sync(); err != nil {
		return 0, err
	}
	record, at := []byte(filler(c.Size)), int64(0)
	return c.repeat(func() error {
		if _, err := f.WriteAt(record, at); err != nil {
			return err
		}
		at = (at + int64(len(record))) % (4<<20 - int64(len(record)))
		return dataSync(f)
	})
}

// peer is a message to a process that answers with a few bytes, over loopback TCP.
func (c *benchFloorCmd) peer() (time.Duration, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return 0, err
	}
	defer l.Close()
	go answer(l, c.Size)
	conn, err := net.Dial("tcp", l.Addr().String())
	if err != nil {
		return 0, err
	}
	defer conn.Close()
	message, reply := make([]byte, c.Size), make([]byte, 16)
	return c.repeat(func() error {
		if _, err := conn.Write(message); err != nil {
			return err
		}
		_, err := io.ReadFull(conn, reply)
		return err
	})
}

// answer replies to each message of one connection until it is closed.
func answer(l net.Listener, size int) {
	conn, err := l.Accept()
	if err != nil {
		return
	}
	defer conn.Close()
	message, reply := make([]byte, size), make([]byte, 16)
	for {
		if _, err := io.ReadFull(conn, message); err != nil {
			return
		}
		if _, err := conn.Write(reply); err != nil {
			return
		}
	}
}
