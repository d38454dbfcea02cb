package raftlog

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"time"
)

// handshake is what the ends of a raft connection say before anything else, each as a 16-bit length
// and JSON: the one that opened it a [Greeting], the other one its own in return. A vote or an
// entry of a node that is not who it should be is thereby never seen.
type handshake struct {
	mine  func() Greeting
	back  func(*Greeting) Greeting
	judge func(*Greeting) error
}

const handshakeTimeout = 2 * time.Second

// open greets on a connection that this node opened, and closes it when either end refuses.
func (h handshake) open(c net.Conn) error {
	_ = c.SetDeadline(time.Now().Add(handshakeTimeout))
	mine := h.mine()
	theirs := new(Greeting)
	err := writeGreeting(c, &mine)
	if err == nil {
		err = readGreeting(c, theirs)
	}
	if err == nil {
		err = h.judge(theirs)
	}
	if err == nil {
		err = c.SetDeadline(time.Time{})
	}
	if err != nil {
		c.Close()
	}
	return err
}

// accept answers on a connection that another node opened.
func (h handshake) accept(c net.Conn) error {
	_ = c.SetDeadline(time.Now().Add(handshakeTimeout))
	theirs := new(Greeting)
	if err := readGreeting(c, theirs); err != nil {
		return err
	}
	mine := h.back(theirs)
	if err := writeGreeting(c, &mine); err != nil {
		return err
	}
	if mine.Refused != "" {
		return errors.New(mine.Refused)
	}
	return c.SetDeadline(time.Time{})
}

func writeGreeting(w io.Writer, g *Greeting) error {
	b, err := json.Marshal(g)
	if err != nil {
		return err
	}
	_, err = w.Write(append(binary.BigEndian.AppendUint16(nil, uint16(len(b))), b...))
	return err
}

func readGreeting(r io.Reader, g *Greeting) error {
	var size [2]byte
	if _, err := io.ReadFull(r, size[:]); err != nil {
		return err
	}
	b := make([]byte, binary.BigEndian.Uint16(size[:]))
	if _, err := io.ReadFull(r, b); err != nil {
		return err
	}
	if err := json.Unmarshal(b, g); err != nil {
		return fmt.Errorf("not a greeting: %w", err)
	}
	return nil
}
