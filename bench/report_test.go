package main

import (
	"strings"
	"testing"
	"time"

	"github.com/lockagent/lockagent/bench/stat"
)

func TestNumber(t *testing.T) {
	for v, want := range map[float64]string{
		0: "0", 7: "7", 0.123456: "0.123", 1.5: "1.50", 12.345: "12.3", 99.99: "100.0", 123.4: "123",
		1234567: "1,234,567", -1234: "-1,234", 0.00001234: "0.000012",
	} {
		if got := number(v); got != want {
			t.Errorf("number(%v) = %q, want %q", v, got, want)
		}
	}
}

func TestCell(t *testing.T) {
	c := column{Spread: true}
	if got := c.cell(stat.Of(1.2, 1.1, 1.3)); got != "1.20 (1.10..1.30)" {
		t.Errorf("got %q", got)
	}
	if got := c.cell(stat.Of(1.2)); got != "1.20" {
		t.Errorf("one round: %q", got)
	}
	if got := c.cell(stat.Of()); got != "" {
		t.Errorf("not measured: %q", got)
	}
}

func TestVerdicts(t *testing.T) {
	r := &results{}
	for _, v := range r.verdicts() {
		if v.Reached != "not measured" {
			t.Errorf("without results, %q is reached: %s", v.Target, v.Reached)
		}
	}
	at := func(rate, sent float64) *results {
		of := func(name string, rate float64) *row {
			s := newSeries()
			s.add("rate", rate)
			s.add("sent", sent)
			return s.row(name)
		}
		return &results{Tables: []*table{{Name: "one-64", Rows: []*row{of("lockagent", rate), of("redsync", 10), of("redislock", 5)}}}}
	}
	find := func(r *results, target string) verdict {
		for _, v := range r.verdicts() {
			if strings.Contains(v.Target, target) {
				return v
			}
		}
		t.Fatalf("no target %q", target)
		return verdict{}
	}
	if v := find(at(200, 0.05), "at least 20 x"); v.Reached != "yes" || v.Measured != "20.0 x redsync" {
		t.Errorf("20 times the best peer: %+v", v)
	}
	if v := find(at(199, 0.05), "at least 20 x"); v.Reached != "no" {
		t.Errorf("less: %+v", v)
	}
	if v := find(at(200, 0.1), "under 0.1 Redis"); v.Reached != "no" {
		t.Errorf("not under 0.1: %+v", v)
	}
}

func TestSamples(t *testing.T) {
	begin := time.Now()
	var s samples
	sent := int64(0)
	for i := range 40 {
		if i == 20 {
			sent += 50 // at once
		}
		sent += 1
		s = append(s, sample{begin.Add(time.Duration(i) * 100 * time.Millisecond), sent})
	}
	if got := s.most(100 * time.Millisecond); got != 510 {
		t.Errorf("most in 100 ms is %v/s, want 510", got)
	}
	if got := s.most(time.Second); got < 59 || got > 67 {
		t.Errorf("most in 1 s is %v/s, want about 60", got)
	}
	if got := s.mean(); got < 22 || got > 23 {
		t.Errorf("the mean is %v/s, want 89 in 3.9 s", got)
	}
}
