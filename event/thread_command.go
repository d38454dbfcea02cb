package event

// KindDeleteThread is the command kind of [DeleteThread].
const KindDeleteThread Kind = 40

// DeleteThread deletes every run of a thread and what the thread remembers of interrupts. It is
// refused (RunActive) while a run of it is open. A thread without runs is no error. Its runs' ids and
// ordinals stay used; a later run of the thread gets the next ordinal.
type DeleteThread struct {
	Thread ThreadID
}

// Kind returns the command's number.
func (DeleteThread) Kind() Kind { return KindDeleteThread }

// appendThreadCommand appends the body of a command about threads; false: it is none.
func appendThreadCommand(dst []byte, c Command) ([]byte, bool) {
	if c, ok := c.(DeleteThread); ok {
		return appendBytes(dst, c.Thread), true
	}
	return dst, false
}

// threadCommand decodes what appendThreadCommand wrote; nil: kind is none of its kinds.
func (w *wire) threadCommand(kind Kind) Command {
	if kind == KindDeleteThread {
		return DeleteThread{Thread: ThreadID(w.string())}
	}
	return nil
}
