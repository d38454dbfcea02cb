package raftlog

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

func TestProposeThroughEveryNode(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t, nil)
		defer c.close()
		c.leader()
		ctx := context.Background()
		var wg sync.WaitGroup
		for i, n := range c.nodes {
			for k := range 50 {
				wg.Go(func() {
					r, err := n.Propose(ctx, appendOf("r", fmt.Sprintf(`{"n":%d,"k":%d}`, i, k)))
					if err != nil || r.Refusal != nil || r.Appended.Tail != r.Appended.FirstOffset+1 {
						t.Errorf("propose through %s: %+v, %v", n.id, r, err)
					}
				})
			}
		}
		wg.Wait()
		c.settle()
		want := c.nodes[0].fake.raws("r")
		if len(want) != 150 {
			t.Fatalf("%d events", len(want))
		}
		for _, n := range c.nodes {
			if got := n.fake.raws("r"); !slices.Equal(got, want) {
				t.Errorf("%s holds %d events, not the same %d", n.id, len(got), len(want))
			}
		}
		sorted := slices.Clone(want)
		slices.Sort(sorted)
		if len(slices.Compact(sorted)) != 150 {
			t.Error("an event is there twice")
		}
	})
}

func TestStatusAndReady(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t, nil)
		defer c.close()
		l := c.leader()
		c.settle()
		for _, n := range c.nodes {
			cs, err := n.Cluster(context.Background())
			if err != nil || cs.Leader != c.nodes[l].id || cs.ClusterID == "" || len(cs.Nodes) != 3 {
				t.Fatalf("%s: cluster %+v, %v", n.id, cs, err)
			}
			for _, m := range cs.Nodes {
				if m.AppliedIndex == nil || !m.Voter || m.HTTP != m.ID+".http" {
					t.Errorf("%s says of %+v", n.id, m)
				}
			}
			for _, ch := range n.Ready() {
				if !ch.OK {
					t.Errorf("%s: %+v", n.id, ch)
				}
			}
		}
		c.fabric.Isolate("n1")
		time.Sleep(3 * time.Second)
		cs, err := c.nodes[1].Cluster(context.Background())
		if err != nil || cs.Nodes[0].Role != RoleUnreachable || cs.Nodes[0].AppliedIndex != nil {
			t.Errorf("cluster without n1: %+v, %v", cs, err)
		}
		if ch := c.nodes[0].Ready()[0]; ch.OK {
			t.Errorf("cut off, n1 says %+v", ch)
		}
		c.fabric.Heal("n1")
	})
}
