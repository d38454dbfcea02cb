package proptest

import (
	"io"
	"sync"
)

// journal is a host's stream that grows while it is replayed.
type journal struct {
	mu    sync.Mutex
	lines string
	ended bool
	grew  chan struct{}
}

func newJournal() *journal { return &journal{grew: make(chan struct{})} }

func (j *journal) change(f func()) {
	j.mu.Lock()
	defer j.mu.Unlock()
	f()
	close(j.grew)
	j.grew = make(chan struct{})
}

func (j *journal) add(line string) { j.change(func() { j.lines += line + "\n" }) }
func (j *journal) finish()         { j.change(func() { j.ended = true }) }

// open is a client.Source.
func (j *journal) open() (io.ReadCloser, error) {
	return &journalReader{j: j, closed: make(chan struct{})}, nil
}

type journalReader struct {
	j      *journal
	at     int
	once   sync.Once
	closed chan struct{}
}

// Read waits for what the journal does not hold yet.
func (r *journalReader) Read(p []byte) (int, error) {
	for {
		r.j.mu.Lock()
		n, ended, grew := copy(p, r.j.lines[r.at:]), r.j.ended, r.j.grew
		r.j.mu.Unlock()
		r.at += n
		switch {
		case n > 0:
			return n, nil
		case ended:
			return 0, io.EOF
		}
		select {
		case <-grew:
		case <-r.closed:
			return 0, io.ErrClosedPipe
		}
	}
}

// Close ends a Read that waits.
func (r *journalReader) Close() error {
	r.once.Do(func() { close(r.closed) })
	return nil
}
