package projection

import (
	"encoding/json"
	"errors"
)

// MaxMergeDepth bounds how deep the objects of a merge patch, and those they meet, may nest.
const MaxMergeDepth = 64

// MergePatch errors.
var (
	ErrPatchSyntax = errors.New("projection: the merge patch or its target is not JSON")
	ErrPatchDepth  = errors.New("projection: the merge patch nests too deep")
)

// MergePatch applies a JSON merge patch (RFC 7396) and returns the new document; an empty target
// is no document. Members that the patch does not name keep their place and their bytes, so that
// numbers keep their digits; new members follow in the patch's order. Of a repeated name the
// last counts. It returns [ErrPatchSyntax] or [ErrPatchDepth] and reads nothing but its
// arguments, so it may be used inside Apply.
func MergePatch(target, patch []byte) ([]byte, error) {
	if !json.Valid(patch) || (len(target) > 0 && !json.Valid(target)) {
		return nil, ErrPatchSyntax
	}
	if depthOf(patch) > MaxMergeDepth {
		return nil, ErrPatchDepth
	}
	return appendMerged(nil, trimSpace(target), trimSpace(patch)), nil
}

func trimSpace(b []byte) []byte {
	i := skipSpace(b, 0)
	if end := valueEnd(b, i); end > 0 {
		return b[i:end]
	}
	return b
}

func appendMerged(dst, target, patch []byte) []byte {
	if !isObject(patch) {
		return append(dst, patch...)
	}
	changes := objectOf(patch)
	dst = append(dst, '{')
	mark := len(dst)
	comma := func() {
		if len(dst) > mark {
			dst = append(dst, ',')
		}
	}
	old := objectOf(target)
	for _, m := range old.members {
		change := changes.get(m.key)
		if change != nil && isNull(change.raw) {
			continue
		}
		comma()
		dst = append(append(dst, m.name...), ':')
		if change == nil {
			dst = append(dst, m.value.raw...)
		} else {
			dst = appendMerged(dst, m.value.raw, change.raw)
		}
	}
	for _, m := range changes.members {
		if old.get(m.key) != nil || isNull(m.value.raw) {
			continue
		}
		comma()
		dst = append(append(dst, m.name...), ':')
		dst = appendMerged(dst, nil, m.value.raw)
	}
	return append(dst, '}')
}

// objectOf takes an object apart, one level deep; anything else is an empty object.
func objectOf(raw []byte) *objectNode {
	n := &node{raw: raw}
	if n.open(); n.obj == nil {
		return new(objectNode)
	}
	return n.obj
}
