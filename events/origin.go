package events

import (
	"fmt"
	"strconv"
	"strings"
	"time"
)

// originHeader says of a copy where the message stands in the stream from which a [Forwarder] has brought it:
//
//	<stream>.<position>
//	<stream>.<position>.<first>-<last>
//
// The second form says that messages of the source are lost, and that this is the first copy behind them. They are among
// those from first to last. A message that was forwarded several times has several of these, with commas between them.
const originHeader = "Lockagent-Origin"

// origin is one of what the header says.
type origin struct {
	stream   string
	position uint64
	lost     Range // Last is 0 if nothing is
}

// originOf names a stream for good. A stream that is made anew gets another name.
func originOf(created time.Time) string { return strconv.FormatInt(created.UnixNano(), 36) }

// String is how the header says it.
func (o origin) String() string {
	text := o.stream + "." + strconv.FormatUint(o.position, 10)
	if o.lost.Last > 0 {
		text += fmt.Sprintf(".%d-%d", o.lost.First, o.lost.Last)
	}
	return text
}

// parseOrigin is the inverse of [origin.String]. It reports false for any other text.
func parseOrigin(text string) (o origin, ok bool) {
	stream, rest, _ := strings.Cut(text, ".")
	position, lost, loses := strings.Cut(rest, ".")
	number := func(text string) uint64 { // 0 if it is none
		n, _ := strconv.ParseUint(text, 10, 64)
		return n
	}
	o.stream, o.position = stream, number(position)
	if loses {
		first, last, _ := strings.Cut(lost, "-")
		o.lost = Range{number(first), number(last)}
		ok = 0 < o.lost.First && o.lost.First <= o.lost.Last && o.lost.Last < o.position
	} else {
		ok = o.position > 0
	}
	return o, ok && stream != "" && o.String() == text
}

// lastOrigin is the text about the stream that the last forwarder has read.
func lastOrigin(header string) string { return header[strings.LastIndexByte(header, ',')+1:] }
