package event

// AppendTarget returns the run and the epoch of an append that [AppendCommand] encoded, without
// decoding its events; ok is false for any other command, and for an append without an epoch.
func AppendTarget(encoded []byte) (run RunID, epoch Epoch, ok bool) {
	w := wire{b: encoded}
	kind := Kind(w.byte())
	body := wire{b: w.bytes()}
	if w.err != nil || kind != KindAppend && kind != KindAppendRunStream {
		return "", 0, false
	}
	run = RunID(body.string())
	e := body.optional()
	if body.err != nil || e == nil {
		return "", 0, false
	}
	return run, Epoch(*e), true
}
