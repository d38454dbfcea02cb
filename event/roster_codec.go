package event

import "encoding/binary"

// appendRosterCommand appends the body of a command about the cluster itself; false: it is none.
func appendRosterCommand(dst []byte, c Command) ([]byte, bool) {
	switch c := c.(type) {
	case SetMember:
		dst = appendBytes(dst, c.ID)
		dst = appendBytes(dst, c.DirID)
		dst = appendBytes(dst, c.HTTP)
		dst = appendFlag(dst, c.Voter)
	case DropMember:
		dst = appendBytes(dst, c.ID)
	case RaiseLevel:
		dst = binary.AppendUvarint(dst, uint64(c.Level))
	case Refound:
		dst = appendBytes(dst, c.ClusterID)
	default:
		return dst, false
	}
	return dst, true
}

// rosterCommand decodes what appendRosterCommand wrote; nil: kind is none of its kinds.
func (w *wire) rosterCommand(kind Kind) Command {
	switch kind {
	case KindSetMember:
		return SetMember{ClusterMember{ID: w.string(), DirID: w.string(), HTTP: w.string(), Voter: w.byte() != 0}}
	case KindDropMember:
		return DropMember{w.string()}
	case KindRaiseLevel:
		return RaiseLevel{Level(w.uvarint())}
	case KindRefound:
		return Refound{w.string()}
	}
	return nil
}
