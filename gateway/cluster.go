package gateway

import (
	"net/http"

	"github.com/gin-gonic/gin"
)

func (g *Gateway) clusterRoutes() []route {
	return []route{
		{http.MethodGet, "/v1/cluster", g.getCluster},
		{http.MethodPost, "/v1/cluster/nodes", g.addNode},
		{http.MethodDelete, "/v1/cluster/nodes/:id", g.removeNode},
		{http.MethodGet, "/v1/backup", g.backup},
		{http.MethodPost, "/v1/cluster/transfer-leadership", g.transferLeadership},
	}
}

// getCluster is GET /v1/cluster.
func (g *Gateway) getCluster(c *gin.Context) error {
	m, err := g.cluster.Members(c.Request.Context())
	if err != nil {
		return err
	}
	if m.Nodes == nil {
		m.Nodes = []Member{}
	}
	return writeValue(c, http.StatusOK, m)
}

// transferLeadership is POST /v1/cluster/transfer-leadership.
func (g *Gateway) transferLeadership(c *gin.Context) error {
	if err := g.cluster.TransferLeadership(c.Request.Context()); err != nil {
		return err
	}
	c.Writer.WriteHeader(http.StatusNoContent)
	return nil
}
