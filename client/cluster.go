package client

import (
	"context"
	"fmt"
	"net/http"
)

// Cluster is the nodes as one of them sees them.
type Cluster struct {
	ClusterID string        `json:"clusterId"`
	Leader    string        `json:"leader"` // a node id; empty while there is none
	Nodes     []ClusterNode `json:"nodes"`
}

// ClusterNode is one node of a [Cluster].
type ClusterNode struct {
	ID           string `json:"id"`
	HTTP         string `json:"http"`
	Raft         string `json:"raft"`
	Role         string `json:"role"`
	Voter        bool   `json:"voter"`
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
