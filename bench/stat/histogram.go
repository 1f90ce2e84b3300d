package stat

import (
	"encoding/json"
	"sync"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"
)

// Histogram is a distribution of durations between 100 ns and 100 s, with three
// significant digits. Make one with [NewHistogram]. It is for one goroutine at a time.
type Histogram struct{ hdr *hdrhistogram.Histogram }

const (
	shortest = int64(100 * time.Nanosecond)
	longest  = int64(100 * time.Second)
)

// NewHistogram returns one without any durations.
func NewHistogram() *Histogram {
	return &Histogram{hdrhistogram.New(shortest, longest, 3)}
}

// Record adds a duration. What is out of range counts as the end of the range.
func (h *Histogram) Record(d time.Duration) {
	_ = h.hdr.RecordValue(min(max(int64(d), shortest), longest)) // in range
}

// Merge adds all that another one has.
func (h *Histogram) Merge(other *Histogram) { h.hdr.Merge(other.hdr) }

// Count is how many durations there are.
func (h *Histogram) Count() int64 { return h.hdr.TotalCount() }

// At is the duration at a percentile.
func (h *Histogram) At(percentile float64) time.Duration {
	return time.Duration(h.hdr.ValueAtPercentile(percentile))
}

// Max is the longest duration.
func (h *Histogram) Max() time.Duration { return time.Duration(h.hdr.Max()) }

// Point is a percentile of a distribution.
type Point struct {
	Percentile float64 `json:"percentile"`
	Us         float64 `json:"us"`
}

// Points are the percentiles that a plot shows: closer to each other the closer they
// are to 100.
func (h *Histogram) Points() []Point {
	if h.Count() == 0 {
		return nil
	}
	var points []Point
	for rest := 100.0; rest > 100/float64(h.Count()) && rest > 0.0005; rest *= 0.85 {
		points = append(points, Point{100 - rest, Us(h.At(100 - rest))})
	}
	return append(points, Point{100 - 100/float64(h.Count()+1), Us(h.Max())})
}

// Us is a duration in microseconds.
func Us(d time.Duration) float64 { return float64(d) / float64(time.Microsecond) }

// MarshalJSON writes the distribution in the compressed form of HdrHistogram.
func (h *Histogram) MarshalJSON() ([]byte, error) {
	b, err := h.hdr.Encode(hdrhistogram.V2CompressedEncodingCookieBase)
	if err != nil {
		return nil, err
	}
	return json.Marshal(string(b))
}

// UnmarshalJSON implements [json.Unmarshaler].
func (h *Histogram) UnmarshalJSON(b []byte) error {
	var text string
	if err := json.Unmarshal(b, &text); err != nil {
		return err
	}
	decoded, err := hdrhistogram.Decode([]byte(text))
	h.hdr = decoded
	return err
}

// Recorder is a distribution that many goroutines record into. The zero Recorder is
// empty.
type Recorder struct{ shards [8]shard }

type shard struct {
	mu        sync.Mutex
	histogram *Histogram // guarded by mu
	_         [64]byte   // so that neighbours do not share a cache line
}

// Record adds a duration. Goroutines with different numbers rarely wait for each
// other.
func (r *Recorder) Record(goroutine int, d time.Duration) {
	s := &r.shards[goroutine%len(r.shards)]
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.histogram == nil {
		s.histogram = NewHistogram()
	}
	s.histogram.Record(d)
}

// Histogram is what was recorded up to now.
func (r *Recorder) Histogram() *Histogram {
	all := NewHistogram()
	for i := range r.shards {
		s := &r.shards[i]
		s.mu.Lock()
		if s.histogram != nil {
			all.Merge(s.histogram)
		}
		s.mu.Unlock()
	}
	return all
}
