// Command bench measures lockagent beside the raw floor, which is the least that a
// lock in Redis can cost, and beside the lock libraries that Go programs use on Redis.
// README.md says what is measured, how, and why so.
package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"regexp"
	"runtime/pprof"
	"syscall"
	"time"
)

func main() {
	if err := start(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

// start runs what the arguments or, in a worker, the environment say.
func start(args []string) error {
	if description := os.Getenv(workerVariable); description != "" {
		return runWorker(description)
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	err := command(ctx, args)
	if errors.Is(err, flag.ErrHelp) {
		return nil
	}
	return err
}

var errTooLong = errors.New("the scenarios take longer than -limit allows")

// command is the program without its process.
func command(ctx context.Context, args []string) (err error) {
	flags := flag.NewFlagSet("bench", flag.ContinueOnError)
	var (
		short      = flags.Bool("short", false, "look at everything for a moment only")
		only       = flags.String("only", "", "run only scenarios whose names match this `regexp`")
		contenders = flags.String(
			"contenders", "", "run only peers whose names match this `regexp`; the floor and lockagent always run",
		)
		seconds  = flags.Float64("seconds", 0, "length of each round of a load, in `seconds`")
		jsonFile = flags.String("json", "", "write the results to this `file` for machines")
		write    = flags.String("write", "", "write RESULTS.md, results.json and the plots into this `directory`")
		limit    = flags.Duration(
			"limit", 25*time.Minute, "end a run of the scenarios that takes longer than `this` with an error",
		)
		slowdown = flags.Float64(
			"slowdown", 0, "have lockagent waste this `part` of the time of each cycle, to see that it is noticed",
		)
		check    = flags.Bool("check", false, "compare a few ratios with the baseline and fail if one is worse")
		baseline = flags.String("baseline", "baseline.json", "`file` with the baseline")
		newBase  = flags.Bool("write-baseline", false, "measure the ratios of -check and keep them as the baseline")
		sweep    = flags.String("sweep", "", "sweep the hand-off budget and draw it into this SVG `file`")
		profile  = flags.String("cpuprofile", "", "write a processor profile of this process to a `file`")
	)
	if err := flags.Parse(args); err != nil {
		return err
	}
	if flags.NArg() > 0 {
		return fmt.Errorf("%q is no flag; see -help", flags.Arg(0))
	}
	b := &bench{
		plan: fullPlan, slowdown: *slowdown, grantTimes: make(map[string]time.Duration), progress: os.Stderr,
		programs: new(programs),
	}
	defer b.programs.remove()
	if *short {
		b.plan = shortPlan
	}
	if *seconds > 0 {
		b.plan.windows(time.Duration(*seconds * float64(time.Second)))
	}
	if b.contenders, err = regexp.Compile(*contenders); err != nil {
		return err
	}
	chosen, err := regexp.Compile(*only)
	if err != nil {
		return err
	}
	b.results = &results{Date: time.Now().UTC(), Machine: machine(), Versions: versions()}
	if *profile != "" {
		file, err := os.Create(*profile)
		if err != nil {
			return err
		}
		if err := pprof.StartCPUProfile(file); err != nil {
			return err
		}
		defer func() {
			pprof.StopCPUProfile()
			err = errors.Join(err, file.Close())
		}()
	}
	switch {
	case *check:
		return b.check(ctx, *baseline, chosen)
	case *newBase:
		return b.writeBaseline(ctx, *baseline, chosen)
	case *sweep != "":
		return b.sweep(ctx, *sweep)
	}
	ctx, cancel := context.WithTimeoutCause(ctx, *limit, fmt.Errorf("%w: %v", errTooLong, *limit))
	defer cancel()
	if err := b.all(ctx, chosen); err != nil {
		return err
	}
	if *jsonFile != "" {
		if err := b.results.writeJSON(*jsonFile); err != nil {
			return err
		}
	}
	if *write != "" {
		if err := b.results.write(*write); err != nil {
			return err
		}
	}
	return b.results.text(os.Stdout)
}

// write writes all forms of the results.
func (r *results) write(dir string) error {
	plots, err := r.plots(dir)
	if err != nil {
		return err
	}
	file, err := os.Create(filepath.Join(dir, "RESULTS.md"))
	if err != nil {
		return err
	}
	r.markdown(file, plots)
	return errors.Join(file.Close(), r.writeJSON(filepath.Join(dir, "results.json")))
}

func (r *results) writeJSON(path string) error {
	b, err := json.Marshal(struct {
		*results
		Targets []verdict `json:"targets"`
	}{r, r.verdicts()})
	if err != nil {
		return err
	}
	const rows = 4 // of a table of the list of tables
	return os.WriteFile(path, inLines(b, rows), 0o644)
}

// inLines breaks JSON without blanks into lines: one for each element of what is nested no
// deeper than that. What changes is then seen by line, and the rest is not long.
func inLines(text []byte, deep int) []byte {
	var out []byte
	depth, quoted := 0, false
	for i, c := range text {
		if quoted {
			out = append(out, c)
			quoted = c != '"' || escaped(text[:i])
			continue
		}
		switch c {
		case '"':
			quoted = true
		case '{', '[':
			depth++
		case '}', ']':
			if depth <= deep {
				out = append(out, '\n')
			}
			depth--
		}
		out = append(out, c)
		if (c == '{' || c == '[' || c == ',') && depth <= deep {
			out = append(out, '\n')
		}
	}
	return append(out, '\n')
}

// escaped reports whether what comes after the text, in a string, has no meaning of its
// own.
func escaped(text []byte) bool {
	return (len(text)-len(bytes.TrimRight(text, `\`)))%2 == 1
}
