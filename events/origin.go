package events

import (
	"fmt"
	"strconv"
	"strings"
	"time"
)

// OriginHeader says of a copy where the message stands in the stream from which a [natslog.Forwarder] has brought it:
//
//	<stream>.<position>
//	<stream>.<position>.<first>-<last>
//
// The second form says that messages of the source are lost, and that this is the first copy behind them. They are
// among those from first to last. A message that was forwarded several times has several of these, with commas between
// them.
const OriginHeader = "Lockagent-Origin"

// Origin is one of what the header says.
type Origin struct {
	Stream   string
	Position uint64
	Lost     Range // Last is 0 if nothing is
}

// OriginOf names a stream for good. A stream that is made anew gets another name.
func OriginOf(created time.Time) string { return strconv.FormatInt(created.UnixNano(), 36) }

// String is how the header says it.
func (o Origin) String() string {
	text := o.Stream + "." + strconv.FormatUint(o.Position, 10)
	if o.Lost.Last > 0 {
		text += fmt.Sprintf(".%d-%d", o.Lost.First, o.Lost.Last)
	}
	return text
}

// ParseOrigin is the inverse of [origin.String]. It reports false for any other text.
func ParseOrigin(text string) (o Origin, ok bool) {
	stream, rest, _ := strings.Cut(text, ".")
	position, lost, loses := strings.Cut(rest, ".")
	number := func(text string) uint64 { // 0 if it is none
		n, _ := strconv.ParseUint(text, 10, 64)
		return n
	}
	o.Stream, o.Position = stream, number(position)
	if loses {
		first, last, _ := strings.Cut(lost, "-")
		o.Lost = Range{number(first), number(last)}
		ok = 0 < o.Lost.First && o.Lost.First <= o.Lost.Last && o.Lost.Last < o.Position
	} else {
		ok = o.Position > 0
	}
	return o, ok && stream != "" && o.String() == text
}

// LastOrigin is the text about the stream that the last forwarder has read.
func LastOrigin(header string) string { return header[strings.LastIndexByte(header, ',')+1:] }
