// Command supervisor takes over runs whose host has died: it watches what happens to runs, acquires
// each that lapses, and hands it to a command, with RUN and RUN_EPOCH in its environment, while it
// keeps the lease.
//
//	supervisor -servers http://127.0.0.1:4437,http://127.0.0.1:4438 -holder supervisor-1 ./resume.sh
//
// Several supervisors may run beside one another: a lease is granted to one of them.
package main

import (
	"context"
	"flag"
	"log"
	"os"
	"os/exec"
	"os/signal"
	"strconv"
	"strings"
	"sync"

	"github.com/runlog/runlog/client"
	"github.com/runlog/runlog/event"
)

func main() {
	servers := flag.String("servers", "http://127.0.0.1:4437", "the nodes' URLs, with commas")
	holder := flag.String("holder", "supervisor", "the holder to acquire for")
	flag.Parse()
	if flag.NArg() == 0 {
		log.Fatal("supervisor: no command to hand runs to")
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	c, err := client.New(client.Config{Servers: strings.Split(*servers, ",")})
	if err != nil {
		log.Fatal(err)
	}
	s := &supervisor{c, event.HolderID(*holder), flag.Args(), sync.WaitGroup{}}
	err = s.watch(ctx)
	s.runs.Wait()
	if ctx.Err() == nil {
		log.Fatal(err)
	}
}

type supervisor struct {
	*client.Client
	holder  event.HolderID
	command []string
	runs    sync.WaitGroup
}

// watch reads the tail first, then lists, then follows from that tail: nothing falls in between.
func (s *supervisor) watch(ctx context.Context) error {
	tail, err := s.ChangesTail(ctx)
	if err != nil {
		return err
	}
	for run, err := range s.Runs(ctx, event.RunQuery{Status: event.StatusRunning, Lease: event.LeaseStateLapsed}) {
		if err != nil {
			return err
		}
		s.takeOver(ctx, run.RunID)
	}
	for change, err := range s.Changes(ctx, client.ChangesFrom{Offset: tail}) {
		if err != nil {
			return err
		}
		if change.Change.Change == event.ChangeLapsed {
			s.takeOver(ctx, change.RunID)
		}
	}
	return nil
}

// takeOver acquires the run, unless somebody else was faster or the cluster has ended it, and hands it
// to the command. Should the command fail the lease is released: the next supervisor may try.
func (s *supervisor) takeOver(ctx context.Context, run event.RunID) {
	h, err := s.Takeover(ctx, run, client.Takeover{Holder: s.holder})
	if err != nil {
		log.Printf("run %s: %v", run, err)
		return
	}
	s.runs.Go(func() {
		defer h.Close()
		cmd := exec.CommandContext(h.Context(), s.command[0], s.command[1:]...)
		cmd.Env = append(os.Environ(), "RUN="+string(run), "RUN_EPOCH="+strconv.FormatUint(uint64(h.Epoch()), 10))
		cmd.Stdout, cmd.Stderr = os.Stdout, os.Stderr
		log.Printf("run %s: taken over at epoch %d", run, h.Epoch())
		if err := cmd.Run(); err != nil {
			log.Printf("run %s: %v", run, err)
			_ = h.Release(context.WithoutCancel(ctx), nil)
		}
	})
}
