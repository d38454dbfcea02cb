package gateway

import (
	"crypto/ed25519"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/gin-gonic/gin"

	"github.com/runlog/runlog/event"
)

// signer signs webhooks with the cluster's Ed25519 key (RFC 8032).
type signer struct {
	key   ed25519.PrivateKey
	x     string // the public key as RFC 8037 writes it
	keyID string // "ds_" and the key's thumbprint (RFC 7638)
}

func newSigner(keys event.SigningKeys) signer {
	s := signer{key: ed25519.NewKeyFromSeed(keys.Seed[:])}
	s.x = base64.RawURLEncoding.EncodeToString(s.key.Public().(ed25519.PublicKey))
	thumbprint := sha256.Sum256([]byte(`{"crv":"Ed25519","kty":"OKP","x":"` + s.x + `"}`))
	s.keyID = "ds_" + base64.RawURLEncoding.EncodeToString(thumbprint[:])
	return s
}

// sign returns the Webhook-Signature of a body sent at now.
func (s signer) sign(body []byte, now time.Time) string {
	at := strconv.FormatInt(now.Unix(), 10)
	sum := ed25519.Sign(s.key, append([]byte(at+"."), body...))
	return fmt.Sprintf("t=%s,kid=%s,ed25519=%s", at, s.keyID, base64.RawURLEncoding.EncodeToString(sum))
}

// jwk is a public key of a JSON Web Key Set (RFC 7517).
type jwk struct {
	KeyType string `json:"kty"`
	Curve   string `json:"crv"`
	X       string `json:"x"`
	KeyID   string `json:"kid"`
	Use     string `json:"use"`
	Alg     string `json:"alg"`
}

// getSigningKeys is the key set that a webhook's receiver checks signatures with.
func (g *Gateway) getSigningKeys(c *gin.Context) error {
	if err := g.freshen(c.Request.Context()); err != nil {
		return err
	}
	set := struct {
		Keys []jwk `json:"keys"`
	}{[]jwk{}}
	if keys, ok := g.cfg.Subscriptions.SigningKeys(); ok {
		s := newSigner(keys)
		set.Keys = append(set.Keys, jwk{"OKP", "Ed25519", s.x, s.keyID, "sig", "EdDSA"})
	}
	b, err := marshal(set)
	if err != nil {
		return err
	}
	h := c.Writer.Header()
	h.Set("Cache-Control", "public, max-age=300")
	h.Set("Content-Type", "application/jwk-set+json") // RFC 7517, 8.5.2
	c.Writer.WriteHeader(http.StatusOK)
	_, _ = c.Writer.Write(b) // a client that left needs no answer
	return nil
}

// wakeTokenLife bounds how long a wake's token is good for.
const wakeTokenLife = time.Hour

// wakeClaims are what a wake's token says. Whether that wake is still the present one is the state
// machine's to decide.
type wakeClaims struct {
	Subscription event.SubscriptionID `json:"sub"`
	Generation   uint64               `json:"gen"`
	Expires      int64                `json:"exp"` // seconds since the epoch
}

// wakeToken is what the consumer of a wake shows: claims and their HMAC-SHA-256, which any node can
// check because the key is the cluster's.
func wakeToken(keys event.SigningKeys, id event.SubscriptionID, generation uint64, now time.Time) string {
	claims, err := json.Marshal(wakeClaims{id, generation, now.Add(wakeTokenLife).Unix()})
	if err != nil {
		panic(fmt.Sprintf("gateway: encode a token: %v", err))
	}
	payload := base64.RawURLEncoding.EncodeToString(claims)
	return payload + "." + base64.RawURLEncoding.EncodeToString(tokenSum(keys, payload))
}

func tokenSum(keys event.SigningKeys, payload string) []byte {
	m := hmac.New(sha256.New, keys.Token[:])
	m.Write([]byte(payload))
	return m.Sum(nil)
}

// checkWakeToken returns the generation that a token was given for.
func checkWakeToken(keys event.SigningKeys, id event.SubscriptionID, token string, now time.Time) (uint64, error) {
	invalid := &controlError{code: "TOKEN_INVALID", message: "the token is not one of this subscription"}
	payload, sum, ok := strings.Cut(token, ".")
	got, err := base64.RawURLEncoding.DecodeString(sum)
	if !ok || err != nil || !hmac.Equal(got, tokenSum(keys, payload)) {
		return 0, invalid
	}
	raw, err := base64.RawURLEncoding.DecodeString(payload)
	if err != nil {
		return 0, invalid
	}
	var claims wakeClaims
	if json.Unmarshal(raw, &claims) != nil || claims.Subscription != id {
		return 0, invalid
	}
	if now.Unix() > claims.Expires {
		return 0, &controlError{code: "TOKEN_EXPIRED", message: "the token has expired"}
	}
	return claims.Generation, nil
}
