package sizing

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"text/tabwriter"
	"time"
)

// row is one line of the table: what the model says, and what was counted.
type row struct {
	what        string
	least, most float64 // of the model; equal, but for a tolerance, if it says one figure
	got         float64
}

// about is a row whose model is a figure that may be off by a part of itself.
func about(what string, want, part, got float64) row {
	return row{what, want * (1 - part), want * (1 + part), got}
}

// table holds rows against the model and prints them.
type table struct {
	*testing.T
	out *tabwriter.Writer
}

func newTable(t *testing.T, title string) *table {
	out := tabwriter.NewWriter(t.Output(), 0, 0, 2, ' ', 0)
	fmt.Fprintf(out, "%s\t\tmodel\tsimulation\n", title)
	return &table{t, out}
}

func (t *table) add(r row) {
	t.Helper()
	verdict := ""
	if r.got < r.least || r.got > r.most {
		verdict = "not so"
		t.Errorf("%s: %s, the model says %s", r.what, figure(r.got), r.model())
	}
	fmt.Fprintf(t.out, "  %s\t\t%s\t%s\t%s\n", r.what, r.model(), figure(r.got), verdict)
}

// note is a figure that there is no model of.
func (t *table) note(what string, got float64) {
	fmt.Fprintf(t.out, "  %s\t\t\t%s\n", what, figure(got))
}

func (r row) model() string {
	if r.most <= 1.15*r.least {
		return figure((r.least + r.most) / 2)
	}
	return figure(r.least) + " to " + figure(r.most)
}

func figure(x float64) string {
	switch {
	case x == 0 || x >= 100:
		return fmt.Sprintf("%.0f", x)
	case x >= 10:
		return fmt.Sprintf("%.1f", x)
	}
	return fmt.Sprintf("%.2f", x)
}

// The fleet of docs/performance.md, at a size that is quick to run. `make sizing`
// runs it at full size.
func TestFleet(t *testing.T) { runFleet(t, 20, 100) }

func runFleet(t *testing.T, hosts, locks int) {
	synctest.Test(t, func(t *testing.T) {
		f := newFleet(hosts, locks)
		w := newWorld(t, f, 10*time.Minute)
		defer w.end()
		w.keep(f.period())
		w.begin()
		time.Sleep(f.period())
		w.steady()
		w.oneDies()
		w.redisRestarts()
	})
}

// Another program keeps locks, and one host waits for all of them.
func TestBesideAnotherProgram(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFleet(1, 100)
		w := newWorld(t, f, 10*time.Minute)
		defer w.end()
		ctx, stop := context.WithCancel(context.Background())
		w.stop = stop
		host := w.hosts[0]
		host.lend(ctx)
		host.standBy(ctx, host)
		time.Sleep(f.period()) // in which they asked for the first time
		const d = 5 * time.Minute
		time.Sleep(d)
		table := newTable(t, fmt.Sprintf("Another program keeps %d locks, for %v", f.locks, d))
		defer table.out.Flush()
		table.add(about("attempts of those who wait /s", f.attemptsBeside(f.locks), 0.1, w.meter.last(d).rate(kept, acquire)))
	})
}

// steady is what the fleet costs day by day.
func (w *world) steady() {
	const d = time.Minute
	time.Sleep(d)
	s, n := w.meter.last(d), float64(len(w.hosts))
	table := newTable(w.T, fmt.Sprintf("%d hosts keep %d locks each, for %v", w.fleet.hosts, w.locks, d))
	defer table.out.Flush()
	table.add(about("locks renewed /s", n*w.renewals(), 0.001, s.rate(kept, renewal)))
	few, many := w.renewCommands()
	table.add(row{"renewals, commands /s", n * few, n * many, s.commands(kept)})
	table.add(about("short holds, commands /s", n*w.holds*commandsPerHold, 0.05, s.commands(short)))
	table.note("locks wanted all the time, grants /s", s.rate(ever, grant))
	table.add(about("  commands per grant", commandsPerHold, 0.05, s.commands(ever)/s.rate(ever, grant)))
	table.add(about("  messages per grant", messagesPerPass, 0.05, s.rate(ever, message)/s.rate(ever, grant)))
	table.note("locks wanted now and then, grants /s", s.rate(now, grant))
	commands, messages := w.crowded()
	// What begins before the minute, or ends after it, counts in part.
	table.add(row{"  commands per grant", 0.98 * commandsPerHold, commands, s.commands(now) / s.rate(now, grant)})
	table.add(row{"  messages per grant", 1, 1.05 * messages, s.rate(now, message) / s.rate(now, grant)})
	grants := n*w.holds + s.rate(ever, grant) + s.rate(now, grant)
	table.add(row{
		"facts /s", 0.98 * factsPerHold * grants, (factsPerHold + 1) * grants,
		all(func(u use) float64 { return s.rate(u, fact) }),
	})
	table.note("all commands /s", all(s.commands))
	table.note("  of one host", all(s.commands)/n)
	table.note("  most in 100 ms, as a multiple of the mean", s.peak(100*time.Millisecond))
	table.note("  most in 1 s, as a multiple of the mean", s.peak(time.Second))
}

