package event

// The command kinds that look after the cluster itself.
const (
	KindSetMember  Kind = 50
	KindDropMember Kind = 51
	KindRaiseLevel Kind = 52
	KindRefound    Kind = 53
)

// Level is a version of the set of commands that a build can apply. A leader proposes a command only
// once every member is known to have reached the command's level, so that builds can be replaced one by
// one. Levels are persisted and only grow.
type Level uint64

// The levels. A new command kind gets a new level and an entry in [Kind.Level].
const (
	// LevelRuns has runs, leases, cancels and locks.
	LevelRuns Level = 1
	// LevelMembers adds the roster, and the kinds from 20 on.
	LevelMembers Level = 2
	// LevelCurrent is what this build can apply.
	LevelCurrent = LevelMembers
)

// Level returns the level that applies the command.
func (k Kind) Level() Level {
	if k < 20 {
		return LevelRuns
	}
	return LevelMembers
}

// ClusterMember is what the cluster remembers of one node, beside its Raft configuration.
type ClusterMember struct {
	ID string
	// DirID names the data directory that speaks for the node: one with the same node id and another
	// directory has forgotten what the node acknowledged and voted.
	DirID string
	HTTP  string // host:port of the HTTP API
	// Voter says that the node is to vote, once it has caught up.
	Voter bool
}

// Roster is the replicated knowledge about the cluster itself. A value is never changed: it may be
// kept and read by anybody.
type Roster struct {
	// Level is what all members can apply; 0 stands for LevelRuns.
	Level   Level
	Members []ClusterMember // in order of ID
}

// Member returns the member of that id.
func (r *Roster) Member(id string) (ClusterMember, bool) {
	for _, m := range r.Members {
		if m.ID == id {
			return m, true
		}
	}
	return ClusterMember{}, false
}

// SetMember enters a node into the roster, or replaces what it says of it.
type SetMember struct{ ClusterMember }

// DropMember takes a node out of the roster; one that is not there is none the less out.
type DropMember struct{ ID string }

// RaiseLevel sets the level unless it is higher already.
type RaiseLevel struct{ Level Level }

// Refound gives the cluster a new id and an empty roster: it goes on from what one node held, and
// must not be mistaken for the cluster that the state came from.
type Refound struct{ ClusterID string }

// Kind returns the command's number.
func (SetMember) Kind() Kind { return KindSetMember }

// Kind returns the command's number.
func (DropMember) Kind() Kind { return KindDropMember }

// Kind returns the command's number.
func (RaiseLevel) Kind() Kind { return KindRaiseLevel }

// Kind returns the command's number.
func (Refound) Kind() Kind { return KindRefound }
