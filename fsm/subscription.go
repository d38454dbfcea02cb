package fsm

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/dgraph-io/badger/v4"

	"github.com/runlog/runlog/event"
)

// subscription is resident whole. It is changed under the machine's lock; what is stored of it is
// encoded at each change.
type subscription struct {
	sid       streamID // of its creation: its links are stored under it
	id        event.SubscriptionID
	config    event.SubscriptionConfig
	base      string
	createdAt event.Time
	createKey event.IdempotencyKey

	generation uint64
	wakeID     string // empty: nobody is woken
	trigger    event.StreamName
	holder     string
	deadline   int64 // meta.uptime at which the woken consumer's lease is over; 0: it has none
	failing    bool

	pattern []string // config.Pattern in segments
	links   map[event.StreamName]*link
}

// link is one stream that a subscription watches.
type link struct {
	explicit bool
	acked    event.Offset
	tail     event.Offset // the stream's; not stored
}

const subscriptionVersion = 1

// forgotten stands where a deleted subscription or link was.
var forgotten = []byte{0}

func (s *subscription) encode() []byte {
	var e enc
	e.u8(subscriptionVersion)
	e.raw(s.sid[:])
	config := event.AppendSubscriptionConfig(nil, &s.config)
	e.uv(uint64(len(config)))
	e.raw(config)
	e.str(s.base)
	e.iv(int64(s.createdAt))
	e.raw(s.createKey[:])
	e.uv(s.generation)
	e.str(s.wakeID)
	e.str(string(s.trigger))
	e.str(s.holder)
	e.iv(s.deadline)
	e.flag(s.failing)
	return e.b
}

func decodeSubscription(id event.SubscriptionID, b []byte) (*subscription, error) {
	d := dec{b: b}
	if v := d.u8(); v != subscriptionVersion {
		return nil, fmt.Errorf("%w: subscription version %d", ErrDamaged, v)
	}
	s := &subscription{id: id, links: make(map[event.StreamName]*link)}
	copy(s.sid[:], d.take(16))
	config, err := event.DecodeSubscriptionConfig(d.bytes())
	if err != nil {
		return nil, fmt.Errorf("%w: %v", ErrDamaged, err)
	}
	s.setConfig(config)
	s.base = d.str()
	s.createdAt = event.Time(d.iv())
	copy(s.createKey[:], d.take(16))
	s.generation = d.uv()
	s.wakeID = d.str()
	s.trigger = event.StreamName(d.str())
	s.holder = d.str()
	s.deadline = d.iv()
	s.failing = d.flag()
	return s, d.done("subscription")
}

func (l *link) encode() []byte {
	var e enc
	e.u8(subscriptionVersion)
	e.flag(l.explicit)
	e.uv(uint64(l.acked))
	return e.b
}

func decodeLink(b []byte) (*link, error) {
	d := dec{b: b}
	if v := d.u8(); v != subscriptionVersion {
		return nil, fmt.Errorf("%w: link version %d", ErrDamaged, v)
	}
	l := &link{explicit: d.flag(), acked: event.Offset(d.uv())}
	return l, d.done("link")
}

func (s *subscription) setConfig(c event.SubscriptionConfig) {
	s.config = c
	s.pattern = segments(c.Pattern)
}

func segments(path string) []string {
	return strings.FieldsFunc(path, func(r rune) bool { return r == '/' })
}

// watches reports whether the pattern selects a stream. A subscription never watches the stream
// that its own wakes are written to.
func (s *subscription) watches(name event.StreamName) bool {
	return len(s.pattern) > 0 && name != s.config.WakeStream && matchSegments(s.pattern, segments(string(name)))
}

// matchSegments matches "*" with one segment and "**" with any number of them.
func matchSegments(pattern, path []string) bool {
	for ; len(pattern) > 0; pattern, path = pattern[1:], path[1:] {
		if pattern[0] == "**" {
			for i := range len(path) + 1 {
				if matchSegments(pattern[1:], path[i:]) {
					return true
				}
			}
			return false
		}
		if len(path) == 0 || pattern[0] != "*" && pattern[0] != path[0] {
			return false
		}
	}
	return len(path) == 0
}

