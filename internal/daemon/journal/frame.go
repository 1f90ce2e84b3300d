package journal

import (
	"encoding/binary"
	"hash/crc32"
)

// The beginning of a file.
const (
	magic      = "lockjrnl"
	format     = 2
	preludeLen = len(magic) + 4
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// frameHeader is how long a frame is without its payload.
const frameHeader = 12

// beginFrame appends the header of a frame, whose payload follows. It returns where the frame starts.
func (e *encoder) beginFrame() (start int) {
	start = len(e.b)
	e.b = append(e.b, make([]byte, frameHeader)...)
	return start
}

// endFrame completes the frame that starts there.
func (e *encoder) endFrame(start int) {
	frame := e.b[start:]
	payload := frame[frameHeader:]
	binary.LittleEndian.PutUint32(frame, uint32(len(payload)))
	binary.LittleEndian.PutUint32(frame[4:], crc32.Checksum(payload, castagnoli))
	binary.LittleEndian.PutUint32(frame[8:], crc32.Checksum(frame[:8], castagnoli))
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
