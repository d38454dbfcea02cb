package gateway

import (
	"fmt"
	"strings"
	"sync"
	"testing"
)

// An interrupt is answered once, however many approve at the same time, and asked again when the run
// that answered it fails.
func TestInterruptsOverHTTP(t *testing.T) {
	t.Parallel()
	h, _ := startMachine(t)
	h.append("ask", startIn("t"), `{"type":"RUN_FINISHED","outcome":{"type":"interrupt","interrupts":[{"id":"i","reason":"approval"}]}}`)
	status := func(want string) {
		t.Helper()
		if v := h.thread("t"); len(v.Interrupts) != 1 || string(v.Interrupts[0].Status) != want {
			t.Fatalf("want %s, got %+v", want, v.Interrupts)
		}
	}
	status("pending")
	answer := func(run string) reply {
		return h.do("POST", "/v1/runs", `{"runId":"`+run+`","threadId":"t","input":{"resume":[{"interruptId":"i","status":"resolved","payload":true}]}}`)
	}
	var mu sync.Mutex
	var tabs sync.WaitGroup
	created, refused := "", 0
	for i := range 4 {
		tabs.Go(func() {
			run := fmt.Sprintf("tab-%d", i)
			mu.Lock() // the machine under test applies one command at a time
			defer mu.Unlock()
			switch r := answer(run); {
			case r.status == 201:
				created += run
			case r.status == 409 && r.json(t, "code") == "interrupt_not_pending" && r.json(t, "interruptId") == "i" && r.json(t, "byRunId") != "":
				refused++
			default:
				t.Error(r)
			}
		})
	}
	tabs.Wait()
	if strings.Count(created, "tab-") != 1 || refused != 3 {
		t.Fatalf("created %q, refused %d", created, refused)
	}
	status("resolved")
	h.append(created, `{"type":"RUN_ERROR","message":"gone"}`)
	status("pending")
	if r := answer("again"); r.status != 201 {
		t.Error(r)
	}
	status("resolved")
}

// A fresh run goes on from an envelope: the thread holds what was said once, and the envelope that
// came back in the run's input is not recorded.
func TestEnvelopeOverHTTP(t *testing.T) {
	t.Parallel()
	h, _ := startMachine(t)
	h.append("a", startIn("t"), said("m1", "hello"), finished())
	for i, format := range []string{"agui", "text"} {
		r := h.must(200, "GET", "/v1/threads/t/envelope?format="+format, "")
		messages := ""
		if format == "text" {
			messages = `[{"id":"env","role":"user","content":` + string(appendString(nil, r.json(t, "text").(string))) + `}`
		} else {
			_, rest, _ := strings.Cut(string(r.body), `"messages":`)
			messages, _, _ = strings.Cut(rest, `],"kept"`)
		}
		run := fmt.Sprintf("fresh-%d", i)
		h.must(201, "POST", "/v1/runs", `{"runId":"`+run+`","threadId":"t","input":{"messages":`+messages+`,{"id":"q`+run+`","role":"user","content":"go on"}]}}`)
		h.append(run, said("m"+run, "on it"), finished())
	}
	v := h.thread("t")
	var ids []string
	for _, m := range v.Messages {
		ids = append(ids, m.ID)
	}
	if got := strings.Join(ids, " "); got != "m1 qfresh-0 mfresh-0 qfresh-1 mfresh-1" {
		t.Error(got)
	}
}
