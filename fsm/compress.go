package fsm

import (
	"fmt"

	"github.com/klauspost/compress/zstd"
)

// maxDecompressed bounds what a stored value may expand to; nothing larger is ever written.
const maxDecompressed = 64 << 20

// packer compresses and decompresses stored values. Each store has its own: zstd's pools are
// channels, which a store in a test's bubble must not share with another's.
type packer struct {
	enc *zstd.Encoder
	dec *zstd.Decoder
}

func newPacker() (*packer, error) {
	enc, err := zstd.NewWriter(nil, zstd.WithEncoderConcurrency(1))
	if err != nil {
		return nil, fmt.Errorf("fsm: zstd: %w", err)
	}
	dec, err := zstd.NewReader(nil, zstd.WithDecoderConcurrency(2), zstd.WithDecoderMaxMemory(maxDecompressed))
	if err != nil {
		return nil, fmt.Errorf("fsm: zstd: %w", err)
	}
	return &packer{enc, dec}, nil
}

func (p *packer) compress(b []byte) []byte            { return p.enc.EncodeAll(b, nil) }
func (p *packer) decompress(b []byte) ([]byte, error) { return p.dec.DecodeAll(b, nil) }

func (p *packer) close() {
	p.dec.Close()
	_ = p.enc.Close() // it has no writer to fail
}
