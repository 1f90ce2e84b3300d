package stat

import (
	"encoding/json"
	"math"
	"sync"
	"testing"
	"time"
)

func near(a, b float64) bool { return math.Abs(a-b) <= 1e-9*max(1, math.Abs(b)) }

func TestMedian(t *testing.T) {
	for _, c := range []struct {
		figures []float64
		want    float64
	}{
		{[]float64{3}, 3},
		{[]float64{3, 1, 2}, 2},
		{[]float64{4, 1, 3, 2}, 2.5},
		{[]float64{1, 1, 1, 1000}, 1},
	} {
		if got := Median(c.figures); got != c.want {
			t.Errorf("Median(%v) = %v, want %v", c.figures, got, c.want)
		}
	}
	if got := Median(nil); !math.IsNaN(got) {
		t.Errorf("the median of nothing is %v", got)
	}
	figures := []float64{2, 1}
	Median(figures)
	if figures[0] != 2 {
		t.Error("Median sorts what it was given")
	}
}

func TestOf(t *testing.T) {
	e := Of(1.0, 0.9, 1.1, 5)
	if !near(e.Median, 1.05) || e.Low != 0.9 || e.High != 5 || e.Rounds != 4 {
		t.Errorf("got %+v", e)
	}
	if Of().Rounds != 0 || Of(7).Noise != 0 || Of(7, 7, 7).Noise != 0 || Of(0, 0, 1).Noise != 0 {
		t.Error("noise from nothing")
	}
	calm, wild := Of(1, 1.01, 0.99, 1, 1.01), Of(1, 1.3, 0.7, 1, 1.3)
	if calm.Noise <= 0 || wild.Noise < 10*calm.Noise {
		t.Errorf("noise is %v when calm and %v when wild", calm.Noise, wild.Noise)
	}
	if outlier := Of(1, 1.01, 0.99, 1, 100); outlier.Noise > 2*calm.Noise+0.05 {
		t.Errorf("one disturbed round makes the noise %v", outlier.Noise)
	}
	if long := Of(1, 1.01, 0.99, 1, 1.01, 1, 1.01, 0.99, 1, 1.01, 1, 1.01, 0.99, 1, 1.01); long.Noise >= calm.Noise {
		t.Errorf("more rounds have noise %v, fewer %v", long.Noise, calm.Noise)
	}
}

func TestJain(t *testing.T) {
	for _, c := range []struct {
		shares []int64
		want   float64
	}{
		{[]int64{5, 5, 5, 5}, 1},
		{[]int64{9, 0, 0}, 1.0 / 3},
		{[]int64{1, 3}, 16.0 / 20},
		{[]int64{0, 0}, 1},
		{nil, 1},
	} {
		if got := Jain(c.shares); !near(got, c.want) {
			t.Errorf("Jain(%v) = %v, want %v", c.shares, got, c.want)
		}
	}
}

func TestHistogram(t *testing.T) {
	h := NewHistogram()
	for i := range 1000 {
		h.Record(time.Duration(i+1) * time.Millisecond)
	}
	h.Record(0)
	h.Record(time.Hour)
	if h.Count() != 1002 {
		t.Errorf("%d durations, want 1002: none is out of range", h.Count())
	}
	if got := h.At(50); got < 499*time.Millisecond || got > 502*time.Millisecond {
		t.Errorf("the median is %v", got)
	}
	text, err := json.Marshal(h)
	if err != nil {
		t.Fatal(err)
	}
	var copied Histogram
	if err := json.Unmarshal(text, &copied); err != nil {
		t.Fatal(err)
	}
	if copied.Count() != h.Count() || copied.At(99) != h.At(99) || copied.Max() != h.Max() {
		t.Errorf("read back: %d with p99 %v and at most %v", copied.Count(), copied.At(99), copied.Max())
	}
	points := h.Points()
	for i := 1; i < len(points); i++ {
		if points[i].Percentile <= points[i-1].Percentile || points[i].Us < points[i-1].Us {
			t.Errorf("point %d is %v, after %v", i, points[i], points[i-1])
		}
	}
	if len(NewHistogram().Points()) != 0 {
		t.Error("points of nothing")
	}
}

func TestRecorder(t *testing.T) {
	var r Recorder
	var all sync.WaitGroup
	for g := range 20 {
		all.Go(func() {
			for range 100 {
				r.Record(g, time.Millisecond)
			}
		})
	}
	all.Wait()
	if n := r.Histogram().Count(); n != 2000 {
		t.Errorf("%d durations, want 2000", n)
	}
}
