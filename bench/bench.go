package main

import (
	"context"
	"fmt"
	"io"
	"regexp"
	"runtime"
	"slices"
	"strconv"
	"time"

	"github.com/lockagent/lockagent/bench/contender"
)

// bench is one run of the program.
type bench struct {
	plan       plan
	contenders *regexp.Regexp           // those that are measured beside floor and lockagent
	slowdown   float64                  // wasted by lockagent, to see that it is noticed
	grantTimes map[string]time.Duration // of lockagent by crowd, in the first round, which is not slowed
	progress   io.Writer
	results    *results
	programs   *programs
}

// scenario is something that is measured.
type scenario struct {
	name string
	run  func(*bench, context.Context) error
}

var scenarios = []scenario{
	{"redisson", (*bench).redisson}, // first, because it ends at once where there is no Java
	{"own-1", func(b *bench, ctx context.Context) error { return b.own(ctx, 1) }},
	{"own-64", func(b *bench, ctx context.Context) error { return b.own(ctx, 64) }},
	{"own-1024", func(b *bench, ctx context.Context) error { return b.own(ctx, 1024) }},
	{"paced", (*bench).paced},
	{"cold-1", func(b *bench, ctx context.Context) error { return b.cold(ctx, 1, withoutPeers) }},
	{"cold-64", func(b *bench, ctx context.Context) error { return b.cold(ctx, 64, withPeers) }},
	{"cold-1024", func(b *bench, ctx context.Context) error { return b.cold(ctx, 1024, withoutPeers) }},
	{"do-1", func(b *bench, ctx context.Context) error { return b.do(ctx, 1) }},
	{"do-64", func(b *bench, ctx context.Context) error { return b.do(ctx, 64) }},
	{"do-1024", func(b *bench, ctx context.Context) error { return b.do(ctx, 1024) }},
	{"one-64", func(b *bench, ctx context.Context) error { return b.contended(ctx, oneProcess) }},
	{"one-8x8", func(b *bench, ctx context.Context) error { return b.contended(ctx, eightProcesses) }},
	{"one-8x8-5ms", func(b *bench, ctx context.Context) error { return b.contended(ctx, eightProcesses5ms) }},
	{"handoff", (*bench).handoff},
	{"cluster", (*bench).cluster},
	{"socket", (*bench).overSocket},
	{"killed", (*bench).killed},
	{"command", (*bench).commands},
	{"claims-10000", (*bench).claims},
	{"server", (*bench).serverTime},
	{"reentrant", (*bench).reentrant},
	{"readers", (*bench).readers},
	{"multi", (*bench).multi},
	{"abandoned", (*bench).abandoned},
	{"rest", (*bench).rest},
	{"rest-price", (*bench).restPrice},
	{"rest-java", (*bench).restJava},
	{"rest-killed", (*bench).restKilled},
	{"events", (*bench).logged},
	{"audit", (*bench).audited},
	{"tracing", (*bench).traced},
	{"kept-10000", func(b *bench, ctx context.Context) error { return b.kept(ctx, "kept-10000", b.plan.KeptFew) }},
	{"kept-100000", func(b *bench, ctx context.Context) error { return b.kept(ctx, "kept-100000", b.plan.KeptMany) }},
	{"once-1000000", (*bench).once},
}

// all runs the scenarios whose names match.
func (b *bench) all(ctx context.Context, only *regexp.Regexp) error {
	start := time.Now()
	for _, s := range scenarios {
		if !only.MatchString(s.name) {
			continue
		}
		began := time.Now()
		err := s.run(b, ctx)
		if ctx.Err() != nil { // which ends what a scenario has started, and looks like a failure of that
			err = context.Cause(ctx)
		}
		if err != nil {
			return fmt.Errorf("%s: %w", s.name, err)
		}
		b.say("%-14s %5.1f s", s.name, time.Since(began).Seconds())
	}
	b.results.Took = time.Since(start).Seconds()
	return nil
}

func (b *bench) say(format string, args ...any) { fmt.Fprintf(b.progress, format+"\n", args...) }

// wants is whether a contender takes part.
func (b *bench) wants(k contender.Kind) bool {
	return !k.IsPeer() || b.contenders.MatchString(k.Name)
}

// waiting are the contenders that take part where one waits for another.
func (b *bench) waiting() []contender.Kind {
	return slices.DeleteFunc(slices.Clone(contender.Kinds), func(k contender.Kind) bool { return !k.Waits || !b.wants(k) })
}

// rounds is how often a contender is measured.
func (b *bench) rounds(k contender.Kind) int {
	if k.Family == contender.Lockagent {
		return b.plan.OurRounds
	}
	return b.plan.PeerRounds
}

// opened is a contender at work.
type opened struct {
	contender.Contender
	kind contender.Kind
}

// open opens a contender.
func (b *bench) open(ctx context.Context, kind contender.Kind, s *server) (*opened, error) {
	c, err := kind.Open(ctx, s.Addr())
	if err != nil {
		return nil, fmt.Errorf("%s: %w", kind.Name, err)
	}
	if err := warmUp(ctx, c); err != nil {
		c.Close()
		return nil, fmt.Errorf("%s: %w", kind.Name, err)
	}
	if kind.Family == contender.Lockagent {
		c = b.slow(c)
	}
	return &opened{c, kind}, nil
}

// warmUp takes a lock before the measurement. So nobody measures the work of the first time, such as
// loading scripts. Some contenders miss a lock if the first answer is late.
func warmUp(ctx context.Context, c contender.Contender) (err error) {
	for try := range 5 {
		var held contender.Held
		if held, err = lockPatiently(ctx, "warm-up/"+strconv.Itoa(try), c.Lock); err == nil {
			return held.Unlock()
		}
	}
	return err
}

// slow has a contender waste time, if it is to waste any.
func (b *bench) slow(c contender.Contender) contender.Contender {
	if b.slowdown == 0 {
		return c
	}
	return &contender.Slowed{Contender: c, Part: b.slowdown}
}

// ownName is a lock that one goroutine has for itself.
func ownName(goroutine, _ int) string { return ownNames[goroutine] }

// ownFloorName is one that the floor has for a goroutine.
func ownFloorName(goroutine, _ int) string { return ownFloorNames[goroutine] }

// The names are made before anything is measured.
var ownNames, ownFloorNames = numbered("bench/"), numbered("bench/floor/")

func numbered(prefix string) (names [1024]string) {
	for g := range names {
		names[g] = prefix + strconv.Itoa(g)
	}
	return names
}

// collect has the garbage of one measurement not burden the next.
func collect() { runtime.GC() }
