package projection

// Content parts (images, documents …) as enforcement leaves them: parts of an unknown type, and
// media whose source is of an unknown type, are dropped; members that the part does not have are
// dropped; a described member of the wrong shape is an error.

// partMembers says what a part or a source may hold: 's' an optional string, 'S' a required one,
// 'v' any value but null, 'O' the required source.
var partMembers = map[string]map[string]byte{
	"text":     {"type": 's', "id": 's', "text": 'S', "metadata": 'v'},
	"image":    mediaMembers,
	"audio":    mediaMembers,
	"video":    mediaMembers,
	"document": mediaMembers,
}

var mediaMembers = map[string]byte{"type": 's', "id": 's', "source": 'O', "metadata": 'v'}

var sourceMembers = map[string]map[string]byte{
	"data": {"type": 's', "value": 'S', "mimeType": 'S'},
	"url":  {"type": 's', "value": 'S', "mimeType": 's'},
	"file": {"type": 's', "value": 'S', "provider": 's', "mimeType": 's'},
}

// verdict is what becomes of a value under enforcement.
type verdict uint8

const (
	keep verdict = iota
	drop         // its type is unknown
	fail         // it is malformed
)

// cleanParts returns a copy of an array of content parts without what enforcement drops.
func cleanParts(raw []byte) ([]byte, bool) {
	out := append(make([]byte, 0, len(raw)), '[')
	it := elements(raw)
	for {
		v, ok := it.next()
		if !ok {
			return append(out, ']'), !it.bad
		}
		mark := len(out)
		if mark > 1 {
			out = append(out, ',')
		}
		var verd verdict
		switch out, verd = cleanUnion(out, v, partMembers); verd {
		case drop:
			out = out[:mark]
		case fail:
			return nil, false
		}
	}
}

// cleanUnion appends raw, an object that its "type" tells from others, without what its kind
// does not have.
func cleanUnion(dst, raw []byte, kinds map[string]map[string]byte) ([]byte, verdict) {
	if !isObject(raw) {
		return dst, fail
	}
	typ := memberOf(raw, "type")
	if !isString(typ) {
		return dst, drop
	}
	allowed, ok := kinds[string(keyBytes(typ))]
	if !ok {
		return dst, drop
	}
	for name, kind := range allowed { // any order: only presence counts
		if (kind == 'S' || kind == 'O') && memberOf(raw, name) == nil {
			return dst, fail
		}
	}
	return cleanMembers(dst, raw, allowed)
}

func cleanMembers(dst, raw []byte, allowed map[string]byte) ([]byte, verdict) {
	dst = append(dst, '{')
	it := members(raw)
	for {
		name, v, ok := it.next()
		if !ok {
			return append(dst, '}'), keep
		}
		kind := allowed[string(nameBytes(name))]
		switch kind {
		case 0:
			continue
		case 's', 'v':
			if isNull(v) {
				continue // an optional null, as producers older than 1.0 write
			}
		}
		if (kind == 's' || kind == 'S') && !isString(v) {
			return dst, fail
		}
		dst = appendName(dst, string(name))
		if kind != 'O' {
			dst = append(dst, v...)
			continue
		}
		var verd verdict
		if dst, verd = cleanUnion(dst, v, sourceMembers); verd != keep {
			return dst, verd
		}
	}
}
