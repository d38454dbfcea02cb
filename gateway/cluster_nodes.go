package gateway

import (
	"errors"
	"io"
	"net/http"
	"time"

	"github.com/gin-gonic/gin"
)

// NewNode is a node that is to be a member of the cluster.
type NewNode struct {
	ID    string
	Raft  string // host:port that the other nodes dial
	HTTP  string // host:port of its HTTP API
	Voter bool   // it is to vote once it has caught up
}

// addNode is POST /v1/cluster/nodes.
func (g *Gateway) addNode(c *gin.Context) error {
	o, err := bodyObject(c)
	if err != nil {
		return err
	}
	spec := NewNode{ID: o.required("id"), Raft: o.text("raft", 256), HTTP: o.text("http", 256), Voter: o.flag("voter", true)}
	if spec.Raft == "" {
		o.fail("raft", "is missing")
	}
	if o.err != nil {
		return o.err
	}
	if err := g.cluster.AddNode(c.Request.Context(), spec); err != nil {
		return err
	}
	return g.getCluster(c)
}

// removeNode is DELETE /v1/cluster/nodes/{id}.
func (g *Gateway) removeNode(c *gin.Context) error {
	id, err := pathID(c, "id")
	if err != nil {
		return err
	}
	if err := g.cluster.RemoveNode(c.Request.Context(), id); err != nil {
		return err
	}
	c.Writer.WriteHeader(http.StatusNoContent)
	return nil
}

// backup is GET /v1/backup. It holds everything that was acknowledged before it was asked for, unless
// consistency=local. A backup that fails on its way ends without its trailer, and the connection with it.
func (g *Gateway) backup(c *gin.Context) error {
	q := newQuery(c.Request)
	linearizable := q.oneOf("consistency", "linearizable", "local", "linearizable") == "linearizable"
	if q.err != nil {
		return q.err
	}
	if err := g.settle(c.Request.Context(), "", freshness{linearizable: linearizable}); err != nil {
		return err
	}
	if err := liftDeadlines(c); err != nil {
		return err
	}
	defer restoreDeadline(c)
	w := &backupWriter{c: c, rc: http.NewResponseController(c.Writer)}
	err := g.cluster.Backup(c.Request.Context(), w)
	if err == nil || !w.begun {
		return err
	}
	if !errors.Is(err, c.Request.Context().Err()) {
		g.log.Error("backup failed", "error", err)
	}
	panic(http.ErrAbortHandler) // a backup that was cut off must not look complete
}

// backupWriter begins the answer with the first byte, and gives a client that does not read a minute.
type backupWriter struct {
	c     *gin.Context
	rc    *http.ResponseController
	begun bool
}

var _ io.Writer = (*backupWriter)(nil)

// Write implements io.Writer.
func (w *backupWriter) Write(b []byte) (int, error) {
	if !w.begun {
		w.begun = true
		h := w.c.Writer.Header()
		h["Content-Type"] = []string{"application/octet-stream"}
		h["Content-Disposition"] = []string{`attachment; filename="runlog.backup"`}
		w.c.Writer.WriteHeader(http.StatusOK)
	}
	if err := ignoreUnsupported(w.rc.SetWriteDeadline(time.Now().Add(writeTimeout))); err != nil {
		return 0, err
	}
	return w.c.Writer.Write(b)
}
