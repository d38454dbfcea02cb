package load

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"net"
	"strconv"
	"time"
)

// Conn is one keep-alive connection. It is not safe for concurrent use.
type Conn struct {
	addr string
	c    net.Conn
	r    *bufio.Reader
}

// ioTimeout bounds one request, so that a server that hangs shows as an error and not as silence.
const ioTimeout = 15 * time.Second

// Dial connects to host:port.
func Dial(addr string) (*Conn, error) {
	c := &Conn{addr: addr}
	return c, c.connect()
}

func (c *Conn) connect() error {
	conn, err := net.DialTimeout("tcp", c.addr, 5*time.Second)
	if err != nil {
		return err
	}
	c.c = conn
	if c.r == nil {
		c.r = bufio.NewReaderSize(conn, 4096)
	} else {
		c.r.Reset(conn)
	}
	return nil
}

// Close closes the connection.
func (c *Conn) Close() {
	if c.c != nil {
		c.c.Close()
		c.c = nil
	}
}

// StatusError is an answer other than 2xx.
type StatusError struct {
	Status int
	Body   string
}

// Error returns the status and the beginning of the body.
func (e *StatusError) Error() string { return fmt.Sprintf("status %d: %s", e.Status, e.Body) }

// Do sends a preformatted request and reads the answer, whose body it drops unless it is a
// [*StatusError]. After any other error the next call connects anew.
func (c *Conn) Do(request []byte) error {
	if c.c == nil {
		if err := c.connect(); err != nil {
			return err
		}
	}
	if err := c.c.SetDeadline(time.Now().Add(ioTimeout)); err != nil {
		return err
	}
	_, err := c.c.Write(request)
	if err == nil {
		err = c.answer()
	}
	if err != nil && !errors.As(err, new(*StatusError)) {
		c.Close()
	}
	return err
}

func (c *Conn) answer() error {
	line, err := c.r.ReadSlice('\n')
	if err != nil {
		return err
	}
	if len(line) < 12 {
		return fmt.Errorf("status line %q", line)
	}
	status, err := strconv.Atoi(string(line[9:12]))
	if err != nil {
		return fmt.Errorf("status line %q", line)
	}
	length, err := c.header()
	if err != nil {
		return err
	}
	switch {
	case status == 204:
		return nil // has no body, whatever the header says
	case length < 0:
		c.Close()
		return errors.New("the answer has no Content-Length")
	case status/100 == 2:
		_, err = c.r.Discard(length)
		return err
	}
	body := make([]byte, min(length, 512))
	if _, err := io.ReadFull(c.r, body); err != nil {
		return err
	}
	if _, err := c.r.Discard(length - len(body)); err != nil {
		return err
	}
	return &StatusError{status, string(body)}
}

var contentLength = []byte("content-length:")

// header reads up to the body and returns its length, or -1 when none is given. Of answers to writes
// only a 204 has none.
func (c *Conn) header() (length int, err error) {
	length = -1
	for {
		line, err := c.r.ReadSlice('\n')
		if err != nil {
			return 0, err
		}
		if len(line) <= 2 {
			break
		}
		if len(line) > len(contentLength) && bytes.EqualFold(line[:len(contentLength)], contentLength) {
			if length, err = strconv.Atoi(string(bytes.TrimSpace(line[len(contentLength):]))); err != nil {
				return 0, err
			}
		}
	}
	return length, nil
}

// Request formats a request. header holds whole lines, each ending in CRLF.
func Request(method, host, path, header string, body []byte) []byte {
	return append(fmt.Appendf(nil, "%s %s HTTP/1.1\r\nHost: %s\r\n%sContent-Length: %d\r\n\r\n", method, path, host, header, len(body)), body...)
}
