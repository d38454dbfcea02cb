package projection

// metadata is what events attached to a message or a tool call: an object merged key by key,
// the last write winning, never deep (npm @ag-ui/core 1.0.0, metadata.ts).
type metadata struct {
	set     bool // an empty object is not an absent one
	members []member
	index   map[string]int // by key; only from manyMembers on
}

// manyMembers is where an index beats looking through the members.
const manyMembers = 16

// member is one member of an object: its name as a JSON string, and its JSON value.
type member struct {
	name  string
	key   string
	value string
}

// merge folds a JSON object in; anything else changes nothing. It returns how many bytes it added.
func (m *metadata) merge(raw []byte) int {
	if !isObject(raw) {
		return 0
	}
	m.set = true
	added := 0
	it := members(raw)
	for {
		name, value, ok := it.next()
		if !ok {
			return added
		}
		key := nameBytes(name)
		if i := m.find(key); i >= 0 {
			if m.members[i].value != string(value) {
				added += len(value) - len(m.members[i].value)
				m.members[i].value = string(value)
			}
			continue
		}
		m.add(member{name: quoted(name), key: string(key), value: string(value)})
		added += len(name) + len(value) + 4
	}
}

func quoted(body []byte) string { return `"` + string(body) + `"` }

func (m *metadata) add(mb member) {
	m.members = append(m.members, mb)
	switch {
	case m.index != nil:
		m.index[mb.key] = len(m.members) - 1
	case len(m.members) >= manyMembers:
		m.index = make(map[string]int, 2*manyMembers)
		for i, mb := range m.members {
			m.index[mb.key] = i
		}
	}
}

func (m *metadata) find(key []byte) int {
	if m.index != nil {
		if i, ok := m.index[string(key)]; ok {
			return i
		}
		return -1
	}
	for i := range m.members {
		if m.members[i].key == string(key) {
			return i
		}
	}
	return -1
}

func (m *metadata) appendJSON(dst []byte) []byte {
	dst = append(dst, '{')
	for i, mb := range m.members {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = append(dst, mb.name...)
		dst = append(dst, ':')
		dst = append(dst, mb.value...)
	}
	return append(dst, '}')
}
