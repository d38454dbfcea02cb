package event

import (
	"bytes"
	"encoding/hex"
	"encoding/json"
	"flag"
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

var update = flag.Bool("update", false, "rewrite golden files")

func ptr[T any](v T) *T { return &v }

func genCommand() *rapid.Generator[Command] {
	return rapid.Custom(func(t *rapid.T) Command {
		run := RunID(genID("run").Draw(t, "run"))
		var epoch *Epoch
		if rapid.Bool().Draw(t, "has epoch") {
			epoch = ptr(Epoch(rapid.Uint64().Draw(t, "epoch")))
		}
		switch rapid.IntRange(0, 5).Draw(t, "family") {
		case 0:
			return genLeaseCommand(t, run)
		case 1:
			return genStreamCommand(t)
		case 5:
			return genSubscriptionCommand(t)
		case 2:
			return genRunStreamCommand(t, run)
		}
		switch rapid.IntRange(1, 5).Draw(t, "kind") {
		case 1:
			return LeaderStart{Term: rapid.Uint64().Draw(t, "term"), ClusterID: genID("c").Draw(t, "cluster")}
		case 2:
			a := &Append{Batch{Run: run, Epoch: epoch, Events: rapid.SliceOfN(genEvent(), 0, 4).Draw(t, "events")}}
			if rapid.Bool().Draw(t, "producer") {
				a.Producer = &Producer{ID: ProducerID(genID("p").Draw(t, "id")), Epoch: rapid.Uint64().Draw(t, "e"), Seq: rapid.Uint64().Draw(t, "s")}
				a.BodyHash = rapid.Uint64().Draw(t, "hash")
			}
			if rapid.Bool().Draw(t, "expect") {
				a.Expect = ptr(Offset(rapid.Uint64().Draw(t, "offset")))
			}
			return a
		case 3:
			c := CreateRun{Run: run, Thread: ThreadID(genID("t").Draw(t, "thread")), Parent: "p", Grammar: GrammarLenient,
				Holder: "h", LeaseMs: rapid.Int64().Draw(t, "lease"), RejectBusy: rapid.Bool().Draw(t, "busy"), Metadata: []byte(`{"a":1}`), Key: HashKey("create", "k")}
			if rapid.Bool().Draw(t, "started") {
				c.Started = ptr(genEvent().Draw(t, "event"))
			}
			if rapid.Bool().Draw(t, "takeover") {
				c.TakeoverMs = ptr(rapid.Int64().Draw(t, "ms"))
			}
			return c
		case 4:
			return PatchRun{Run: run, Epoch: epoch, Patch: []byte(`{"b":null}`)}
		}
		return DeleteRun{Run: run}
	})
}

func genLeaseCommand(t *rapid.T, run RunID) Command {
	e, n := Epoch(rapid.Uint64().Draw(t, "epoch")), Offset(rapid.Uint64().Draw(t, "tail"))
	return rapid.SampledFrom([]Command{
		AcquireLease{Run: run, Holder: "h", LeaseMs: 1500, IfEpoch: &e, Steal: true, Key: HashKey("lease", "k")},
		AcquireLease{Run: run, Holder: "h"}, ReviveLease{run, e, 0}, ReviveLease{run, e, 60_000}, ReleaseLease{run, e, nil}, ReleaseLease{run, e, ptr(int64(0))},
		LapseLease{run, e, n}, ExpireRun{run, e, n, 7}, CancelRun{run, "reason", 10000}, EnforceCancel{run, e, n, 8},
		SetMember{ClusterMember{"n", "d", "h", false}}, DropMember{"n"}, RaiseLevel{7}, Refound{"c"},
		AcquireLock{"l", "h", 2000, IdempotencyKey{3}}, ReleaseLock{"l", e}, LapseLock{"l", e},
	}).Draw(t, "lease command")
}

func TestEntryRoundTrip(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		e := Entry{Time: Time(rapid.Int64Range(0, 1<<50).Draw(t, "time")), Commands: rapid.SliceOfN(genCommand(), 0, 5).Draw(t, "commands")}
		b := AppendEntry([]byte("before"), e)[len("before"):]
		got, err := DecodeEntry(b)
		if err != nil {
			t.Fatal(err)
		}
		if again := AppendEntry(nil, got); !bytes.Equal(again, b) {
			t.Fatalf("encoded again it differs:\n%x\n%x", b, again)
		}
		if len(b) > 0 {
			i := rapid.IntRange(0, len(b)-1).Draw(t, "flipped byte")
			bad := bytes.Clone(b)
			bad[i] ^= 1 << rapid.IntRange(0, 7).Draw(t, "bit")
			if _, err := DecodeEntry(bad); err == nil {
				t.Fatalf("a flipped bit at %d was not noticed", i)
			}
		}
	})
}

