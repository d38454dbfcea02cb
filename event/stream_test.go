package event

import (
	"strings"
	"testing"

	"pgregory.net/rapid"
)

func genStreamCommand(t *rapid.T) Command {
	messages := rapid.SliceOfN(rapid.SliceOfN(rapid.Byte(), 0, 9), 1, 3).Draw(t, "messages")
	return rapid.SampledFrom([]Command{
		&CreateStream{Name: "s/a", ContentType: "text/plain", TTLSeconds: ptr(int64(60)), Closed: true, Messages: messages, Key: IdempotencyKey{4}},
		&CreateStream{Name: "s", ExpiresAt: ptr(Time(1)), Fork: &Fork{Source: "r", OfRun: true, Generation: "g", At: ptr(Offset(3)), Requested: ptr(Offset(2)), Sub: 1}},
		&CreateStream{Name: "s", Fork: &Fork{Source: "o"}},
		&AppendStream{Name: "s", ContentType: JSONContentType, Messages: messages, Close: true, Seq: "\x00a", Producer: &Producer{"p", 1, 2}},
		&AppendStream{Name: "s", Close: true}, DeleteStream{"s"}, TouchStream{"s", "g"}, ExpireStream{"s", "g"},
	}).Draw(t, "stream command")
}

func goldenStreamCommands() map[string]Command {
	return map[string]Command{
		"create_stream": &CreateStream{Name: "chat/1", ContentType: "text/plain", TTLSeconds: ptr(int64(60)), Closed: true,
			Messages: [][]byte{[]byte("one"), []byte("two")}, Key: IdempotencyKey{1, 2}},
		"create_fork": &CreateStream{Name: "chat/2", ExpiresAt: ptr(Time(1_700_000_000_000)),
			Fork: &Fork{Source: "r1", OfRun: true, Generation: "g1", At: ptr(Offset(300)), Requested: ptr(Offset(299)), Sub: 1}},
		"append_stream": &AppendStream{Name: "chat/1", ContentType: JSONContentType, Messages: [][]byte{[]byte(`{"a":1}`)}, Close: true, Seq: "007",
			Producer: &Producer{"p", 1, 2}},
		"delete_stream": DeleteStream{"chat/1"},
		"touch_stream":  TouchStream{"chat/1", "g1"},
		"expire_stream": ExpireStream{"chat/1", "g1"},
	}
}

func fullStreamRefusals() []Refusal {
	return []Refusal{
		&StreamNotFound{}, &StreamGone{}, &StreamExists{What: "ttl"}, &StreamClosed{Tail: 4}, &ContentTypeConflict{ContentType: "text/plain"},
		&StreamSeqConflict{LastSeq: "9"}, &ProducerReset{ProducerEpoch: 3}, &ForkSource{Gone: true}, &ForkOffset{Tail: 8},
	}
}

func genStreamResult(t *rapid.T) *StreamResult {
	return &StreamResult{
		Stream: Stream{Name: "s", Generation: "g", ContentType: "text/plain", Tail: Offset(rapid.Uint64Range(0, 1<<50).Draw(t, "stream tail")), Closed: true,
			TTLSeconds: ptr(int64(0)), ExpiresAt: ptr(Time(5)), IdleMs: 7, Fork: &Fork{Source: "o", At: ptr(Offset(0))}, Gone: true, LastSeq: "z"},
		Duplicate: rapid.Bool().Draw(t, "stream dup"), ProducerEpoch: 1, ProducerSeq: rapid.Uint64().Draw(t, "seq"),
	}
}

func TestCheckStreamName(t *testing.T) {
	t.Parallel()
	for name, ok := range map[string]bool{
		"a": true, "a/b/c": true, "..": true, "ä": true, "": false, "a\n": false, "\xff": false, "\u0085": false,
		strings.Repeat("x", MaxStreamNameBytes): true, strings.Repeat("x", MaxStreamNameBytes+1): false,
	} {
		if err := CheckStreamName(name); (err == nil) != ok {
			t.Errorf("%q: %v", name, err)
		}
	}
}
