package api

import (
	"strings"
	"testing"

	lockagentv1 "github.com/lockagent/lockagent/proto/lockagent/v1"
)

// A message has what waits, and no more than its bounds.
func TestPartsOfALogAreBounded(t *testing.T) {
	record := func(bytes int) *lockagentv1.LogRecord {
		return &lockagentv1.LogRecord{What: &lockagentv1.LogRecord_Event{Event: strings.Repeat("x", bytes)}}
	}
	for name, test := range map[string]struct{ waiting, bytes, want int }{
		"One":       {0, 600, 1},
		"Few":       {9, 600, 10},
		"Many":      {2 * maxLogPart, 600, maxLogPart},
		"LargeOnes": {maxLogPart, fullLogPart / 4, 4},
	} {
		t.Run(name, func(t *testing.T) {
			more := make(chan *lockagentv1.LogRecord, test.waiting)
			for range test.waiting {
				more <- record(test.bytes)
			}
			if part := logPart(record(test.bytes), more); len(part.Records) != test.want {
				t.Errorf("a message has %d records, want %d", len(part.Records), test.want)
			}
			if test.want == test.waiting+1 {
				close(more)
				if part := logPart(record(test.bytes), more); len(part.Records) != 1 {
					t.Errorf("behind the end a message has %d records, want 1", len(part.Records))
				}
			}
		})
	}
}
