package events

import (
	"fmt"
	"slices"
	"strings"
)

// The media types of a message.
const (
	// ContentType is that of a message with one record: what [Append] appends.
	ContentType = "application/cloudevents+json"

	// BatchContentType is that of a message with several records: a JSON array of them.
	BatchContentType = "application/cloudevents-batch+json"
)

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
	d.records, err = d.message(d.records[:0], contentType, data)
	for _, r := range d.records {
		if err := visit(r); err != nil {
			return err
		}
	}
	return err
}

// message appends the records of a message to records. It returns an error behind the last
// record that it understands.
func (d *decoder) message(records []Record, contentType string, data []byte) ([]Record, error) {
	batch, err := isBatch(contentType)
	if err != nil {
		return records, err
	}
	if !batch {
		n := len(records)
		records = oneMore(records)
		if err := d.decode(data, &records[n]); err != nil {
			return records[:n], err
		}
		return records, nil
	}
	d.scanner = scanner{text: data}
	d.open('[', "a batch of events")
	for n := 0; d.more(']', n); n++ {
		records = oneMore(records)
		if d.record(&records[len(records)-1]); d.err != nil {
			return records[:len(records)-1], fmt.Errorf("record %d of the batch: %w", n+1, d.failure())
		}
	}
	d.end()
	return records, d.failure()
}

// oneMore makes room for a record. What was there before is still in it: a record is large, and
// is not cleared twice.
func oneMore(records []Record) []Record {
	records = slices.Grow(records, 1)
	return records[:len(records)+1]
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
	return false, fmt.Errorf("events: decode: content type %q is neither %s nor %s", contentType, ContentType, BatchContentType)
}
