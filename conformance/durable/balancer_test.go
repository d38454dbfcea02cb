package main

import (
	"io"
	"net"
	"testing"
)

// echo serves one name: each connection gets it back, and then what it sent.
func echo(t *testing.T, name string) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			text, _ := io.ReadAll(c)
			io.WriteString(c, name+string(text))
			c.Close()
		}
	}()
	return l.Addr().String()
}

// TestBalance: connections go to each backend in turn, pass bytes both ways, and skip a backend that
// is down.
func TestBalance(t *testing.T) {
	t.Parallel()
	down, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	down.Close()
	b, err := balance([]string{echo(t, "a"), echo(t, "b"), down.Addr().String()})
	if err != nil {
		t.Fatal(err)
	}
	defer b.close()
	got := map[string]int{}
	for range 6 {
		c, err := net.Dial("tcp", b.l.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		io.WriteString(c, "xyz")
		if err := c.(*net.TCPConn).CloseWrite(); err != nil {
			t.Fatal(err)
		}
		text, err := io.ReadAll(c)
		c.Close()
		if err != nil {
			t.Fatal(err)
		}
		got[string(text)]++
	}
	if got["axyz"] < 2 || got["bxyz"] < 2 || got["axyz"]+got["bxyz"] != 6 {
		t.Errorf("answers %v", got)
	}
	if n := b.counts(); n[0]+n[1] != 6 || n[2] != 0 {
		t.Errorf("connections %v", n)
	}
}

// TestBalancerCloses: an open connection does not keep the balancer up.
func TestBalancerCloses(t *testing.T) {
	t.Parallel()
	b, err := balance([]string{echo(t, "a")})
	if err != nil {
		t.Fatal(err)
	}
	c, err := net.Dial("tcp", b.l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	b.close()
	if _, err := io.ReadAll(c); err == nil {
		if _, err := net.Dial("tcp", b.l.Addr().String()); err == nil {
			t.Error("it still listens")
		}
	}
}
