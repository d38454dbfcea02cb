package main

import (
	"errors"
	"fmt"
	"net"
	"net/http"
	"strconv"
)

// control lets tests in other processes have nodes killed and started:
//
//	GET  /leader          the number of the node that leads, 0 to 2
//	POST /kill/{node}     kill -9; answers once it is gone
//	POST /start/{node}    answers once it is ready
type control struct {
	c *cluster
	s *http.Server
	l net.Listener
}

func serveControl(c *cluster) (*control, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	k := &control{c: c, l: l}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /leader", func(w http.ResponseWriter, r *http.Request) {
		i, err := c.leader(r.Context())
		if err != nil {
			http.Error(w, err.Error(), http.StatusServiceUnavailable)
			return
		}
		fmt.Fprint(w, i)
	})
	mux.HandleFunc("POST /kill/{node}", k.onNode(func(_ *http.Request, i int) error {
		c.kill(i)
		return nil
	}))
	mux.HandleFunc("POST /start/{node}", k.onNode(func(r *http.Request, i int) error {
		if err := c.start(i); err != nil {
			return err
		}
		return c.ready(r.Context(), i)
	}))
	k.s = &http.Server{Handler: mux}
	go k.s.Serve(l)
	return k, nil
}

func (k *control) url() string { return "http://" + k.l.Addr().String() }

func (k *control) close() { k.s.Close() }

func (k *control) onNode(f func(*http.Request, int) error) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		i, err := strconv.Atoi(r.PathValue("node"))
		if err == nil && (i < 0 || i >= nodes) {
			err = errors.New("there is no such node")
		}
		if err == nil {
			err = f(r, i)
		}
		if err != nil {
			http.Error(w, err.Error(), http.StatusInternalServerError)
		}
	}
}
