package gateway

import (
	"net/http"

	"github.com/gin-gonic/gin"

	"github.com/runlog/runlog/event"
)

// deleteThread is DELETE /v1/threads/{threadId}: all its runs, when none is open.
func (g *Gateway) deleteThread(c *gin.Context) error {
	id, err := threadID(c)
	if err != nil {
		return err
	}
	if _, err := g.propose(c, event.DeleteThread{Thread: id}); err != nil {
		return err
	}
	c.Writer.WriteHeader(http.StatusNoContent)
	return nil
}
