// Command simulate runs a whole fleet of agents, with their Redis servers, in one deterministic process, and judges
// whether the locks kept what they promise. README.md says how.
package main

import (
	"cmp"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"runtime"
	"strings"
	"syscall"

	"github.com/lockagent/lockagent/simulate/plan"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := command(ctx, os.Args[1:], os.Stdout)
	stop()
	if err != nil && !errors.Is(err, flag.ErrHelp) {
		fmt.Fprintln(os.Stderr, "simulate:", err)
		os.Exit(1)
	}
}

// simulation is what the flags say.
type simulation struct {
	machine  *machine
	mutation *mutation // that the machine has, or nil
	settings           // of each run, but for the seed if there are many
	out      io.Writer

	// For the run of one seed.
	trace   bool
	shrink  bool
	picture string
}

var errFailed = errors.New("a run failed")

// command is the program without its process.
func command(ctx context.Context, args []string, out io.Writer) (err error) {
	flags := flag.NewFlagSet("simulate", flag.ContinueOnError)
	s := &simulation{out: out}
	flags.Uint64Var(&s.seed, "seed", 0, "run the plan of this `seed` only")
	var (
		from     = flags.Uint64("from", 1, "run the plans of many seeds, from this `seed` on")
		seeds    = flags.Int("seeds", 50, "run `so many` plans")
		lasts    = flags.Duration("for", 0, "run plans for `this` long, however many there are")
		parallel = flags.Int("parallel", runtime.GOMAXPROCS(0), "run `so many` plans at a time")
	)
	flags.BoolVar(&s.trace, "trace", false, "with -seed: print what happens, and each message")
	flags.BoolVar(&s.shrink, "shrink", false, "with -seed: make the script of faults shorter while the run fails")
	flags.StringVar(&s.picture, "svg", "", "with -seed: draw the run into this `file`")
	flags.StringVar(&s.change, "plan", "", "change each `plan`, as in lease=90s")
	flags.Func("faults", "have these `faults` in each plan, with commas between them", func(text string) error {
		s.faults = &text
		return nil
	})
	flags.Func("mutation", "put the defect with this `name` into the locks; without a seed, run what shows it",
		func(name string) (err error) {
			s.mutation, err = readMutation(name)
			return err
		})
	if err := flags.Parse(args); err != nil {
		return err
	}
	if flags.NArg() > 0 {
		return fmt.Errorf("%q is no flag; see -help", flags.Arg(0))
	}
	manyGiven := false
	flags.Visit(func(f *flag.Flag) { manyGiven = manyGiven || f.Name == "seeds" || f.Name == "for" })
	if s.mutation == nil {
		s.machine, err = newMachine(ctx)
	} else {
		s.change, s.faults = cmp.Or(s.change, s.mutation.run.change), cmp.Or(s.faults, s.mutation.run.faults)
		s.machine, err = newMutant(ctx, s.mutation)
	}
	if err != nil {
		return err
	}
	defer func() { _ = s.machine.close(context.WithoutCancel(ctx)) }()
	if s.seed != 0 {
		return s.one(ctx)
	}
	if s.mutation != nil && !manyGiven {
		return s.show(ctx)
	}
	if *lasts != 0 {
		bounded, cancel := context.WithTimeout(ctx, *lasts)
		defer cancel()
		return s.many(bounded, *from, 0, *parallel)
	}
	return s.many(ctx, *from, *seeds, *parallel)
}

// one runs the plan of one seed, and tells what the judges say.
func (s *simulation) one(ctx context.Context) error {
	p, err := s.plan()
	if err != nil {
		return err
	}
	var trace io.Writer
	if s.trace {
		trace = s.out
	}
	o, err := s.machine.run(ctx, p, trace)
	if err != nil {
		return err
	}
	v := judge(o)
	fmt.Fprint(s.out, s.report(o, v))
	if s.picture != "" {
		if err := drawInto(s.picture, o); err != nil {
			return err
		}
	}
	if len(v.wrong) == 0 {
		return nil
	}
	if s.shrink {
		if p, err = shrink(p, func(p plan.Plan) (bool, error) { return s.fails(ctx, p) }); err != nil {
			return err
		}
		fmt.Fprintf(s.out, "A shorter script of faults that fails:\n  %s\n", s.repeat(p))
	}
	return errFailed
}

// fails reports whether the run of a plan fails.
func (s *simulation) fails(ctx context.Context, p plan.Plan) (bool, error) {
	o, err := s.machine.run(ctx, p, nil)
	if err != nil {
		return false, err
	}
	return len(judge(o).wrong) > 0, nil
}

// report tells what the judges say of a run, and how to repeat it.
func (s *simulation) report(o *outcome, v verdict) string {
	var text strings.Builder
	var locks []string
	for _, l := range o.plan.Locks {
		locks = append(locks, l.Name)
	}
	fmt.Fprintf(&text, "seed %d: %d agents with %d workers each, leases of %v, %d holds of %s\n",
		o.plan.Seed, o.plan.Agents, o.plan.Workers, o.plan.Lease, len(o.holds), strings.Join(locks, ", "))
	if o.plan.Outsiders > 0 {
		fmt.Fprintf(&text, "  a program with %d threads uses %s as Redisson's client does\n",
			o.plan.Outsiders, o.plan.OutsidersUse())
	}
	for _, f := range o.plan.Faults {
		fmt.Fprintf(&text, "  fault: %v\n", f)
	}
	for _, part := range []struct {
		title string
		lines []string
	}{{"wrong", v.wrong}, {"explained by a fault", v.excused}, {"not sure", v.unsure}} {
		for _, line := range part.lines {
			fmt.Fprintf(&text, "  %s: %s\n", part.title, line)
		}
	}
	if len(v.wrong) > 0 {
		fmt.Fprintf(&text, "  repeat it: %s\n", s.repeat(o.plan))
	}
	return text.String()
}

// repeat is the command that repeats a run.
func (s *simulation) repeat(p plan.Plan) string {
	text := fmt.Sprintf("go -C simulate run . -seed %d", p.Seed)
	if s.mutation != nil {
		text += " -mutation " + s.mutation.name
	}
	if s.change != "" {
		text += fmt.Sprintf(" -plan '%s'", s.change)
	}
	var faults []string
	for _, f := range p.Faults {
		faults = append(faults, f.String())
	}
	return text + fmt.Sprintf(" -faults '%s'", strings.Join(faults, ", "))
}
