package events

import (
	"fmt"
	"strings"

	"github.com/lockagent/lockagent/events/internal/wire"
)

// The media types of a message.
const (
	// ContentType is that of a message with one record: what [Append] appends.
	ContentType = "application/cloudevents+json"

	// BatchContentType is that of a message with several records: a JSON array of what [AppendBatch] appends.
	BatchContentType = "application/cloudevents-batch+json"
)

// AppendBatch appends records of one lock and agent as a batch, as an agent does, and returns the result.
// Holds that follow each other are a table.
func AppendBatch(b []byte, records []Record) []byte {
	b = append(b, '[')
	for i := 0; i < len(records); {
		if i > 0 {
			b = append(b, ',')
		}
		n := 1
		if holds := tableOf(records[i:]); len(holds) > 1 {
			n = len(holds)
			b = wire.AppendTable(b, records[i].Agent, holds, records[i].added(), new(wire.Before))
		} else {
			b = Append(b, records[i])
		}
		i += n
	}
	return append(b, ']')
}

// tableOf returns the facts of the records, from the first one on, that make a table. Of fewer than two there is none.
func tableOf(records []Record) []*wire.Fact {
	var facts []*wire.Fact
	var row *wire.Fact // the first one
	for i := range records {
		r, first := &records[i], &records[0]
		if r.Raw != "" || r.Agent != first.Agent || r.Epoch != first.Epoch || r.Seq != first.Seq+uint64(i) ||
			r.Follows != (Place{}) || r.Dropped != (Drops{}) {
			break
		}
		f := wire.FactOf(&r.Event)
		if !f.Extends(row) {
			break
		}
		facts = append(facts, &f)
		row = facts[0]
	}
	return facts
}

// DecodeMessage calls visit for each record of a message, in their order. contentType is
// the Content-Type header of the message; if it is empty, the message is taken for one
// record.
//
// It returns what visit returned, or what is wrong with the message. Then the records
// before that place were visited, and those behind it are not known.
func DecodeMessage(contentType string, data []byte, visit func(Record) error) error {
	d := decoders.Get().(*decoder)
	defer decoders.Put(d)
	var err error
	d.records, err = d.batch(d.records[:0], contentType, data)
	for _, r := range d.records {
		if err := visit(r); err != nil {
			return err
		}
	}
	return err
}

// batch appends the records of a message to records. It returns an error behind the last
// record that it understands.
func (d *decoder) batch(records []Record, contentType string, data []byte) ([]Record, error) {
	batch, err := isBatch(contentType)
	if err != nil {
		return records, err
	}
	d.message.read(data)
	if !batch {
		n := len(records)
		records = d.event(records, false)
		d.message.end()
		if err := d.failure(); err != nil {
			return records[:n], err
		}
		return records, nil
	}
	d.message.open('[', "a batch of events")
	for n := 1; d.message.more(); n++ {
		if records = d.event(records, false); d.message.err != nil {
			return records, fmt.Errorf("event %d of the batch: %w", n, d.failure())
		}
	}
	d.message.end()
	return records, d.failure()
}

// isBatch says which of the media types contentType is.
func isBatch(contentType string) (bool, error) {
	switch contentType {
	case BatchContentType:
		return true, nil
	case ContentType, "":
		return false, nil
	}
	media, _, _ := strings.Cut(contentType, ";")
	media = strings.ToLower(strings.TrimSpace(media))
	if media == BatchContentType || media == ContentType {
		return media == BatchContentType, nil
	}
	return false, fmt.Errorf(
		"events: decode: content type %q is neither %s nor %s", contentType, ContentType, BatchContentType,
	)
}
