package journal

import (
	"encoding/binary"
	"errors"

	"github.com/lockagent/lockagent/internal/saved"
)

// The first byte of a header, and of a change.
const (
	isHeader byte = iota + 1
	isPut
	isDrop
)

var errMalformed = errors.New("it has something else than this format allows")

func appendText(b []byte, s string) []byte {
	return append(binary.AppendUvarint(b, uint64(len(s))), s...)
}

// cutText returns the text at the beginning, and what follows.
func cutText(b []byte) (text, rest []byte, err error) {
	n, size := binary.Uvarint(b)
	if size <= 0 || n > uint64(len(b)-size) {
		return nil, nil, errMalformed
	}
	b = b[size:]
	return b[:n], b[n:], nil
}

// appendHeader appends the payload of the first frame: the boot of the machine in which the file was made.
func appendHeader(b []byte, boot string) []byte { return appendText(append(b, isHeader), boot) }

// readHeader is the inverse of appendHeader.
func readHeader(payload []byte) (boot string, err error) {
	if len(payload) == 0 || payload[0] != isHeader {
		return "", errNoHeader
	}
	text, rest, err := cutText(payload[1:])
	if err == nil && len(rest) > 0 {
		err = errMalformed
	}
	return string(text), err
}

// appendChange appends a change. A payload is any number of them.
func appendChange(b []byte, c *saved.Change) []byte {
	if c.Data == nil {
		return appendText(append(b, isDrop), c.Key)
	}
	b = appendText(append(b, isPut), c.Key)
	return append(binary.AppendUvarint(b, uint64(len(c.Data))), c.Data...)
}

// readChanges is the inverse of appendChange. The changes do not refer to the payload.
func readChanges(payload []byte) (changes []saved.Change, err error) {
	for len(payload) > 0 {
		kind := payload[0]
		key, rest, err := cutText(payload[1:])
		if err != nil {
			return nil, err
		}
		c := saved.Change{Key: string(key)}
		switch kind {
		case isPut:
			var data []byte
			if data, rest, err = cutText(rest); err != nil {
				return nil, err
			}
			c.Data = append([]byte{}, data...)
		case isDrop:
		default:
			return nil, errMalformed
		}
		changes, payload = append(changes, c), rest
	}
	return changes, nil
}