// pending returns the first stream, by name, that holds something not acknowledged.
func (s *subscription) pending() (first event.StreamName, ok bool) {
	for name, l := range s.links { // the smallest of a set: the order does not matter
		if l.tail > l.acked && (!ok || name < first) {
			first, ok = name, true
		}
	}
	return first, ok
}

func (s *subscription) view() *event.Subscription {
	v := &event.Subscription{
		ID: s.id, Config: s.config, CreatedAt: s.createdAt, Base: s.base, Generation: s.generation, WakeID: s.wakeID,
		Trigger: s.trigger, Holder: s.holder, Failing: s.failing,
	}
	for _, name := range slices.Sorted(maps.Keys(s.links)) {
		l := s.links[name]
		v.Streams = append(v.Streams, event.SubscribedStream{Name: name, Explicit: l.explicit, Acked: l.acked, Tail: l.tail})
	}
	return v
}

// subscriptions are all there are, in order of id, and the cluster's keys once there was one.
type subscriptions struct {
	list []*subscription
	keys *event.SigningKeys
}

func (s *subscriptions) find(id event.SubscriptionID) *subscription {
	if i, ok := s.index(id); ok {
		return s.list[i]
	}
	return nil
}

func (s *subscriptions) index(id event.SubscriptionID) (int, bool) {
	return slices.BinarySearchFunc(s.list, id, func(a *subscription, id event.SubscriptionID) int { return strings.Compare(string(a.id), string(id)) })
}

func (s *subscriptions) insert(sub *subscription) {
	i, _ := s.index(sub.id)
	s.list = slices.Insert(s.list, i, sub)
}

func (s *subscriptions) remove(id event.SubscriptionID) {
	if i, ok := s.index(id); ok {
		s.list = slices.Delete(s.list, i, i+1)
	}
}

// loadSubscriptions reads what is resident of subscriptions: all of it.
func (res *resident) loadSubscriptions(txn *badger.Txn) error {
	bySid := make(map[streamID]*subscription)
	err := scan(txn, []byte{keySubscription}, func(key, value []byte) error {
		switch {
		case len(key) == 1:
			k := &event.SigningKeys{}
			d := dec{b: value}
			copy(k.Seed[:], d.take(32))
			copy(k.Token[:], d.take(32))
			res.subs.keys = k
			return d.done("signing keys")
		case string(value) == string(forgotten):
			return nil
		}
		s, err := decodeSubscription(event.SubscriptionID(key[1:]), value)
		if err == nil {
			res.subs.list = append(res.subs.list, s)
			bySid[s.sid] = s
		}
		return err
	})
	if err != nil {
		return err
	}
	return scan(txn, []byte{keySubscribed}, func(key, value []byte) error {
		s := bySid[sidOf(key)]
		if s == nil || string(value) == string(forgotten) {
			return nil
		}
		name := event.StreamName(key[17:])
		l, err := decodeLink(value)
		if err == nil {
			l.tail, err = res.streamTail(txn, name)
		}
		s.links[name] = l
		return err
	})
}

// streamTail returns the tail of the stream of that name; 0 when there is none.
func (res *resident) streamTail(txn *badger.Txn, name event.StreamName) (event.Offset, error) {
	if !res.streamNames.has(fingerprintOf(name)) {
		return 0, nil
	}
	value, err := get(txn, streamNameKey(name))
	if err != nil {
		return 0, err
	}
	n, err := decodeName(value)
	if err != nil {
		return 0, err
	}
	if value, err = get(txn, sidKey(keyStream, n.sid)); err != nil {
		return 0, err
	}
	s, err := decodeStream(value)
	if err != nil || s.gone {
		return 0, err
	}
	return s.tail, nil
}
