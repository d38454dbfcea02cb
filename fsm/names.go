package fsm

import "crypto/sha256"

// fingerprint is the first 16 bytes of a SHA-256: long enough that nobody can make two names
// collide, which would look like damage.
type fingerprint [16]byte

func fingerprintOf[T ~string](name T) fingerprint {
	h := sha256.Sum256([]byte(name))
	return fingerprint(h[:16])
}

func (f *fingerprint) xor(g fingerprint) {
	for i := range f {
		f[i] ^= g[i]
	}
}

// nameSet holds the fingerprints of all run ids ever used, deleted ones too, or of all streams there
// are, so that "no such run" is known without asking Badger, which answers "not found" after some
// kinds of damage too. Its count and sum are stored with every flush and compared at open.
type nameSet struct {
	set map[fingerprint]struct{}
	sum fingerprint // XOR of all of them
}

func newNameSet() nameSet { return nameSet{set: make(map[fingerprint]struct{})} }

func (n *nameSet) has(f fingerprint) bool {
	_, ok := n.set[f]
	return ok
}

func (n *nameSet) add(f fingerprint) {
	n.set[f] = struct{}{}
	n.sum.xor(f)
}

func (n *nameSet) remove(f fingerprint) {
	delete(n.set, f)
	n.sum.xor(f)
}

// proof is what is stored of a name set to compare the next load with.
type proof struct {
	count uint64
	sum   fingerprint
}

func (n *nameSet) proof() proof { return proof{uint64(len(n.set)), n.sum} }
