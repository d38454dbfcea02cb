package client

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"time"
)

// Cluster is the nodes as one of them sees them.
type Cluster struct {
	ClusterID string        `json:"clusterId"`
	Leader    string        `json:"leader"` // a node id; empty while there is none
	Level     uint64        `json:"level"`  // of commands, that all members know
	Nodes     []ClusterNode `json:"nodes"`
}

// ClusterNode is one node of a [Cluster].
type ClusterNode struct {
	ID           string `json:"id"`
	HTTP         string `json:"http"`
	Raft         string `json:"raft"`
	Role         string `json:"role"`
	Voter        bool   `json:"voter"`
	Promoting    bool   `json:"promoting"` // it gets a vote once it has caught up
	AppliedIndex uint64 `json:"appliedIndex"`
	Lag          uint64 `json:"lag"` // committed entries that it has not applied
}

// Cluster reads the cluster's members.
func (c *Client) Cluster(ctx context.Context) (Cluster, error) {
	var cl Cluster
	if err := c.get(ctx, "/v1/cluster", nil, &cl); err != nil {
		return Cluster{}, fmt.Errorf("cluster: %w", err)
	}
	return cl, nil
}

// TransferLeadership asks the leader to hand over to another voter. It is not repeated when its
// outcome is unknown, since that would hand over twice.
func (c *Client) TransferLeadership(ctx context.Context) error {
	_, err := c.do(ctx, &call{method: http.MethodPost, path: "/v1/cluster/transfer-leadership", body: []byte("{}")})
	if err != nil {
		return fmt.Errorf("transfer leadership: %w", err)
	}
	return nil
}

// NewNode is a node that is to be a member of the cluster.
type NewNode struct {
	ID    string `json:"id"`
	Raft  string `json:"raft"`  // host:port that the other nodes dial; it listens there already
	HTTP  string `json:"http"`  // host:port of its HTTP API
	Voter bool   `json:"voter"` // it is to vote once it has caught up
}

// AddNode makes a node a member of the cluster. Repeating it changes nothing.
func (c *Client) AddNode(ctx context.Context, n NewNode) (Cluster, error) {
	body, err := json.Marshal(n)
	if err != nil {
		return Cluster{}, err
	}
	a, err := c.do(ctx, &call{method: http.MethodPost, path: "/v1/cluster/nodes", body: body, repeatable: true, patience: membershipPatience})
	var cl Cluster
	if err == nil {
		err = json.Unmarshal(a.body, &cl)
	}
	if err != nil {
		return Cluster{}, fmt.Errorf("add node %s: %w", n.ID, err)
	}
	return cl, nil
}

// RemoveNode takes a node out of the cluster. Its process goes on, not ready, until it is stopped.
func (c *Client) RemoveNode(ctx context.Context, id string) error {
	_, err := c.do(ctx, &call{method: http.MethodDelete, path: "/v1/cluster/nodes/" + url.PathEscape(id), repeatable: true, patience: membershipPatience})
	var p *Problem
	if errors.As(err, &p) && p.Code == "node_not_found" && errors.Is(err, ErrOutcomeUnknown) {
		return nil // an earlier attempt removed it
	}
	if err != nil {
		return fmt.Errorf("remove node %s: %w", id, err)
	}
	return nil
}

// membershipPatience bounds one attempt: the leader may have to hand over first.
const membershipPatience = 15 * time.Second

// Backup opens a backup of the state of one node. It is complete only if it can be read to its end
// and its checksum fits, which `runlog verify` checks. The caller closes it.
func (c *Client) Backup(ctx context.Context) (io.ReadCloser, error) {
	var last error
	start := c.current.Load()
	for n := range c.servers {
		req, err := c.request(ctx, c.server(start, n), &call{method: http.MethodGet, path: "/v1/backup", header: http.Header{"Accept": {"application/octet-stream"}}})
		if err != nil {
			return nil, err
		}
		resp, err := c.http.Do(req)
		if err != nil {
			last = err
			continue
		}
		if resp.StatusCode == http.StatusOK {
			return resp.Body, nil
		}
		last = readProblem(resp)
		resp.Body.Close()
	}
	return nil, fmt.Errorf("backup: %w: %w", ErrUnavailable, last)
}
