package event

import (
	"crypto/sha256"
	"encoding/binary"

	"github.com/cespare/xxhash/v2"
)

// HashBody digests the events of one append, so that a repeated request can be told from
// another body under the same sequence number. The result is persisted: it must stay stable.
func HashBody(events []Event) uint64 {
	d := xxhash.New()
	var n [8]byte
	for _, e := range events {
		binary.BigEndian.PutUint64(n[:], uint64(len(e.Raw)))
		d.Write(n[:])
		d.Write(e.Raw)
	}
	return d.Sum64()
}

// HashKey digests an Idempotency-Key within the scope of one operation ("create", …).
func HashKey(scope, key string) IdempotencyKey {
	h := sha256.Sum256([]byte(scope + "\x00" + key))
	return IdempotencyKey(h[:16])
}
