package raftlog

import (
	"strings"
	"testing"
)

func TestDecideStart(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		found onDisk
		want  start
		err   string
	}{
		"fresh node":                       {onDisk{}, startGoOn, ""},
		"bootstrapped, nothing applied":    {onDisk{first: 1, last: 1}, startGoOn, ""},
		"log ahead of state":               {onDisk{applied: 40, first: 1, last: 90}, startGoOn, ""},
		"state at the log's end":           {onDisk{applied: 90, first: 1, last: 90}, startGoOn, ""},
		"state lost, log whole":            {onDisk{applied: 0, first: 1, last: 90}, startGoOn, ""},
		"marker behind state":              {onDisk{applied: 90, snapshot: 80, first: 31, last: 95}, startGoOn, ""},
		"marker, log empty":                {onDisk{applied: 80, snapshot: 80}, startGoOn, ""},
		"log ends before the marker":       {onDisk{applied: 120, snapshot: 100, restored: 120, first: 1, last: 50}, startGoOn, ""},
		"restored beyond the snapshot":     {onDisk{applied: 120, snapshot: 100, restored: 120}, startGoOn, ""},
		"restored, catching up":            {onDisk{applied: 120, snapshot: 100, restored: 120, first: 101, last: 105}, startGoOn, ""},
		"received, not restored":           {onDisk{applied: 7, snapshot: 100, whole: true, first: 1, last: 9}, startRestore, ""},
		"received, restore not recorded":   {onDisk{applied: 120, snapshot: 100, whole: true}, startRestore, ""},
		"received into an empty node":      {onDisk{snapshot: 100, whole: true}, startRestore, ""},
		"log lost":                         {onDisk{applied: 90}, startRefuse, "the log was lost"},
		"log rolled back":                  {onDisk{applied: 90, first: 1, last: 60}, startRefuse, "the log was lost"},
		"log rolled back after a restore":  {onDisk{applied: 130, snapshot: 100, restored: 120, first: 101, last: 105}, startRefuse, "the log was lost"},
		"state lost, log compacted":        {onDisk{applied: 0, snapshot: 80, first: 31, last: 95}, startRefuse, "the state was lost"},
		"state rolled back behind marker":  {onDisk{applied: 79, snapshot: 80, first: 31, last: 95}, startRefuse, "the state was lost"},
		"log begins late, no snapshot":     {onDisk{applied: 0, first: 5, last: 9}, startRefuse, "missing"},
		"log begins late after a snapshot": {onDisk{applied: 85, snapshot: 80, first: 83, last: 95}, startRefuse, "missing"},
	} {
		got, err := decideStart(c.found)
		if got != c.want {
			t.Errorf("%s: %d, want %d", name, got, c.want)
		}
		if (err == nil) != (c.err == "") || (err != nil && !strings.Contains(err.Error(), c.err)) {
			t.Errorf("%s: error %v, want one saying %q", name, err, c.err)
		}
	}
}
