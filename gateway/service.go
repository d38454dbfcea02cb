package gateway

import (
	"net/http"

	"github.com/gin-gonic/gin"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/runlog/runlog/docs"
)

func (g *Gateway) serviceRoutes() []route {
	shown := promhttp.HandlerFor(g.cfg.Registry, promhttp.HandlerOpts{})
	return []route{
		{http.MethodGet, "/", g.getLinks},
		{http.MethodGet, "/openapi.json", func(c *gin.Context) error {
			return writeJSON(c, http.StatusOK, docs.OpenAPI)
		}},
		{http.MethodGet, "/healthz", func(c *gin.Context) error {
			return writeJSON(c, http.StatusOK, []byte(`{"status":"ok"}`))
		}},
		{http.MethodGet, "/readyz", g.getReady},
		{http.MethodGet, "/metrics", func(c *gin.Context) error {
			shown.ServeHTTP(c.Writer, c.Request)
			return nil
		}},
	}
}

// getLinks is GET /: what a person with curl wants to know first.
func (g *Gateway) getLinks(c *gin.Context) error {
	return writeJSON(c, http.StatusOK, []byte(`{"name":"runlog","links":{`+
		`"runs":"/v1/runs","run":"/v1/runs/{runId}","events":"/v1/runs/{runId}/events",`+
		`"transcript":"/v1/runs/{runId}/transcript","tools":"/v1/runs/{runId}/tools","state":"/v1/runs/{runId}/state",`+
		`"threads":"/v1/threads","thread":"/v1/threads/{threadId}","changes":"/v1/changes","cluster":"/v1/cluster","openapi":"/openapi.json","healthz":"/healthz","readyz":"/readyz","metrics":"/metrics"}}`))
}

// readiness is GET /readyz's answer.
type readiness struct {
	Ready  bool    `json:"ready"`
	Checks []Check `json:"checks"`
}

// getReady is GET /readyz: 200 when every check holds, else 503 with the same body.
func (g *Gateway) getReady(c *gin.Context) error {
	serving := Check{Name: "serving", OK: !g.isDraining(), Detail: "requests are taken"}
	if !serving.OK {
		serving.Detail = "shutting down"
	}
	r := readiness{Ready: true, Checks: append(g.cluster.Ready(), serving)}
	status := http.StatusOK
	for _, check := range r.Checks {
		if !check.OK {
			r.Ready, status = false, http.StatusServiceUnavailable
		}
	}
	if !r.Ready {
		c.Writer.Header().Set("Retry-After", "1")
	}
	return writeValue(c, status, r)
}
