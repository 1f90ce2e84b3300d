package main

import (
	"math"
	"time"

	"github.com/lockagent/lockagent/bench/stat"
)

// results is everything that a run found.
type results struct {
	Date     time.Time         `json:"date"`
	Took     float64           `json:"took_seconds"`
	Machine  string            `json:"machine"`
	Versions map[string]string `json:"versions"`
	Tables   []*table          `json:"tables"`
}

// table is what one scenario found.
type table struct {
	// Name is how -only chooses it.
	Name    string   `json:"name"`
	Title   string   `json:"title"`
	Notes   []string `json:"notes"`
	Columns []column `json:"columns"`
	Rows    []*row   `json:"rows"`
	// Plotted is what the latencies of the rows are of, if they are plotted.
	Plotted string `json:"plotted,omitempty"`
	// Lines are plotted, if it has some.
	Lines *lines `json:"-"`
}

// column is one figure of a table.
type column struct {
	Key   string `json:"key"`
	Title string `json:"title"`
	// Spread is whether the least and the most of the rounds are shown.
	Spread bool `json:"spread,omitempty"`
}

// row is what a table says of one contender.
type row struct {
	Contender string                   `json:"contender"`
	Values    map[string]stat.Estimate `json:"values"`
	// Undefined is how many rounds had no value, by key. Values says nothing of them.
	Undefined map[string]int `json:"undefined,omitempty"`
	Note      string         `json:"note,omitempty"`
	Latency   []stat.Point   `json:"latency,omitempty"`
}

// find returns a row, or nil.
func (r *results) find(tableName, contenderName string) *row {
	for _, t := range r.Tables {
		if t.Name != tableName {
			continue
		}
		for _, row := range t.Rows {
			if row.Contender == contenderName {
				return row
			}
		}
	}
	return nil
}

// value returns the median of a figure.
func (r *results) value(tableName, contenderName, key string) (float64, bool) {
	row := r.find(tableName, contenderName)
	if row == nil {
		return 0, false
	}
	v, ok := row.Values[key]
	return v.Median, ok && v.Rounds > 0
}

// series gathers what the rounds of one contender find.
type series struct {
	values    map[string][]float64
	undefined map[string]int // how many rounds had no value
	waits     *stat.Histogram
	note      string
}

func newSeries() *series {
	return &series{values: make(map[string][]float64), undefined: make(map[string]int), waits: stat.NewHistogram()}
}

// add adds what a round found. A ratio to nothing is no value, and is counted as such.
func (s *series) add(key string, v float64) {
	if !isValue(v) {
		s.undefined[key]++
		return
	}
	s.values[key] = append(s.values[key], v)
}

func isValue(v float64) bool { return !math.IsNaN(v) && !math.IsInf(v, 0) }

func (s *series) row(name string) *row {
	r := &row{
		Contender: name, Values: make(map[string]stat.Estimate), Undefined: s.undefined, Note: s.note,
		Latency: s.waits.Points(),
	}
	for key, values := range s.values {
		r.Values[key] = stat.Of(values...)
	}
	return r
}
