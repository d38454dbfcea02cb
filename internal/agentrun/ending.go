package agentrun

import (
	"math/rand/v2"
	"strings"

	"github.com/runlog/runlog/event"
)

// Ending makes a run as Generate does, one that a strict run accepts to its end; it names the run, and the
// thread "t-" and the same.
func Ending(r *rand.Rand, id event.RunID) []event.Event {
	for {
		run := Generate(r)
		if !run[len(run)-1].Header.Type.Terminal() || !IsStrict(run) {
			continue
		}
		names := strings.NewReplacer(`"runId":"r"`, `"runId":"`+string(id)+`"`, `"threadId":"t"`, `"threadId":"t-`+string(id)+`"`)
		for i := range run {
			e, err := event.ParseEvent([]byte(names.Replace(string(run[i].Raw))))
			if err != nil {
				panic(err)
			}
			run[i] = e
		}
		return run
	}
}
