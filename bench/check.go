package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"regexp"
	"time"

	"github.com/lockagent/lockagent/bench/stat"
)

// baseline is what the gauges read when they were last accepted.
type baseline struct {
	Date    time.Time                `json:"date"`
	Machine string                   `json:"machine"`
	Gauges  map[string]stat.Estimate `json:"gauges"`
}

// A gauge is read until its noise is as small as wanted, or it has been read often
// enough.
const (
	noiseWanted = 0.06
	roundsLeast = 7
	roundsMost  = 16
)

// A ratio has regressed if it is worse by more than the noise of both measurements.
// A measurement takes a few minutes, and another hour may be noisier. So each is taken to
// have a noise of noiseWanted at least. More than allowedMost always counts as a
// regression. So a slow-down of 30 % is found even if a measurement errs by more than
// noiseWanted in its favour: 1.3 is 8 % more than 1.2.
const (
	allowedLeast = 2 * noiseWanted
	allowedMost  = 0.20
)

// regression is how a gauge compares with its baseline.
type regression struct {
	worse   float64 // by this part; negative if it is better
	allowed float64
}

func (r regression) failed() bool { return r.worse > r.allowed }

// compare returns how much worse a gauge has become: by which part a cycle takes
// longer.
func (g gauge) compare(now, base stat.Estimate) regression {
	r := regression{allowed: min(max(now.Noise+base.Noise, allowedLeast), allowedMost)}
	if g.more {
		r.worse = base.Median/now.Median - 1
	} else {
		r.worse = now.Median/base.Median - 1
	}
	return r
}

var (
	errRegressed = errors.New("slower than the baseline allows")
	errNoValue   = errors.New("a round has no value: one of its sides did nothing")
)

// check reads the gauges and compares them with a baseline.
func (b *bench) check(ctx context.Context, path string, only *regexp.Regexp) error {
	text, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	var base baseline
	if err := json.Unmarshal(text, &base); err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	b.say("baseline of %s, on: %s", base.Date.Format(time.DateOnly), base.Machine)
	var failed []error
	for _, g := range gauges {
		was, known := base.Gauges[g.name]
		if !only.MatchString(g.name) {
			continue
		}
		if !known {
			failed = append(failed, fmt.Errorf("%s: %s does not know it; write it with -write-baseline", g.name, path))
			continue
		}
		r, now, err := b.judge(ctx, g, was)
		if err != nil {
			return fmt.Errorf("%s: %w", g.name, err)
		}
		verdict := "ok"
		if r.failed() {
			verdict = "REGRESSED"
			failed = append(failed, fmt.Errorf("%w: %s (%s): %.3g is %.0f %% worse than %.3g; noise allows %.0f %%",
				errRegressed, g.name, g.text, now.Median, 100*r.worse, was.Median, 100*r.allowed))
		}
		fmt.Printf("%-9s  %-10s now %8.3g ±%2.0f %%  was %8.3g ±%2.0f %%  worse by %4.0f %% of %2.0f %% allowed, %d rounds\n",
			verdict, g.name, now.Median, 100*now.Noise, was.Median, 100*was.Noise, 100*r.worse, 100*r.allowed, now.Rounds)
	}
	return errors.Join(failed...)
}

// judge reads a gauge. What looks like a regression is read again before it counts.
func (b *bench) judge(ctx context.Context, g gauge, was stat.Estimate) (regression, stat.Estimate, error) {
	rounds, err := b.read(ctx, g, nil, roundsMost)
	if err != nil {
		return regression{}, stat.Estimate{}, err
	}
	if g.compare(stat.Of(rounds...), was).failed() {
		// Of a server and clients of their own: those of the first may be unlucky.
		if rounds, err = b.read(ctx, g, rounds, 2*len(rounds)); err != nil {
			return regression{}, stat.Estimate{}, err
		}
	}
	now := stat.Of(rounds...)
	return g.compare(now, was), now, nil
}

// read reads a gauge until its noise is small, and adds to what was read before.
func (b *bench) read(ctx context.Context, g gauge, rounds []float64, most int) ([]float64, error) {
	one, shut, err := g.open(b, ctx)
	if err != nil {
		return nil, err
	}
	defer shut()
	if _, err := one(); err != nil { // to warm up
		return nil, err
	}
	least := len(rounds) + roundsLeast
	for len(rounds) < least || len(rounds) < most && stat.Of(rounds...).Noise > noiseWanted {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		v, err := one()
		if err != nil {
			return nil, err
		}
		if !isValue(v) {
			return nil, errNoValue
		}
		rounds = append(rounds, v)
	}
	return rounds, nil
}

// writeBaseline reads the gauges and keeps what they read. Those that only does not
// match stay as they were.
func (b *bench) writeBaseline(ctx context.Context, path string, only *regexp.Regexp) error {
	base := baseline{Gauges: make(map[string]stat.Estimate)}
	if text, err := os.ReadFile(path); err == nil {
		if err := json.Unmarshal(text, &base); err != nil {
			return fmt.Errorf("%s: %w", path, err)
		}
	}
	base.Date, base.Machine = b.results.Date, b.results.Machine
	for _, g := range gauges {
		if !only.MatchString(g.name) {
			continue
		}
		var rounds []float64
		var err error
		for range 3 { // of as many servers, for what one run alone does not see
			if rounds, err = b.read(ctx, g, rounds, len(rounds)+roundsLeast); err != nil {
				return fmt.Errorf("%s: %w", g.name, err)
			}
		}
		e := stat.Of(rounds...)
		base.Gauges[g.name] = e
		fmt.Printf("%-10s %8.3g ±%2.0f %% (%.3g..%.3g)  %s\n", g.name, e.Median, 100*e.Noise, e.Low, e.High, g.text)
	}
	text, err := json.MarshalIndent(base, "", "\t")
	if err != nil {
		return err
	}
	return os.WriteFile(path, append(text, '\n'), 0o644)
}
