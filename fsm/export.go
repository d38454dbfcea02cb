package fsm

import (
	"bufio"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"

	"github.com/cespare/xxhash/v2"
	"github.com/dgraph-io/badger/v4"
	"github.com/klauspost/compress/zstd"
)

// An export: the whole replicated state of one moment, for another node or a backup.
//
//	magic     8 bytes   "RUNLOGX1"
//	then, zstd-compressed:
//	  per key, in key order:
//	    key length    uvarint, not 0
//	    key
//	    value length  uvarint
//	    value         as stored, with its own checksum
//	  0               uvarint
//	  count           uint64   keys
//	  digest          uint64   xxHash64 of everything before it, uncompressed
const exportMagic = "RUNLOGX1"

// maxExportKey and maxExportValue bound what a reader believes of an export.
const (
	maxExportKey   = 1 << 10
	maxExportValue = 8 << 20
)

// Export writes everything applied when it was called, or later, and returns the index that the
// export reflects.
func (m *Machine) Export(ctx context.Context, w io.Writer) (index uint64, err error) {
	if err := m.Flush(ctx); err != nil {
		return 0, fmt.Errorf("fsm: export: %w", err)
	}
	m.mu.RLock()
	st := m.store
	if st == nil {
		m.mu.RUnlock()
		return 0, errClosed
	}
	st.readers.Add(1)
	m.mu.RUnlock()
	defer st.readers.Done()
	begin := func(mt *meta) error { index = mt.index; return nil }
	if err := st.export(ctx, w, begin); err != nil {
		return 0, fmt.Errorf("fsm: export: %w", m.noteDamage(err))
	}
	return index, nil
}

// export writes what one transaction sees; begin is called before, with its meta.
func (st *store) export(ctx context.Context, w io.Writer, begin func(*meta) error) error {
	return st.db.View(func(txn *badger.Txn) error {
		mt, err := readMeta(txn)
		if err == nil {
			err = begin(&mt)
		}
		if err == nil {
			err = exportTxn(ctx, txn, w)
		}
		return err
	})
}

func exportTxn(ctx context.Context, txn *badger.Txn, w io.Writer) error {
	if _, err := io.WriteString(w, exportMagic); err != nil {
		return err
	}
	z, err := zstd.NewWriter(w, zstd.WithEncoderLevel(zstd.SpeedFastest), zstd.WithEncoderConcurrency(1))
	if err != nil {
		return err
	}
	x := exporter{ctx: ctx, w: bufio.NewWriterSize(z, 64<<10), digest: xxhash.New()}
	if err = x.all(txn); err == nil {
		err = x.trailer()
	}
	return errors.Join(err, z.Close())
}

func readMeta(txn *badger.Txn) (meta, error) {
	item, err := txn.Get(metaKey)
	if errors.Is(err, badger.ErrKeyNotFound) {
		return meta{}, nil // nothing was ever flushed
	}
	if err != nil {
		return meta{}, err
	}
	var mt meta
	err = item.Value(func(sealed []byte) (err error) { mt, err = decodeMeta(sealed); return err })
	return mt, err
}

type exporter struct {
	ctx    context.Context
	w      *bufio.Writer
	digest *xxhash.Digest
	count  uint64

	deleted map[streamID]kept
}

func (x *exporter) all(txn *badger.Txn) error {
	merged := mergedRuns(txn)
	var err error
	if x.deleted, err = deletedLogs(txn); err != nil {
		return err
	}
	for _, prefix := range replicated {
		opt := badger.DefaultIteratorOptions
		opt.Prefix = []byte{prefix}
		if err := x.prefix(txn, opt, merged); err != nil {
			return err
		}
	}
	return nil
}

// mergedRuns lists the runs whose records are under keyMerged. Their old segments may be half
// removed, so the export carries the merged ones, under the keys of ordinary segments.
func mergedRuns(txn *badger.Txn) map[streamID]bool {
	merged := make(map[streamID]bool)
	opt := badger.DefaultIteratorOptions
	opt.Prefix, opt.PrefetchValues = []byte{keyMerged}, false
	it := txn.NewIterator(opt)
	defer it.Close()
	for it.Rewind(); it.Valid(); it.Next() {
		if k := it.Item().Key(); len(k) == 17 {
			merged[sidOf(k)] = true
		}
	}
	return merged
}

// deletedLogs lists the runs and streams of which at most the name counts: each node removes
// what else is left of them in its own time. Of a deleted run that forks read, which is told by
// kept, the records count too.
func deletedLogs(txn *badger.Txn) (map[streamID]kept, error) {
	deleted := make(map[streamID]kept)
	for _, kind := range []byte{keyHead, keyStream} {
		err := scan(txn, []byte{kind}, func(key, value []byte) error {
			if isDeleted(value) {
				deleted[sidOf(key)] = false
			}
			return nil
		})
		if err != nil {
			return nil, err
		}
	}
	return deleted, scan(txn, []byte{keySource}, func(key, value []byte) error {
		if _, ok := deleted[sidOf(key)]; ok && (len(value) != 1 || value[0] != 0) {
			deleted[sidOf(key)] = true
		}
		return nil
	})
}

// kept says of a deleted log that its records still count.
type kept bool