// Entries written by earlier builds are replayed for ever: their bytes and meaning must not move.
func TestEntryGolden(t *testing.T) {
	t.Parallel()
	e := func(raw string) Event {
		ev, err := ParseEvent([]byte(raw))
		if err != nil {
			t.Fatal(err)
		}
		return ev
	}
	golden := map[string]Command{
		"leader_start": LeaderStart{Term: 7, ClusterID: "c-1"},
		"append":       &Append{Batch{Run: "r1", Events: []Event{e(`{"type":"RUN_STARTED","runId":"r1","threadId":"t1"}`), e(`{"type":"TEXT_MESSAGE_START","messageId":"m1"}`)}}},
		"append_fenced_producer": &Append{Batch{Run: "r1", Epoch: ptr(Epoch(3)), Expect: ptr(Offset(300)), Producer: &Producer{"p", 1, 2}, BodyHash: 99,
			Events: []Event{e(`{"type":"TOOL_CALL_RESULT","toolCallId":"c","messageId":"m","content":"ok","subagentRunId":"s"}`)}}},
		"create_run": CreateRun{Run: "r1", Thread: "t1", Parent: "p1", Grammar: GrammarStrict, Started: ptr(e(`{"type":"RUN_STARTED"}`)), Holder: "h",
			LeaseMs: 1500, TakeoverMs: ptr(int64(0)), RejectBusy: true, Metadata: []byte(`{}`), Key: IdempotencyKey{1, 2}},
		"patch_run":  PatchRun{Run: "r1", Epoch: ptr(Epoch(1)), Patch: []byte(`{"a":null}`)},
		"delete_run": DeleteRun{Run: "r1"},

		"acquire_lease":  AcquireLease{Run: "r1", Holder: "h", LeaseMs: 1500, IfEpoch: ptr(Epoch(3)), Steal: true, Key: IdempotencyKey{9}},
		"revive_lease":   ReviveLease{"r1", 3, 60_000},
		"release_lease":  ReleaseLease{"r1", 3, ptr(int64(60000))},
		"lapse_lease":    LapseLease{"r1", 3, 300},
		"expire_run":     ExpireRun{"r1", 3, 300, 4096},
		"cancel_run":     CancelRun{"r1", "user", 10000},
		"enforce_cancel": EnforceCancel{"r1", 3, 300, 4096},
		"acquire_lock":   AcquireLock{"l1", "h", 1500, IdempotencyKey{9}},
		"release_lock":   ReleaseLock{"l1", 77},
		"lapse_lock":     LapseLock{"l1", 77},

		"append_dialogue": &Append{Batch{Run: "r1", Events: []Event{
			e(`{"type":"RUN_STARTED","input":{"resume":[{"interruptId":"i1","status":"resolved","payload":true},{"interruptId":"i2","status":"cancelled"}]}}`),
			e(`{"type":"RUN_FINISHED","outcome":{"type":"interrupt","interrupts":[{"id":"i3","reason":"r"}]}}`)}}},
		"delete_thread": DeleteThread{"t1"},
		"set_member":    SetMember{ClusterMember{ID: "n1", DirID: "d1", HTTP: "127.0.0.1:4437", Voter: true}},
		"drop_member":   DropMember{"n1"},
		"raise_level":   RaiseLevel{2},
		"refound":       Refound{"c-2"},
	}
	maps.Copy(golden, goldenStreamCommands())
	maps.Copy(golden, goldenSubscriptionCommands())
	maps.Copy(golden, goldenRunStreamCommands())
	for name, c := range golden {
		path := filepath.Join("testdata", "entries", name+".hex")
		b := AppendEntry(nil, Entry{Time: 1_700_000_000_000, Commands: []Command{c}})
		if *update {
			if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(path, []byte(hex.EncodeToString(b)+"\n"), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		want, err := hex.DecodeString(strings.TrimSpace(string(text)))
		if err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(b, want) {
			t.Errorf("%s: encodes as %x, was %x", name, b, want)
		}
		got, err := DecodeEntry(want)
		if err != nil {
			t.Errorf("%s: %v", name, err)
		} else if !reflect.DeepEqual(got.Commands[0], c) {
			t.Errorf("%s: decodes as %+v", name, got.Commands[0])
		}
	}
}

func TestUnknownKindIsAnError(t *testing.T) {
	t.Parallel()
	b := AppendEntryHeader(nil, 1)
	b = append(b, 250, 0)
	SealEntry(b, 1)
	if _, err := DecodeEntry(b); err == nil || !strings.Contains(err.Error(), "kind 250") {
		t.Fatalf("got %v", err)
	}
}

func FuzzDecodeEntry(f *testing.F) {
	f.Add(AppendEntry(nil, Entry{Commands: []Command{DeleteRun{"r"}, PatchRun{Run: "r", Patch: []byte("{}")}}}))
	f.Fuzz(func(t *testing.T, b []byte) {
		if len(b) >= entryHeaderBytes { // let the fuzzer past the checksum
			b = bytes.Clone(b)
			b[0] = entryVersion
			SealEntry(b, 5)
		}
		e, err := DecodeEntry(b)
		if err != nil {
			return
		}
		if _, err := DecodeEntry(AppendEntry(nil, e)); err != nil {
			t.Fatalf("decoded, encoded, and then: %v", err)
		}
	})
}

func TestRefusalsRoundTrip(t *testing.T) {
	t.Parallel()
	full := []Refusal{
		&RunNotFound{}, &RunDeleted{}, &EpochRequired{CurrentEpoch: 3}, &Fenced{Epoch: 1, CurrentEpoch: 2}, &RunEnded{TerminalOffset: 9},
		&OffsetConflict{Expected: 4, Tail: 5}, &ProducerGap{ExpectedSeq: 1, ReceivedSeq: 3}, &ProducerFenced{ProducerEpoch: 1, CurrentProducerEpoch: 2},
		&ProducerConflict{Seq: 8}, &TooManyProducers{Limit: 1024}, &InvalidEvent{Index: 2, Reason: "because"}, &RunExists{Run: &Run{RunID: "r", ThreadID: "t"}},
		&ThreadBusy{ActiveRunID: "r"}, &LeaseHeld{Holder: "h", ExpiresInMs: ptr(int64(5))}, &RunActive{}, &StaleVerdict{},
		&Diverged{Offset: 3, Stored: []byte(`{"a":1}`), Replayed: []byte(`{"a":2}`), Field: "a", Hint: "why"}, &TooLarge{What: "w", Limit: 1}, &OffsetOutOfRange{Offset: 9, Tail: 3},
		&InterruptNotPending{InterruptID: "i", Status: InterruptResolved, ByRunID: "r"},
	}
	full = append(full, fullStreamRefusals()...)
	full = append(full, fullSubscriptionRefusals()...)
	seen := map[string]bool{}
	for _, r := range full {
		seen[r.Code()] = true
		res, err := DecodeResult(AppendResult(nil, Result{Refusal: r, Index: 12}))
		if err != nil {
			t.Errorf("%s: %v", r.Code(), err)
			continue
		}
		if !reflect.DeepEqual(res.Refusal, r) || res.Index != 12 {
			t.Errorf("%s: got %#v, want %#v", r.Code(), res.Refusal, r)
		}
		if r.Error() == "" {
			t.Errorf("%s says nothing", r.Code())
		}
	}
	for _, code := range RefusalCodes() {
		if !seen[code] {
			t.Errorf("%s is not in this test", code)
		}
	}
}

func TestResultRoundTrip(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		r := Result{Index: rapid.Uint64().Draw(t, "index"), Created: rapid.Bool().Draw(t, "created")}
		if rapid.Bool().Draw(t, "append") {
			r.Appended = Appended{FirstOffset: Offset(rapid.Uint64().Draw(t, "first")), Tail: Offset(1 + rapid.Uint64Range(0, 1<<50).Draw(t, "tail")),
				Duplicate: rapid.Bool().Draw(t, "dup"), Forgotten: rapid.Bool().Draw(t, "forgotten"), CancelRequested: rapid.Bool().Draw(t, "cancel")}
		}
		if rapid.Bool().Draw(t, "run") {
			r.Run = &Run{RunID: "r", Tail: 5, TakeoverMs: ptr(int64(0)), Metadata: json.RawMessage(`{"n":12345678901234567890}`), Open: &Open{Messages: []string{"m"}, ToolCalls: []string{}}}
		}
		if rapid.Bool().Draw(t, "stream") {
			r.Stream = genStreamResult(t)
		} else if rapid.Bool().Draw(t, "subscription") {
			r.NextWake = rapid.Bool().Draw(t, "next wake")
			r.Subscription = &Subscription{ID: "s", Config: subscriptionConfig(), Generation: 4, WakeID: "w", Streams: []SubscribedStream{{"a", true, 1, 2}}}
		}
		got, err := DecodeResult(AppendResult(nil, r))
		if err != nil || !reflect.DeepEqual(got, r) {
			t.Fatalf("got %+v, %v; want %+v", got, err, r)
		}
	})
}
