package fsm

import (
	"sync"

	"github.com/klauspost/compress/zstd"
)

// maxDecompressed bounds what a stored value may expand to; nothing larger is ever written.
const maxDecompressed = 64 << 20

var zstdEncoder = sync.OnceValue(func() *zstd.Encoder {
	e, err := zstd.NewWriter(nil, zstd.WithEncoderConcurrency(1))
	if err != nil {
		panic(err) // only for bad options
	}
	return e
})

var zstdDecoder = sync.OnceValue(func() *zstd.Decoder {
	d, err := zstd.NewReader(nil, zstd.WithDecoderConcurrency(2), zstd.WithDecoderMaxMemory(maxDecompressed))
	if err != nil {
		panic(err) // only for bad options
	}
	return d
})

func compress(b []byte) []byte { return zstdEncoder().EncodeAll(b, nil) }

func decompress(b []byte) ([]byte, error) { return zstdDecoder().DecodeAll(b, nil) }
