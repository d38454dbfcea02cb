package projection

import "github.com/runlog/runlog/event"

// stateFold folds STATE_SNAPSHOT and STATE_DELTA into AG-UI's shared state, which starts as {}.
type stateFold struct {
	doc *document
	set bool // some event spoke of the state
}

func newState() *stateFold { return &stateFold{doc: newDocument([]byte("{}"))} }

// Apply folds one record in. A patch that does not apply changes nothing.
func (s *stateFold) Apply(r event.Record) {
	var f fields
	if !f.parse(r.Raw) {
		return
	}
	switch f.typ {
	case event.TypeStateSnapshot:
		s.doc, s.set = newDocument(f.get(fSnapshot)), true
	case event.TypeStateDelta:
		if ops, ok := parsePatch(f.get(fDelta)); ok && s.doc.apply(ops) {
			s.set = true
		}
	}
}

// AppendJSON appends the state.
func (s *stateFold) AppendJSON(dst []byte) []byte { return s.doc.appendJSON(dst) }

// Size estimates the serialised size in bytes.
func (s *stateFold) Size() int { return s.doc.size + 8 }

// stateVersion is the layout that MarshalBinary writes: kind, version, set, the state's JSON.
const stateVersion = 1

// MarshalBinary returns the fold.
func (s *stateFold) MarshalBinary() ([]byte, error) {
	e := newEncoder(KindState, stateVersion, s.Size())
	e.bool(s.set)
	e.bytes(s.doc.appendJSON(nil))
	return e.out, nil
}

// UnmarshalBinary replaces the fold.
func (s *stateFold) UnmarshalBinary(data []byte) error {
	d, err := newDecoder(KindState, stateVersion, data)
	if err != nil {
		return err
	}
	n := stateFold{set: d.bool()}
	n.doc = newDocument(d.bytes())
	if err := d.end(); err != nil {
		return err
	}
	*s = n
	return nil
}
