package load

import (
	"os"
	"strconv"
	"strings"
)

// ticksPerSecond is USER_HZ, the unit of /proc/stat: 100 on every Linux that Go runs on.
const ticksPerSecond = 100

// busySeconds returns how long the machine's processors have been working since boot, or 0 where
// there is no /proc/stat (proc(5)).
func busySeconds() float64 {
	b, err := os.ReadFile("/proc/stat")
	if err != nil {
		return 0
	}
	first, _, _ := strings.Cut(string(b), "\n")
	total := 0.0
	for i, field := range strings.Fields(first) {
		if i == 0 || i == 4 || i == 5 || i > 8 {
			continue // the label, idle and iowait, and what user time includes already
		}
		ticks, err := strconv.ParseFloat(field, 64)
		if err != nil {
			return 0
		}
		total += ticks
	}
	return total / ticksPerSecond
}
