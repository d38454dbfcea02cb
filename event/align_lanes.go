package event

// chunkStream is a stream that a *_CHUNK opened and nothing has closed.
type chunkStream struct {
	typ  Type
	lane string
	key  string // of its deltas
}

// chunkLanes follows which chunk stream each lane has open, by the rules of [Walk], so that a chunk
// without an id finds its stream. Other than there a CUSTOM event closes nothing: a replay may
// leave it out, and must then mean the same.
type chunkLanes struct{ open []chunkStream }

// take moves on over one event; it sets what the event means as a part of a chunk stream.
func (l *chunkLanes) take(it *item) {
	switch it.typ {
	case TypeTextMessageChunk, TypeReasoningMessageChunk:
		l.chunk(it, "m", textOf(valueOf(it.members, "messageId")))
	case TypeToolCallChunk:
		l.chunk(it, "t", textOf(valueOf(it.members, "toolCallId")))
	case TypeRunStarted, TypeRunFinished, TypeRunError, TypeMessagesSnapshot:
		l.open = l.open[:0] // it is a wall: no delta passes it anyway
	case TypeRaw, TypeCustom, TypeUnknown, TypeActivitySnapshot, TypeActivityDelta,
		TypeReasoningEncryptedValue, TypeSubagentStarted:
	default: // SUBAGENT_FINISHED and SUBAGENT_ERROR carry the lane they end in the same member
		l.close(it)
	}
}

// chunk finds the stream of a chunk, or opens one.
func (l *chunkLanes) chunk(it *item, prefix, id string) {
	if held := l.find(it, prefix+id, id != ""); held != nil {
		it.key, it.class = held.key, classDelta
		return
	}
	it.class = classStrict
	l.close(it)
	if id == "" {
		it.odd = true // no stream: projections ignore it, and all of it is compared
		return
	}
	it.key, it.opens = prefix+id, true
	it.bounds = append(it.bounds, it.key)
	if len(l.open) == MaxOpenSpans {
		l.open = l.open[1:]
	}
	l.open = append(l.open, chunkStream{it.typ, it.lane, it.key})
}

func (l *chunkLanes) find(it *item, key string, named bool) *chunkStream {
	var only *chunkStream
	n := 0
	for i := range l.open {
		s := &l.open[i]
		switch {
		case s.typ != it.typ:
		case named && s.key == key, !named && s.lane == it.lane:
			return s
		case !named:
			only, n = s, n+1
		}
	}
	if it.lane == "" && n == 1 {
		return only
	}
	return nil
}

// has reports whether the stream of that key is open.
func (l *chunkLanes) has(key string) bool {
	for i := range l.open {
		if l.open[i].key == key {
			return true
		}
	}
	return false
}

// close ends the stream of the event's lane: none of its deltas comes after the event.
func (l *chunkLanes) close(it *item) {
	for i := range l.open {
		if l.open[i].lane == it.lane {
			it.bounds = append(it.bounds, l.open[i].key)
			it.closes = append(it.closes, l.open[i].key)
			l.open = append(l.open[:i], l.open[i+1:]...)
			return
		}
	}
}
