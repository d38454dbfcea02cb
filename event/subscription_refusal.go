package event

import "fmt"

// Sentinels of what commands about subscriptions are refused with, for errors.Is.
var (
	ErrSubscriptionNotFound error = &SubscriptionNotFound{}
	ErrSubscriptionExists   error = &SubscriptionExists{}
	ErrWakeFenced           error = &WakeFenced{}
	ErrWakeClaimed          error = &WakeClaimed{}
	ErrNothingPending       error = &NothingPending{}
	ErrBadAck               error = &BadAck{}
	ErrTooManySubscriptions error = &TooManySubscriptions{}
)

// SubscriptionNotFound: no subscription has that name.
type SubscriptionNotFound struct{}

// SubscriptionExists: the name belongs to a subscription of another configuration.
type SubscriptionExists struct{}

// WakeFenced: the wake is over; its consumer was too slow, or has finished.
type WakeFenced struct {
	Generation uint64 `json:"generation"` // the subscription's present one
}

// WakeClaimed: another worker holds the wake.
type WakeClaimed struct {
	Holder     string `json:"holder"`
	Generation uint64 `json:"generation"`
}

// NothingPending: there is nothing to claim.
type NothingPending struct{}

// BadAck: an acknowledgement names a stream that is not subscribed to, or goes back or too far.
type BadAck struct {
	Stream StreamName `json:"stream"`
	Reason string     `json:"reason"`
}

// TooManySubscriptions: a bound of subscriptions, or of the streams of one, is reached.
type TooManySubscriptions struct {
	What  string `json:"what"`
	Limit int    `json:"limit"`
}

// The codes of the refusals about subscriptions.
const (
	CodeSubscriptionNotFound = "subscription_not_found"
	CodeSubscriptionExists   = "subscription_exists"
	CodeWakeFenced           = "wake_fenced"
	CodeWakeClaimed          = "wake_claimed"
	CodeNothingPending       = "nothing_pending"
	CodeBadAck               = "bad_ack"
	CodeTooManySubscriptions = "too_many_subscriptions"
)

func (*SubscriptionNotFound) Code() string { return CodeSubscriptionNotFound }
func (*SubscriptionExists) Code() string   { return CodeSubscriptionExists }
func (*WakeFenced) Code() string           { return CodeWakeFenced }
func (*WakeClaimed) Code() string          { return CodeWakeClaimed }
func (*NothingPending) Code() string       { return CodeNothingPending }
func (*BadAck) Code() string               { return CodeBadAck }
func (*TooManySubscriptions) Code() string { return CodeTooManySubscriptions }

func (*SubscriptionNotFound) Error() string { return "no such subscription" }
func (*SubscriptionExists) Error() string {
	return "the subscription exists with another configuration"
}
func (e *WakeFenced) Error() string {
	return fmt.Sprintf("the wake is over; the subscription is at generation %d", e.Generation)
}
func (e *WakeClaimed) Error() string { return fmt.Sprintf("the wake is held by %s", e.Holder) }
func (*NothingPending) Error() string {
	return "the subscription has nothing pending"
}
func (e *BadAck) Error() string { return fmt.Sprintf("acknowledgement of %s: %s", e.Stream, e.Reason) }
func (e *TooManySubscriptions) Error() string {
	return fmt.Sprintf("there are as many %s as there may be, %d", e.What, e.Limit)
}

// Is makes errors.Is hold for a refusal with any data.
func (e *SubscriptionNotFound) Is(t error) bool { return sameCode(e, t) }
func (e *SubscriptionExists) Is(t error) bool   { return sameCode(e, t) }
func (e *WakeFenced) Is(t error) bool           { return sameCode(e, t) }
func (e *WakeClaimed) Is(t error) bool          { return sameCode(e, t) }
func (e *NothingPending) Is(t error) bool       { return sameCode(e, t) }
func (e *BadAck) Is(t error) bool               { return sameCode(e, t) }
func (e *TooManySubscriptions) Is(t error) bool { return sameCode(e, t) }

// subscriptionRefusals are this file's part of what [DecodeRefusal] knows.
var subscriptionRefusals = map[string]func() Refusal{
	CodeSubscriptionNotFound: func() Refusal { return new(SubscriptionNotFound) },
	CodeSubscriptionExists:   func() Refusal { return new(SubscriptionExists) },
	CodeWakeFenced:           func() Refusal { return new(WakeFenced) },
	CodeWakeClaimed:          func() Refusal { return new(WakeClaimed) },
	CodeNothingPending:       func() Refusal { return new(NothingPending) },
	CodeBadAck:               func() Refusal { return new(BadAck) },
	CodeTooManySubscriptions: func() Refusal { return new(TooManySubscriptions) },
}
