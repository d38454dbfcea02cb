package raftlog

import "fmt"

// onDisk is what a node finds of itself when it starts; 0 means none.
type onDisk struct {
	applied uint64 // index that the state includes
	// snapshot is the newest snapshot's index. whole: it holds a received state that was not seen
	// to be restored. Otherwise it is a marker, and restored is the index the state had when the
	// received snapshot that it replaced was restored (0 for a local one).
	snapshot, restored uint64
	whole              bool
	first, last        uint64 // bounds of the log
}

// start says how a node goes on from what it found.
type start uint8

const (
	startRefuse start = iota
	// startGoOn keeps the state as it is and replays the log after it.
	startGoOn
	// startRestore replaces the state by the newest snapshot first.
	startRestore
)

// decideStart is the start-up table. Going on with a state that lags the snapshot would silently
// lose the entries between; a state ahead of the log means that the log lost entries which this
// node has acknowledged, and voting with such a log could lose them for the cluster.
func decideStart(d onDisk) (start, error) {
	if d.whole {
		// The restore did not finish, or its end was not recorded. Raft has appended nothing
		// after it in either case, so restoring (again) is right.
		return startRestore, nil
	}
	known := max(d.last, d.snapshot, d.restored)
	switch {
	case d.applied > known:
		return startRefuse, fmt.Errorf("the state includes entry %d but the log and snapshot end at %d: the log was lost or is another node's; a node that forgot what it acknowledged must not vote again, so do not start it on an emptied directory under this id", d.applied, known)
	case d.applied < d.snapshot:
		return startRefuse, fmt.Errorf("the state ends at entry %d but a snapshot says that %d was flushed: the state was lost or damaged; put the directory back from a copy, and do not start the node on an emptied one under this id", d.applied, d.snapshot)
	case d.last > d.snapshot && d.first > d.snapshot+1:
		return startRefuse, fmt.Errorf("the log begins at entry %d but the snapshot ends at %d: entries between are missing", d.first, d.snapshot)
	}
	return startGoOn, nil
}
