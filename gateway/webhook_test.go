package gateway

import (
	"crypto/ed25519"
	"encoding/base64"
	"errors"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/runlog/runlog/event"
)

func TestWebhookTargets(t *testing.T) {
	t.Parallel()
	none := WebhookTargets{}
	loopback := WebhookTargets{Allow: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}}
	for _, c := range []struct {
		url                  string
		byDefault, withAllow bool
	}{
		{"https://example.org/hook", true, true},
		{"http://example.org/hook", false, false},
		{"https://8.8.8.8/", true, true},
		{"http://8.8.8.8/", false, false},
		{"http://127.0.0.1:4437/v1/cluster/transfer-leadership", false, true},
		{"https://127.0.0.1/", false, true},
		{"http://localhost:1/", false, true},
		{"http://[::1]/", false, false},
		{"https://[::ffff:10.0.0.1]/", false, false},
		{"https://10.0.0.1/", false, false},
		{"https://172.16.0.1/", false, false},
		{"https://192.168.1.1/", false, false},
		{"https://169.254.169.254/latest/meta-data", false, false},
		{"https://100.64.0.1/", false, false},
		{"https://0.0.0.0/", false, false},
		{"https://[fd00::1]/", false, false},
		{"https://[fe80::1]/", false, false},
		{"https://[64:ff9b::a00:1]/", false, false},
		{"https://user:secret@example.org/", false, false},
		{"ftp://example.org/", false, false},
		{"example.org", false, false},
		{"https://", false, false},
		{"://", false, false},
	} {
		if err := none.checkURL(c.url); (err == nil) != c.byDefault {
			t.Errorf("%s by default: %v", c.url, err)
		}
		if err := loopback.checkURL(c.url); (err == nil) != c.withAllow {
			t.Errorf("%s with loopback allowed: %v", c.url, err)
		}
	}
}

// TestWebhookClientLooksWhereNamesLead: what a name resolves to counts, and nothing is followed elsewhere.
func TestWebhookClientLooksWhereNamesLead(t *testing.T) {
	t.Parallel()
	reached := 0
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		reached++
		http.Redirect(w, r, "/elsewhere", http.StatusTemporaryRedirect)
	}))
	defer srv.Close()
	byName := strings.Replace(srv.URL, "127.0.0.1", "localhost", 1)
	client := WebhookTargets{}.client()
	defer client.CloseIdleConnections()
	if _, err := client.Get(byName); !errors.Is(err, errPrivateTarget) || reached != 0 {
		t.Fatalf("%v, reached %d times", err, reached)
	}
	client = WebhookTargets{Allow: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8"), netip.MustParsePrefix("::1/128")}}.client()
	defer client.CloseIdleConnections()
	res, err := client.Get(srv.URL)
	if err != nil {
		t.Fatal(err)
	}
	res.Body.Close()
	if res.StatusCode != http.StatusTemporaryRedirect || reached != 1 {
		t.Fatalf("%d, reached %d times", res.StatusCode, reached)
	}
}

func TestWakeTokens(t *testing.T) {
	t.Parallel()
	keys := event.SigningKeys{Token: [32]byte{7}}
	now := time.Unix(1_700_000_000, 0)
	good := wakeToken(keys, "u", 3, now)
	if g, err := checkWakeToken(keys, "u", good, now); err != nil || g != 3 {
		t.Fatalf("%d, %v", g, err)
	}
	payload, sum, _ := strings.Cut(good, ".")
	for what, token := range map[string]string{
		"empty": "", "no sum": payload, "cut": good[:len(good)-1], "another payload": "e30." + sum, "not base64": "*." + sum,
		"another key": wakeToken(event.SigningKeys{}, "u", 3, now), "another subscription": wakeToken(keys, "v", 3, now),
	} {
		var e *controlError
		if _, err := checkWakeToken(keys, "u", token, now); !errors.As(err, &e) || e.code != "TOKEN_INVALID" {
			t.Errorf("%s: %v", what, err)
		}
	}
	var e *controlError
	if _, err := checkWakeToken(keys, "u", good, now.Add(wakeTokenLife+time.Second)); !errors.As(err, &e) || e.code != "TOKEN_EXPIRED" {
		t.Errorf("late: %v", err)
	}
}

func TestWebhookSignature(t *testing.T) {
	t.Parallel()
	s := newSigner(event.SigningKeys{Seed: [32]byte{1}})
	body := []byte(`{"a":1}`)
	fields := strings.Split(s.sign(body, time.Unix(1_700_000_000, 0)), ",")
	if len(fields) != 3 || fields[0] != "t=1700000000" || fields[1] != "kid="+s.keyID {
		t.Fatal(fields)
	}
	sum, err := base64.RawURLEncoding.DecodeString(strings.TrimPrefix(fields[2], "ed25519="))
	if err != nil {
		t.Fatal(err)
	}
	key, err := base64.RawURLEncoding.DecodeString(s.x)
	if err != nil {
		t.Fatal(err)
	}
	if !ed25519.Verify(key, append([]byte("1700000000."), body...), sum) {
		t.Fatal("the signature does not fit")
	}
}