// leftover reports whether a pair belongs to a deleted log, or says that a name is free.
func leftover(key, value []byte, deleted map[streamID]kept) bool {
	switch key[0] {
	case keyMeta, keyName, keyThread, keyLock, keySubscription, keySubscribed, keyThreadHead, keyActivity, keyInterrupt, keyStatus, keyParent, keyRoster:
		return false
	case keyStreamName:
		n, err := decodeName(value)
		return err == nil && n.deleted
	case keySource:
		return len(value) == 1 && value[0] == 0
	}
	if len(deleted) == 0 {
		return false
	}
	kept, gone := deleted[sidOf(key)]
	return gone && !(bool(kept) && (key[0] == keySegment || key[0] == keyMerged))
}

func (x *exporter) prefix(txn *badger.Txn, opt badger.IteratorOptions, merged map[streamID]bool) error {
	it := txn.NewIterator(opt)
	defer it.Close()
	for it.Rewind(); it.Valid(); it.Next() {
		if err := x.ctx.Err(); err != nil {
			return err
		}
		key := it.Item().Key()
		if key[0] == keySegment && merged[sidOf(key)] {
			continue
		}
		sealed, err := it.Item().ValueCopy(nil)
		if err != nil {
			return err
		}
		value, err := unseal(key, sealed)
		if err != nil {
			return err
		}
		if leftover(key, value, x.deleted) {
			continue
		}
		if err := x.pair(key, sealed); err != nil {
			return err
		}
	}
	if opt.Prefix[0] == keySegment {
		return x.merged(txn, merged)
	}
	return nil
}

// merged writes merged segments under keySegment, sealed for that key.
func (x *exporter) merged(txn *badger.Txn, merged map[streamID]bool) error {
	if len(merged) == 0 {
		return nil
	}
	return scan(txn, []byte{keyMerged}, func(key, value []byte) error {
		if len(key) == 17 || !merged[sidOf(key)] || leftover(key, value, x.deleted) {
			return nil
		}
		as := append([]byte(nil), key...)
		as[0] = keySegment
		return x.pair(as, seal(as, append([]byte(nil), value...)))
	})
}

func (x *exporter) pair(key, value []byte) error {
	x.count++
	b := binary.AppendUvarint(nil, uint64(len(key)))
	b = append(b, key...)
	b = binary.AppendUvarint(b, uint64(len(value)))
	if err := x.write(b); err != nil {
		return err
	}
	return x.write(value)
}

func (x *exporter) write(b []byte) error {
	x.digest.Write(b)
	_, err := x.w.Write(b)
	return err
}

func (x *exporter) trailer() error {
	if err := x.write(binary.BigEndian.AppendUint64([]byte{0}, x.count)); err != nil {
		return err
	}
	if _, err := x.w.Write(binary.BigEndian.AppendUint64(nil, x.digest.Sum64())); err != nil {
		return err
	}
	return x.w.Flush()
}

// readExport calls put with every key and value of an export, and fails unless it is whole.
func readExport(r io.Reader, put func(key, value []byte) error) error {
	magic := make([]byte, len(exportMagic))
	if _, err := io.ReadFull(r, magic); err != nil || string(magic) != exportMagic {
		return fmt.Errorf("%w: not an export", ErrDamaged)
	}
	z, err := zstd.NewReader(r, zstd.WithDecoderConcurrency(1), zstd.WithDecoderMaxMemory(64<<20))
	if err != nil {
		return err
	}
	defer z.Close()
	in := importer{r: bufio.NewReaderSize(z, 64<<10), digest: xxhash.New()}
	for {
		key, value, err := in.pair()
		if err != nil {
			return fmt.Errorf("%w: export: %v", ErrDamaged, err)
		}
		if key == nil {
			return nil
		}
		if _, err := unseal(key, value); err != nil {
			return err
		}
		if err := put(key, value); err != nil {
			return err
		}
	}
}

type importer struct {
	r      *bufio.Reader
	digest *xxhash.Digest
	count  uint64
}

// pair returns the next pair; a nil key after the trailer, which it has checked.
func (in *importer) pair() (key, value []byte, err error) {
	if key, err = in.bytes(maxExportKey); err != nil {
		return nil, nil, err
	}
	if len(key) == 0 {
		return nil, nil, in.trailer()
	}
	in.count++
	value, err = in.bytes(maxExportValue)
	return key, value, err
}

func (in *importer) bytes(limit uint64) ([]byte, error) {
	n, err := binary.ReadUvarint(in.r)
	if err != nil {
		return nil, err
	}
	if n > limit {
		return nil, fmt.Errorf("a length of %d", n)
	}
	b := make([]byte, n)
	if _, err := io.ReadFull(in.r, b); err != nil {
		return nil, err
	}
	in.digest.Write(binary.AppendUvarint(nil, n))
	in.digest.Write(b)
	return b, nil
}

func (in *importer) trailer() error {
	var b [16]byte
	if _, err := io.ReadFull(in.r, b[:]); err != nil {
		return err
	}
	in.digest.Write(b[:8])
	if n := binary.BigEndian.Uint64(b[:8]); n != in.count {
		return fmt.Errorf("%d keys, there must be %d", in.count, n)
	}
	if in.digest.Sum64() != binary.BigEndian.Uint64(b[8:]) {
		return errors.New("the digest does not match")
	}
	return nil
}

// VerifyExport reads an export to its end and checks it.
func VerifyExport(r io.Reader) error {
	return readExport(r, func(_, _ []byte) error { return nil })
}
