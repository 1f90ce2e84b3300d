package events

import (
	"strconv"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/lockagent/lockagent"
)

// ContentType is the media type of an encoded event.
const ContentType = "application/cloudevents+json"

const (
	specVersion = "1.0"
	sourceRoot  = "/lockagent/agent/"
	dataType    = "application/json"

	// Time has the resolution of a store's clock.
	timeFormat = "2006-01-02T15:04:05.000000Z"

	// The sequence attribute must sort as text.
	epochDigits = 10
	seqDigits   = 16
)

// typeOf is the CloudEvents type of each kind.
var typeOf = func() map[lockagent.EventKind]string {
	types := map[lockagent.EventKind]string{
		lockagent.EventStoreReset:   "io.lockagent.store.reset.v1",
		lockagent.EventAgentStarted: "io.lockagent.agent.started.v1",
		lockagent.EventAgentStopped: "io.lockagent.agent.stopped.v1",
		lockagent.EventAlive:        "io.lockagent.agent.alive.v1",
		lockagent.EventDropped:      "io.lockagent.agent.dropped.v1",
	}
	for _, k := range lockagent.EventKinds() {
		if types[k] == "" {
			types[k] = "io.lockagent.lock." + k.String() + ".v1"
		}
	}
	return types
}()

// Append appends r to b as a CloudEvents 1.0 event in the JSON format, on one
// line without a line break at its end, and returns the result. It allocates
// nothing if b is large enough.
//
// Times and durations are cut to microseconds, a time outside of the years 0 to
// 9999 is left out, and bytes that are not UTF-8 are replaced. [Decode] returns
// everything else as it was.
//
// r must have a known Kind and the identity that a [Publisher] gives.
func Append(b []byte, r Record) []byte {
	b = append(b, `{"specversion":"`+specVersion+`","id":"`...)
	b = appendID(b, r.Agent, r.Epoch, r.Seq)
	b = append(b, `","source":"`+sourceRoot...)
	b = append(b, r.Agent...)
	b = append(b, `","type":"`...)
	b = append(b, typeOf[r.Kind]...)
	b = append(b, '"')
	if attribute(string(r.Lock)) {
		b = appendText(b, `,"subject":`, string(r.Lock))
	}
	if t := r.Time.UTC(); !t.IsZero() && t.Year() >= 0 && t.Year() <= 9999 {
		b = append(b, `,"time":"`...)
		b = t.AppendFormat(b, timeFormat)
		b = append(b, '"')
	}
	b = append(b, `,"datacontenttype":"`+dataType+`","sequence":"`...)
	b = appendSequence(b, r.Epoch, r.Seq)
	b = append(b, '"')
	b = appendText(b, `,"traceparent":`, r.TraceParent)
	b = append(b, `,"data":`...)
	b = appendData(b, &r.Event)
	return append(b, '}')
}

// appendID appends the identity of an event, which is also its Nats-Msg-Id.
func appendID(b []byte, agent lockagent.AgentID, epoch, seq uint64) []byte {
	b = append(b, agent...)
	b = append(b, ':')
	b = strconv.AppendUint(b, epoch, 10)
	b = append(b, ':')
	return strconv.AppendUint(b, seq, 10)
}

// appendSequence appends the sequence attribute, whose text grows with the epoch
// and the sequence.
func appendSequence(b []byte, epoch, seq uint64) []byte {
	b = appendPadded(b, epoch, epochDigits)
	b = append(b, '-')
	return appendPadded(b, seq, seqDigits)
}

// attribute reports whether CloudEvents allows s as the value of an attribute: it
// must not have control characters or what Unicode calls noncharacters, and some
// implementations refuse blanks.
func attribute(s string) bool {
	blank := true
	for _, c := range s {
		if unicode.IsControl(c) || 0xfdd0 <= c && c <= 0xfdef || c&0xfffe == 0xfffe {
			return false
		}
		blank = blank && unicode.IsSpace(c)
	}
	return !blank
}

func appendPadded(b []byte, n uint64, digits int) []byte {
	var text [20]byte
	number := strconv.AppendUint(text[:0], n, 10)
	for range digits - len(number) {
		b = append(b, '0')
	}
	return append(b, number...)
}

// appendData appends the fields of e that are set and that the envelope has no
// place for.
func appendData(b []byte, e *lockagent.Event) []byte {
	start := len(b)
	b = appendText(b, `,"lock":`, string(e.Lock))
	b = appendText(b, `,"owner":`, string(e.Owner))
	b = appendUint(b, `,"request":`, e.Request)
	b = appendUint(b, `,"tenure":`, e.Tenure)
	b = appendUint(b, `,"token":`, uint64(e.Token))
	b = appendText(b, `,"how":`, e.How.String())
	b = appendInt(b, `,"count":`, int64(e.Count))
	b = appendInt(b, `,"waiters":`, int64(e.Waiters))
	b = appendDuration(b, `,"waited_us":`, e.Waited)
	b = appendDuration(b, `,"held_us":`, e.Held)
	b = appendDuration(b, `,"lease_us":`, e.Lease)
	b = appendDuration(b, `,"remaining_us":`, e.Remaining)
	b = appendInt(b, `,"store_time_us":`, int64(e.StoreTime))
	b = appendInt(b, `,"until_us":`, int64(e.Until))
	b = appendText(b, `,"incarnation":`, e.Incarnation)
	b = appendText(b, `,"reason":`, e.Reason.String())
	b = appendText(b, `,"error":`, e.Err)
	if e.Reset != (lockagent.Reset{}) {
		b = append(b, `,"reset":`...)
		b = appendReset(b, &e.Reset)
	}
	return closeObject(b, start)
}

func appendReset(b []byte, r *lockagent.Reset) []byte {
	start := len(b)
	b = appendText(b, `,"from":`, r.From)
	b = appendText(b, `,"to":`, r.To)
	b = appendText(b, `,"reason":`, r.Reason)
	b = appendInt(b, `,"after_us":`, int64(r.After))
	b = appendInt(b, `,"before_us":`, int64(r.Before))
	return closeObject(b, start)
}

// closeObject makes an object of the fields that were appended from start on,
// each with a comma in front.
func closeObject(b []byte, start int) []byte {
	if len(b) == start {
		b = append(b, '{')
	}
	b[start] = '{'
	return append(b, '}')
}

func appendUint(b []byte, key string, n uint64) []byte {
	if n == 0 {
		return b
	}
	return strconv.AppendUint(append(b, key...), n, 10)
}

func appendInt(b []byte, key string, n int64) []byte {
	if n == 0 {
		return b
	}
	return strconv.AppendInt(append(b, key...), n, 10)
}

func appendDuration(b []byte, key string, d time.Duration) []byte {
	return appendInt(b, key, d.Microseconds())
}

func appendText(b []byte, key, text string) []byte {
	if text == "" {
		return b
	}
	b = append(append(b, key...), '"')
	from := 0 // the text before it is appended
	for i := 0; i < len(text); {
		c := text[i]
		if c >= utf8.RuneSelf {
			r, size := utf8.DecodeRuneInString(text[i:])
			if r == utf8.RuneError && size == 1 {
				b = append(append(b, text[from:i]...), `\ufffd`...)
				from = i + 1
			}
			i += size
			continue
		}
		if c < ' ' || c == '"' || c == '\\' {
			b = append(b, text[from:i]...)
			if c < ' ' {
				b = append(b, '\\', 'u', '0', '0', hexDigits[c>>4], hexDigits[c&15])
			} else {
				b = append(b, '\\', c)
			}
			from = i + 1
		}
		i++
	}
	return append(append(b, text[from:]...), '"')
}
