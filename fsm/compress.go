package fsm

import "github.com/klauspost/compress/zstd"

// maxDecompressed bounds what a stored value may expand to; nothing larger is ever written.
const maxDecompressed = 64 << 20

// The codecs are made before anything runs, and all of what they make on first use: their channels
// would otherwise belong to whichever test's virtual time came first.
var (
	zstdEncoder = newEncoder()
	zstdDecoder = newDecoder()
)

func newEncoder() *zstd.Encoder {
	e, err := zstd.NewWriter(nil, zstd.WithEncoderConcurrency(1))
	if err != nil {
		panic(err) // only for bad options
	}
	e.EncodeAll([]byte{0}, nil)
	return e
}

func newDecoder() *zstd.Decoder {
	d, err := zstd.NewReader(nil, zstd.WithDecoderConcurrency(2), zstd.WithDecoderMaxMemory(maxDecompressed))
	if err != nil {
		panic(err) // only for bad options
	}
	return d
}

func compress(b []byte) []byte { return zstdEncoder.EncodeAll(b, nil) }

func decompress(b []byte) ([]byte, error) { return zstdDecoder.DecodeAll(b, nil) }
