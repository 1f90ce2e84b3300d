package main

import (
	"bytes"
	"encoding/json"
	"math"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
)

func TestRoundsWithoutAValueAreTold(t *testing.T) {
	s := newSeries()
	for _, v := range []float64{1, math.NaN(), 2, math.Inf(1), 3} {
		s.add("x", v)
	}
	s.fairness("", []int64{0, 0})
	table := &table{
		Columns: []column{
			{Key: "x", Title: "x floor"},
			{Key: "least", Title: "least/mean"},
			{Key: "most", Title: "most/mean"},
			{Key: "jain", Title: "Jain"},
		},
		Rows: []*row{s.row("redsync"), newSeries().row("lockagent")},
	}
	if e := table.Rows[0].Values["x"]; e.Median != 2 || e.Rounds != 3 {
		t.Errorf("those with a value are %+v", e)
	}
	want := []string{
		"redsync: of 5 rounds, 2 had no value for: x floor",
		"redsync: of 1 rounds, 1 had no value for: least/mean",
		"redsync: of 1 rounds, 1 had no value for: most/mean",
		"redsync: of 1 rounds, 1 had no value for: Jain",
	}
	if got := table.rowNotes(); !reflect.DeepEqual(got, want) {
		t.Errorf("the notes are %q, want %q", got, want)
	}
}

// What changes in results.json shows by row, and it stays readable for machines.
func TestResultsAreWrittenByRow(t *testing.T) {
	s := newSeries()
	s.add("rate", 7)
	s.note = `a "quoted, [note]\` + "\n"
	r := &results{
		Machine: "a {machine}",
		Tables: []*table{
			{Name: "own-1", Columns: []column{{Key: "rate"}, {Key: "p50"}}, Rows: []*row{s.row("floor"), s.row("lockagent")}},
		},
	}
	path := filepath.Join(t.TempDir(), "results.json")
	if err := r.writeJSON(path); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	var rows int
	for line := range strings.Lines(string(text)) {
		if strings.HasPrefix(line, `{"contender":`) {
			var read row
			if err := json.Unmarshal([]byte(strings.TrimRight(line, ",\n")), &read); err != nil || read.Note != s.note {
				t.Errorf("%v in the line %s", err, line)
			}
			rows++
		}
	}
	if rows != 2 {
		t.Errorf("%d lines are rows, want 2 in:\n%s", rows, text)
	}
	var whole struct{ results }
	if err := json.Unmarshal(text, &whole); err != nil ||
		!reflect.DeepEqual(whole.Tables[0].Columns, r.Tables[0].Columns) || len(whole.Tables[0].Rows) != 2 {
		t.Errorf("read back: %+v, %v", whole, err)
	}
	var compact bytes.Buffer
	if err := json.Compact(&compact, text); err != nil || bytes.Count(compact.Bytes(), []byte("\n")) != 0 {
		t.Errorf("it is no JSON: %v", err)
	}
}

func TestWhoFellBehind(t *testing.T) {
	of := func(name string, pace ...float64) *row {
		s := newSeries()
		for _, p := range pace {
			s.add(paceKept, p)
		}
		return s.row(name)
	}
	if note := fellBehind([]*row{of("lockagent", 1, 0.99), of("redislock", 0.9, 1, 1)}); note != "" {
		t.Errorf("nobody fell behind, but: %s", note)
	}
	note := fellBehind([]*row{of("lockagent", 1), of("redsync", 0.5), of("redislock", 0.94), of("none")})
	if !strings.Contains(note, "`redsync`, `redislock`.") || strings.Contains(note, "lockagent") ||
		strings.Contains(note, "none") {
		t.Errorf("two fell behind: %s", note)
	}
}
