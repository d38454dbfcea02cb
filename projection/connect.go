package projection

import (
	"encoding/json"

	"github.com/runlog/runlog/event"
)

// Connect is [Prelude] for a client that may hold messages already; held are their ids, in its
// order. The client merges a MESSAGES_SNAPSHOT into what it holds and keeps its own order, so that
// a result which came in the middle since would end up last. When that would happen a snapshot of
// the first message alone goes before the real one: it makes the client let go of the others.
func Connect(run event.RunID, thread event.ThreadID, transcript, state Fold, held []string) [][]byte {
	t := transcript.(*transcriptFold)
	var first []byte
	if t.misplaces(held) {
		m := &message{id: t.conv.head.msg.id, role: roleReasoning, kind: contentText}
		first = m.appendJSON([]byte(`{"type":"MESSAGES_SNAPSHOT","messages":[`))
		first = append(first, ']')
		if t.hasActivity() { // else the activities are the client's own
			first = append(first, `,"metadata":{"@ag-ui/client":{"authoritativeActivityTypes":null}}`...)
		}
		first = append(first, '}')
	}
	return prelude(run, thread, t, state, first)
}

// misplaces reports whether a client that holds these ids would order the transcript otherwise:
// whether those of them that the transcript names are not its first ones, or an id stands twice. Clients do not tell the
// activities that they hold.
func (t *transcriptFold) misplaces(held []string) bool {
	e := t.conv.head
	repeats := len(t.conv.unique()) != t.conv.len
	for _, id := range held {
		for e != nil && e.msg.role == roleActivity {
			e = e.next
		}
		if t.conv.byID[id] == nil {
			continue // the snapshot drops it
		}
		if e == nil || keyOf(e.msg.id) != id || repeats {
			return t.conv.head.msg.id != ""
		}
		e = e.next
	}
	return false
}

func (t *transcriptFold) hasActivity() bool {
	for e := t.conv.head; e != nil; e = e.next {
		if e.msg.role == roleActivity {
			return true
		}
	}
	return false
}

// ConnectEnd returns the event that ends a connection to a thread without an open run. terminal is
// the last run's terminal event, pending what the thread's interrupts that nobody has answered say,
// each an AG-UI interrupt. The client takes what waits for an answer from the last RUN_FINISHED
// alone: pending interrupts are told by one, also when a run has failed since, and answered ones
// are not told again. Otherwise the connection ends as the run did.
func ConnectEnd(run event.RunID, thread event.ThreadID, terminal []byte, pending []json.RawMessage) []byte {
	_, outcome, _, _ := Terminal(terminal)
	waits := string(keyBytes(memberOf(outcome, "type"))) == "interrupt"
	if len(pending) == 0 && !waits {
		return terminal
	}
	b := appendMember([]byte(`{"type":"RUN_FINISHED"`), "threadId", quote(string(thread)))
	b = appendMember(b, "runId", quote(string(run)))
	if len(pending) == 0 {
		return append(b, '}')
	}
	b = append(b, `,"outcome":{"type":"interrupt","interrupts":[`...)
	for i, p := range pending {
		if i > 0 {
			b = append(b, ',')
		}
		b = append(b, p...)
	}
	return append(b, "]}}"...)
}

// ConnectEmpty returns all that a client is sent that connects to a thread without runs. There is
// no MESSAGES_SNAPSHOT: it would take away what the client shows before the first run.
func ConnectEmpty(run event.RunID, thread event.ThreadID) [][]byte {
	ids := appendMember(appendMember([]byte{'{'}, "threadId", quote(string(thread))), "runId", quote(string(run)))
	return [][]byte{
		append(append([]byte(`{"type":"RUN_STARTED",`), ids[1:]...), '}'),
		append(append([]byte(`{"type":"RUN_FINISHED",`), ids[1:]...), '}'),
	}
}
