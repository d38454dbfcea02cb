package projection

import (
	"encoding/json"

	"github.com/runlog/runlog/event"
)

// Terminal reads what a run's terminal event says about its end: of a RUN_ERROR the error and
// the usage, of a RUN_FINISHED the outcome, the usage and the result. What is absent, null or
// malformed is nil; so is everything for an event of another type. The results alias raw.
func Terminal(raw []byte) (err *event.RunError, outcome, usage, result json.RawMessage) {
	var f fields
	if !f.parse(raw) {
		return nil, nil, nil, nil
	}
	switch f.typ {
	case event.TypeRunError:
		err = &event.RunError{Message: goString(f.get(fMessage)), Code: goString(f.get(fCode))}
		return err, nil, f.present(fUsage), nil
	case event.TypeRunFinished:
		return nil, f.present(fOutcome), f.present(fUsage), f.present(fResult)
	}
	return nil, nil, nil, nil
}

func (f *fields) present(n field) json.RawMessage {
	if v := f.get(n); v != nil && !isNull(v) {
		return json.RawMessage(v)
	}
	return nil
}
