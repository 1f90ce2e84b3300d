package events

import (
	"fmt"
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
	return d.message(contentType, data, visit)
}

// message does what [DecodeMessage] does.
func (d *decoder) message(contentType string, data []byte, visit func(Record) error) error {
	batch, err := isBatch(contentType)
	if err != nil {
		return err
	}
	var r Record
	if !batch {
		if err := d.decode(data, &r); err != nil {
			return err
		}
		return visit(r)
	}
	d.scanner = scanner{text: data}
	d.open('[', "a batch of events")
	for n := 0; d.more(']', n); n++ {
		if d.record(&r); d.err != nil {
			return fmt.Errorf("record %d of the batch: %w", n+1, d.failure())
		}
		if err := visit(r); err != nil {
			d.scanner = scanner{}
			return err
		}
	}
	d.end()
	return d.failure()
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
