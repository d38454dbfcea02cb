package event

import "strconv"

// HalfSurrogate reports whether a valid JSON string, with its quotes and as it was sent, escapes one
// half of a surrogate pair without the other. Decoded it is no Unicode text: every such half
// becomes U+FFFD, so that two strings that differ would read as the same. Deltas may hold halves, which
// their neighbours complete; names must not.
func HalfSurrogate(raw string) bool {
	high := false
	for i := 0; i < len(raw); {
		unit, size := uint64(0), 1
		if raw[i] == '\\' && i+1 < len(raw) {
			size = 2
			if raw[i+1] == 'u' && i+6 <= len(raw) {
				unit, _ = strconv.ParseUint(raw[i+2:i+6], 16, 16) // valid JSON has four digits here
				size = 6
			}
		}
		i += size
		low := unit >= 0xdc00 && unit <= 0xdfff
		if low != high {
			return true
		}
		high = unit >= 0xd800 && unit <= 0xdbff
	}
	return high
}
