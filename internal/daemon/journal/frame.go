package journal

import (
	"encoding/binary"
	"hash/crc32"
)

// The beginning of a file.
const (
	magic      = "lockjrnl"
	format     = 3
	preludeLen = len(magic) + 4
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// frameHeader is how long a frame is without its payload.
const frameHeader = 12

// beginFrame appends the header of a frame, whose payload follows. start is where the frame starts.
func beginFrame(to []byte) (b []byte, start int) {
	return append(to, make([]byte, frameHeader)...), len(to)
}

// endFrame completes a frame, which has all of b.
func endFrame(b []byte) {
	payload := b[frameHeader:]
	binary.LittleEndian.PutUint32(b, uint32(len(payload)))
	binary.LittleEndian.PutUint32(b[4:], crc32.Checksum(payload, castagnoli))
	binary.LittleEndian.PutUint32(b[8:], crc32.Checksum(b[:8], castagnoli))
}

// nextFrame returns the payload of the first frame, and what follows. whole is false if the frame is cut off. good is
// false if it is damaged.
func nextFrame(b []byte) (payload, rest []byte, whole, good bool) {
	if len(b) < frameHeader {
		return nil, nil, false, true
	}
	if crc32.Checksum(b[:8], castagnoli) != binary.LittleEndian.Uint32(b[8:]) {
		return nil, nil, true, false
	}
	size := uint64(binary.LittleEndian.Uint32(b))
	if size > uint64(len(b)-frameHeader) {
		return nil, nil, false, true
	}
	payload, rest = b[frameHeader:frameHeader+size], b[frameHeader+size:]
	return payload, rest, true, crc32.Checksum(payload, castagnoli) == binary.LittleEndian.Uint32(b[4:])
}
