package fsm

import (
	"encoding/binary"
	"encoding/hex"
	"fmt"

	"github.com/runlog/runlog/event"
)

// The first byte of every key in Badger. Persisted: the values must stay stable.
const (
	keyMeta     = 'm' // m                      → meta: applied index, state hash, counts
	keyName     = 'n' // n <run id>             → stream id, tombstone flag
	keyHead     = 'h' // h <sid>                → head
	keySpan     = 'o' // o <sid> <seq 8>        → one open span
	keyMetadata = 'a' // a <sid>                → the run's metadata, a JSON object
	keySegment  = 'e' // e <sid> <offset 8>     → consecutive records, the first at offset
	keyUsed     = 'u' // u <sid> <hash 16>      → nothing: an id the run has used
	keyProducer = 'p' // p <sid> <hash 16>      → one producer's record
	keyThread   = 't' // t <thread hash 16> <sid> → nothing: the thread's runs in order of creation
	keyOpenRun  = 'r' // r <sid>                → nothing: a run that has not ended
	keyLock     = 'l' // l <name>               → who holds a lock; a free one may be left over
	keyRoster   = 'v' // v                      → the roster: level and members of the cluster

	keyStreamName = 'N' // N <stream name>      → stream id, tombstone flag
	keyStream     = 'H' // H <sid>              → a plain stream's head
	keySource     = 'F' // F <sid>              → how many forks read a log; 0 may be left over
	keyExpiring   = 'X' // X <sid>              → nothing: a plain stream that ends by itself

	keySubscription = 'S' // S <id>             → a subscription; S alone: the cluster's signing keys
	keySubscribed   = 'Q' // Q <sid> <name>     → what a subscription has acknowledged of a stream
	keyThreadHead   = 'T' // T <thread hash 16> → a thread's head; T <thread hash 16> <ordinal 8> → the stream id of its run, nothing when deleted
	keyActivity     = 'w' // w <~time 8> <thread hash 16> → thread id: threads by last activity
	keyInterrupt    = 'i' // i <thread hash 16> <id hash 16> → an interrupt; nothing when forgotten
	keyStatus       = 's' // s <status> <sid>       → nothing: an ended run
	keyParent       = 'j' // j <parent hash 16> <sid> → nothing: the runs of one parent

	// Local keys are not replicated: they are left out of exports and of the state hash.
	keyCheckpoint   = 'k' // k <sid> <kind> <offset 8> <part 2> → a projection's state at offset
	keyThreadFold   = 'f' // f <thread hash 16> <kind> <sid> <lineage 8> <offset 8> <part 2> → a projection's state over a thread's runs
	keyMerged       = 'c' // c <sid> <offset 8>   → compressed segment of an ended run; c <sid> alone: complete
	keyDoomed       = 'd' // d <sid>              → thread hash: a deleted run whose keys are still to be removed
	keyDoomedStream = 'Y' // Y <sid>            → its name: a deleted stream whose keys are still to be removed
	keyDoomedFolds  = 'Z' // Z <sid>             → thread hash: a deleted run that forks read; what was folded over its thread goes
	keyUnmerged     = 'g' // g <sid>              → nothing: an ended run whose segments are still to be merged
)

// replicated lists the prefixes that an export carries, in key order.
var replicated = []byte{
	keySource, keyStream, keyStreamName, keySubscribed, keySubscription, keyThreadHead, keyExpiring, keyMetadata, keySegment, keyHead,
	keyInterrupt, keyParent, keyLock, keyMeta, keyName, keySpan, keyProducer, keyOpenRun, keyStatus, keyThread, keyUsed, keyRoster, keyActivity,
}

// streamID is the internal name of a stream: the log index of the command that created it and
// that command's position in its entry, 8 bytes each, big endian. It is never reused and sorts
// in order of creation.
type streamID [16]byte

func newStreamID(index uint64, position int) (s streamID) {
	binary.BigEndian.PutUint64(s[:8], index)
	binary.BigEndian.PutUint64(s[8:], uint64(position))
	return s
}

func (s streamID) String() string { return hex.EncodeToString(s[:]) }

func parseStreamID(text string) (s streamID, err error) {
	b, err := hex.DecodeString(text)
	if err != nil || len(b) != len(s) {
		return s, fmt.Errorf("not a stream id: %q", text)
	}
	copy(s[:], b)
	return s, nil
}

func sidKey(kind byte, s streamID) []byte {
	return append(append(make([]byte, 0, 17+18), kind), s[:]...)
}

func nameKey(id event.RunID) []byte {
	return append(append(make([]byte, 0, 1+len(id)), keyName), id...)
}

func streamNameKey(name event.StreamName) []byte {
	return append([]byte{keyStreamName}, name...)
}

func subscriptionKey(id event.SubscriptionID) []byte {
	return append([]byte{keySubscription}, id...)
}

func linkKey(sid streamID, name event.StreamName) []byte {
	return append(sidKey(keySubscribed, sid), name...)
}

func lockKey(name event.LockName) []byte {
	return append([]byte{keyLock}, name...)
}

func offsetKey(kind byte, s streamID, o event.Offset) []byte {
	return binary.BigEndian.AppendUint64(sidKey(kind, s), uint64(o))
}

func spanKey(s streamID, seq uint64) []byte {
	return binary.BigEndian.AppendUint64(sidKey(keySpan, s), seq)
}

func hashKey(kind byte, s streamID, h event.IDHash) []byte {
	return append(sidKey(kind, s), h[:]...)
}

func threadKey(thread fingerprint, s streamID) []byte {
	return append(append(append(make([]byte, 0, 33), keyThread), thread[:]...), s[:]...)
}

func statusKey(status event.Status, s streamID) []byte {
	return append([]byte{keyStatus, indexOf(statuses, status)}, s[:]...)
}

func parentKey(parent event.RunID, s streamID) []byte {
	fp := fingerprintOf(parent)
	return append(append(append(make([]byte, 0, 33), keyParent), fp[:]...), s[:]...)
}

// offsetOf reads the offset at the end of a key that offsetKey made.
func offsetOf(key []byte) event.Offset {
	return event.Offset(binary.BigEndian.Uint64(key[17:25]))
}

func sidOf(key []byte) streamID { return streamID(key[1:17]) }
