package event

import "context"

// What the laws of the alignment, which import the projections, need of this package's inside.

// Units, AfterUnits and SameJSON are the normal form.
var (
	Units      = units
	AfterUnits = afterUnits
	SameJSON   = sameJSON
)

// Mutations are the ways in which an alignment can be broken, by name.
var Mutations = map[string]mutation{
	"appends all": appendsAll, "appends whole": appendsWhole, "ignores fields": ignoresFields, "ignores bounds": ignoresBounds,
}

// Break breaks an alignment.
func (a *Aligner) Break(m mutation) { a.broken = m }

// HeldBytes is what the alignment holds of the log.
func (a *Aligner) HeldBytes() int { return a.ahead.bytes }

// Log is a stored log in memory.
type Log []Record

// Record returns one record.
func (l *Log) Record(_ context.Context, at Offset) (Record, bool, error) {
	if at >= Offset(len(*l)) {
		return Record{}, false, nil
	}
	return (*l)[at], true, nil
}