// oneDies kills the first host while the second waits for everything it has.
func (w *world) oneDies() {
	dead, heir := w.hosts[0], w.hosts[1]
	waiting := w.lease
	got := heir.standBy(context.Background(), dead)
	time.Sleep(time.Second) // in which they asked for the first time
	time.Sleep(waiting)
	attempts := w.meter.last(waiting).rate(kept, acquire)

	dead.link.die()
	died := time.Now()
	least, most := w.vacancy()
	time.Sleep(most + time.Second)
	var after []float64
	for len(got) > 0 {
		after = append(after, (<-got).Sub(died).Seconds())
	}
	slices.Sort(after)
	table := newTable(w.T, "A host dies, another waits for all that it kept")
	defer table.out.Flush()
	n := dead.fleet.locks
	table.add(about("before: attempts of those who wait /s", w.attempts(n), 0.1, attempts))
	table.add(about("locks that the other one has got", float64(n), 0, float64(len(after))))
	if len(after) > 0 {
		table.add(row{"the first after s", least.Seconds(), most.Seconds(), after[0]})
		table.note("half of them after s", after[len(after)/2])
		table.add(row{"the last after s", least.Seconds(), most.Seconds(), after[len(after)-1]})
	}
	s := w.meter.last(time.Since(died))
	table.note("most commands in 100 ms, as a multiple of the mean", s.peak(100*time.Millisecond))
	table.add(about("holds lost on other hosts", 0, 0, s.lost()))
}

// redisRestarts takes Redis away for a moment, so that every agent makes sure of
// everything that it has. Nothing is done meanwhile but keeping locks.
func (w *world) redisRestarts() {
	const away, noticed = 5 * time.Second, time.Second
	w.finish()
	began := time.Now()
	w.restart(away)
	time.Sleep(noticed)
	s := w.meter.last(noticed)
	table := newTable(w.T, fmt.Sprintf("Redis restarts with what it had, and is away for %v", away))
	defer table.out.Flush()
	table.note("locks kept", float64((len(w.hosts)-1)*w.locks))
	table.note("in the second after: renewals", float64(s.total(kept, renewal)))
	table.note("  commands", s.burst(noticed))
	table.note("  most in 100 ms", s.burst(100*time.Millisecond))
	time.Sleep(4 * w.period())
	table.add(about("holds lost until 40 s later", 0, 0, w.meter.last(time.Since(began)).lost()))
	late := w.meter.last(2 * w.period())
	table.note("20 to 40 s later: commands /s", all(late.commands))
	table.note("  most in 100 ms, as a multiple of the mean", late.peak(100*time.Millisecond))
	table.note("  most in 1 s, as a multiple of the mean", late.peak(time.Second))
}

func (s span) lost() float64 {
	return all(func(u use) float64 { return float64(s.total(u, lost)) })
}

// All locks of the fleet begin at one instant, but they are not renewed at one.
func TestFleetInStep(t *testing.T) { runFleetInStep(t, 20, 100) }

func runFleetInStep(t *testing.T, hosts, locks int) {
	synctest.Test(t, func(t *testing.T) {
		f := newFleet(hosts, locks)
		w := newWorld(t, f, 10*time.Minute)
		defer w.end()
		w.keep(0)
		d := 3 * f.period()
		time.Sleep(f.period() / 2)
		time.Sleep(d)
		s := w.meter.last(d)
		table := newTable(t, fmt.Sprintf("%d hosts begin to keep %d locks each at one instant", f.hosts, f.locks))
		defer table.out.Flush()
		n := float64(f.hosts)
		table.add(about("locks renewed /s", n*f.renewals(), 0.001, s.rate(kept, renewal)))
		few, many := f.inStep()
		table.add(row{"renewals, commands /s", n * few, n * many, s.commands(kept)})
		table.add(row{"most in 100 ms, as a multiple of the mean", 1, 10, s.peak(100 * time.Millisecond)})
		table.add(row{"most in 1 s, as a multiple of the mean", 1, 4, s.peak(time.Second)})
	})
}
