//go:build linux

package lockcmd

import (
	"cmp"
	"crypto/rand"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"golang.org/x/sys/unix"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/lockagent/lockagent"
	"github.com/lockagent/lockagent/cmd/lockagent/internal/cli"
	"github.com/lockagent/lockagent/cmd/lockagent/internal/client"
	lockagentv1 "github.com/lockagent/lockagent/proto/lockagent/v1"
)

// lockFlags are the flags of lock.
type lockFlags struct {
	client.Flag
	asking
	busy exitFlag

	also      []string
	shell     string
	close     bool
	reentrant bool
	supervision

	session map[lockagent.Name]string // of each lock that is asked for
}

// NewLock makes the verb lock.
func NewLock() *cobra.Command {
	f := lockFlags{busy: cli.ExitFailed, supervision: newSupervision()}
	cmd := &cobra.Command{
		Use:   "lock [flags] NAME [--] [COMMAND [ARGUMENT...]]",
		Short: "Run a command while holding a lock",
		Long: `Lock waits for a lock, runs a command, and then releases the lock. It ends with the exit code
of the command. Without a command it prints the name, the token and the claim, and holds the lock
until a signal or the end of its standard input.

Flags come before the name. The command is executed as it is, without a shell; see --command.
It finds the name of the lock in $LOCKAGENT_LOCK, and the token in $LOCKAGENT_TOKEN.

The lock lasts until lockagent lock and the command have both ended. So it outlasts a lockagent lock that is killed, and
daemons that are started anew. What the command leaves in the background keeps the lock as well. If the daemon was
started anew meanwhile, lockagent lock waits for that. With --close the lock ends with lockagent lock. While lockagent
lock is stopped, as by Ctrl-Z, the daemon keeps the lock; see --lease. In a container with a PID namespace of its own,
the daemon cannot know the command. There a lock whose lockagent lock was killed ends when the daemon is started anew.

If the lock is lost, the command gets SIGTERM before somebody else can have the lock, and SIGKILL
when somebody else can. See --on-lost and --grace. It can be warned before: with --on-wanted when somebody waits for
the lock, and with --on-uncertain when the lock is in danger.`,
		Example: `  lockagent lock backup -- pg_dump -f /backup/all.sql
  lockagent lock -n deploy ./deploy.sh || echo "somebody else deploys"
  lockagent lock -w 5s -c 'cat a b > c' reports
  lockagent lock --also orders/43 orders/42 ./move.sh`,
		SuggestFor:        []string{"run", "exec", "flock"},
		Args:              cobra.ArbitraryArgs,
		Annotations:       map[string]string{cli.FlagsFirst: "orders/42 true"},
		ValidArgsFunction: client.CompleteLockOnce,
		RunE:              passing(f.run),
	}
	flags := cmd.Flags()
	flags.SetInterspersed(false)
	flags.SortFlags = false
	f.asking.add(cmd)
	flags.VarP(
		&f.busy, "conflict-exit-code", "E",
		"exit `code` if the lock is not to be had with -n or -w; with 0 nothing is said either",
	)
	flags.StringArrayVar(
		&f.also, "also", nil,
		"another lock `name` to take; all of them are taken, in the order of their names, or none; may be repeated",
	)
	if err := cmd.RegisterFlagCompletionFunc("also", client.CompleteLock); err != nil {
		panic(err) // the flag is there
	}
	flags.BoolVar(&f.reentrant, "reentrant", false, "take the lock also if lockagent lock that runs this one holds it")
	flags.DurationVar(
		&f.atLeast, "at-least", 0,
		"hold the lock for at least this `time` from the start of the command, also if that has ended before; "+
			"lockagent lock does not wait for that",
	)
	f.addRunning(cmd)
	f.Flag.Add(cmd)
	return cmd
}

// addRunning adds the flags that are about the command.
func (f *lockFlags) addRunning(cmd *cobra.Command) {
	flags := cmd.Flags()
	flags.StringVarP(&f.shell, "command", "c", "", "run this `text` with $SHELL; may also follow the name or the claim")
	flags.BoolVarP(&f.close, "close", "o", false, "do not let the command inherit the lock")
	f.supervision.add(cmd)
}

// passing has a verb end by the signal that ended what it waited for.
func passing(run func(*cobra.Command, []string) error) func(*cobra.Command, []string) error {
	return func(cmd *cobra.Command, args []string) error {
		err := run(cmd, args)
		if by, ok := errors.AsType[signalled](err); ok {
			by.pass()
		}
		return err
	}
}

// run takes the locks and runs the command.
func (f *lockFlags) run(cmd *cobra.Command, args []string) error {
	if len(args) == 0 {
		return cli.Usage("lockagent lock orders/42 true", "the name of a lock is missing")
	}
	names, err := f.names(args[0])
	if err != nil {
		return err
	}
	command, err := f.command(cmd, args[1:])
	if err != nil {
		return err
	}
	err = errors.Join(
		f.asking.check(cmd), checkCode(cmd, "conflict-exit-code", f.busy), f.supervision.check(cmd),
	)
	if err != nil {
		return err
	}
	if f.lease > 0 && f.atLeast > f.lease {
		return cli.Usage(
			"lockagent lock --at-least 1m --lease 1h orders/42 true", "a lock with --lease %v is over before --at-least %v",
			f.lease, f.atLeast,
		)
	}
	daemon, err := f.Open(cmd)
	if err != nil {
		return err
	}
	defer daemon.Close()
	h := f.supervision.start(cmd)
	defer h.leave()
	held := heldByAncestors(os.Getenv(heldVariable))
	f.session = make(map[lockagent.Name]string)
	until := time.Now().Add(f.wait.of)
	for _, name := range names {
		f.session[name] = cmp.Or(held.session(name), rand.Text())
		again := f.reentrant || f.shared && held.shared(name) // a reader never waits for itself
		if f.slots > 0 && held.holds(name) >= int(f.slots) && !again {
			return f.denied(name, lockagent.ErrReentry)
		}
		req := f.request(name, f.describe(command), until, !again)
		asked := acquiring(req)
		if err := h.provide(daemon, name, &asked, f.slots); err != nil {
			return f.denied(name, err)
		}
		if err := h.take(daemon, name, asked); err != nil {
			return f.denied(name, err)
		}
	}
	return f.under(cmd, h, daemon, h.of(lockagent.Name(args[0])), command)
}

// under runs the command under the locks that are held, or only holds them.
func (f *lockFlags) under(
	cmd *cobra.Command, h *holding, daemon *client.Daemon, first *claimed, command *exec.Cmd,
) error {
	if command == nil {
		return h.hold(cmd, first)
	}
	command.Env = append(command.Environ(),
		"LOCKAGENT_LOCK="+string(first.name), "LOCKAGENT_TOKEN="+strconv.FormatUint(uint64(first.First), 10),
		"LOCKAGENT_SOCKET="+daemon.Path,
		heldVariable+"="+heldByAncestors(os.Getenv(heldVariable)).with(h.claims, f.session, f.shared).String())
	return h.supervise(command, f.close)
}

// names are those of all locks, in the order in which everybody takes them. So two programs that want the same ones
// never wait for each other.
func (f *lockFlags) names(first string) ([]lockagent.Name, error) {
	var names []lockagent.Name
	for _, text := range append([]string{first}, f.also...) {
		name, err := cli.ParseLock(text, "lockagent lock orders/42 true")
		if err != nil {
			return nil, err
		}
		names = append(names, name)
	}
	slices.Sort(names)
	return slices.Compact(names), nil
}

// command is the command to run, or nil for none.
func (f *lockFlags) command(cmd *cobra.Command, args []string) (*exec.Cmd, error) {
	dash := false
	if len(args) > 0 && args[0] == "--" {
		dash, args = true, args[1:]
	} else if len(args) > 0 && (args[0] == "-c" || args[0] == "--command") && f.shell == "" { // as flock has it
		if len(args) != 2 {
			return nil, cli.Usage("lockagent lock orders/42 -c 'echo locked'", "%s wants one text", args[0])
		}
		f.shell, args = args[1], nil
	}
	switch {
	case f.shell != "" && len(args) > 0:
		return nil, cli.Usage(
			"lockagent lock -c "+cli.ShellWord(f.shell)+" orders/42", "--command and a command exclude each other",
		)
	case f.shell != "":
		args = []string{cmp.Or(os.Getenv("SHELL"), "/bin/sh"), "-c", f.shell}
	case len(args) == 0:
		return nil, nil //nolint:nilnil // there is no command
	case strings.HasPrefix(args[0], "-") && !dash: // before anybody waits for a lock
		word := strings.TrimLeft(args[0], "-")
		flag := cmp.Or(
			cmd.Flags().Lookup(word), cmd.Flags().ShorthandLookup(word[:min(len(word), 1)]),
			cmd.Flags().Lookup("verbose"),
		)
		return nil, cli.Usage(
			cli.Example(cmd, flag), "flags come before the name; if %q is a command, put -- before it", args[0],
		)
	}
	command := commandOf(args)
	if command.Err != nil { // likewise
		return nil, &cli.Failure{Code: codeOfCommand(command.Err), Err: command.Err}
	}
	if err := unix.Access(command.Path, unix.X_OK); err != nil {
		err = &exec.Error{Name: args[0], Err: err}
		return nil, &cli.Failure{Code: codeOfCommand(err), Err: err}
	}
	return command, nil
}

// commandOf is a command as execvp finds it: in the directory itself if PATH says that, and in the usual places without
// PATH.
func commandOf(args []string) *exec.Cmd {
	command := exec.Command(args[0], args[1:]...)
	if path, set := os.LookupEnv("PATH"); path == "" && filepath.Base(args[0]) == args[0] {
		places := []string{"/bin", "/usr/bin"}
		if set { // an empty part of a path is the directory itself
			places = []string{"."}
		}
		for _, place := range places {
			if file := place + "/" + args[0]; unix.Access(file, unix.X_OK) == nil {
				command.Path, command.Err = file, nil
				break
			}
		}
	}
	if errors.Is(command.Err, exec.ErrDot) {
		command.Err = nil
	}
	return command
}

// describe is the command for those who look at the lock. There may be none.
func (f *lockFlags) describe(command *exec.Cmd) described {
	if command == nil {
		return described{}
	}
	return described{filepath.Base(command.Args[0]), cmp.Or(f.shell, strings.Join(command.Args, " "))}
}

// request is what the daemon is asked for one lock. All of them have one deadline.
func (f *lockFlags) request(
	name lockagent.Name, of described, until time.Time, noReentry bool,
) *lockagentv1.AcquireRequest {
	req := f.asking.request(name, of)
	req.Warn = f.warned.any()
	if f.wait.of > 0 {
		left := time.Until(until)
		if req.Try, req.Wait = true, nil; left > 0 {
			req.Try, req.Wait = false, durationpb.New(left)
		}
	}
	if f.slots == 0 { // a slot is never held twice
		req.Session, req.NoReentry = f.session[name], noReentry
	}
	return req
}

// denied is the error for a lock that was not to be had.
func (f *lockFlags) denied(name lockagent.Name, err error) error {
	switch {
	case errors.Is(err, lockagent.ErrHeld), errors.Is(err, lockagent.ErrTimeout):
		return f.busy.failure(err, f.verbose)
	case errors.Is(err, lockagent.ErrReentry):
		return &cli.Failure{
			Code: cli.ExitUsage,
			Err: fmt.Errorf(
				"this command runs under lockagent lock %s already, and would wait for itself", cli.ShellWord(string(name)),
			),
			Try: "lockagent lock --reentrant " + cli.ShellWord(string(name)) + " true",
		}
	}
	return f.otherKind(err, "lockagent lock", cli.ShellWord(string(name))+" true")
}

// otherKind adds to an error about the kind of a lock how a verb takes a lock of the kind that it is in use as.
func (a *asking) otherKind(err error, verb, rest string) error {
	other, ok := errors.AsType[*lockagent.KindError](err)
	if !ok {
		return err
	}
	try := "lockagent ls    (shows the kinds)"
	switch other.Used {
	case lockagent.PlainLock:
		try = verb + " --plain " + rest + "    (if programs share it that use plain locks)"
	case lockagent.ReadWriteLock:
		try = verb + " " + rest + "    (without the flags for other kinds)"
	case lockagent.FairLock:
		try = verb + " --fair " + rest
	case lockagent.Permits:
		try = "lockagent slots " + cli.ShellWord(string(other.Name)) + "    (tells the number for --slots)"
	}
	return &cli.Failure{Code: cli.ExitUsage, Err: err, Try: try}
}

// asking are the flags of each verb that asks for a lock.
type asking struct {
	try, shared, fair, plain bool
	slots                    int32
	wait                     waitFlag
	lease                    time.Duration
	labels                   map[string]string
	noCommand                bool
}

func (a *asking) add(cmd *cobra.Command) {
	flags := cmd.Flags()
	flags.BoolVarP(
		&a.try, "nonblock", "n", false,
		"do not wait for others; a daemon that is away, or drains, has 2s for the next one to come",
	)
	flags.VarP(
		&a.wait, "wait", "w",
		"wait at most this `time`, such as 5s, or 2.5 for seconds; 0 is -n; by default without end",
	)
	flags.BoolVarP(&a.shared, "shared", "s", false, "hold the lock beside others who take it with -s")
	flags.BoolP("exclusive", "x", false, "hold the lock alone, as without -s and -x")
	flags.BoolVar(
		&a.plain, "plain", false,
		"take the lock as a Lock of package channelapi or agentclient, or an RLock of Redisson, is taken; all others "+
			"must use it for this lock too",
	)
	flags.BoolVar(
		&a.fair, "fair", false,
		"wait in the order of arrival, over all hosts; all others must use it for this lock too",
	)
	flags.Int32Var(
		&a.slots, "slots", 0,
		"hold one of this `number` of slots: as many can hold the lock at once; all others must use the same number "+
			"for it",
	)
	flags.DurationVar(&a.lease, "lease", 0, "hold the lock for this `time` at most; by default without end")
	flags.StringToStringVar(&a.labels, "label", nil, "`name=text` for those who look at the lock; may be repeated")
	flags.Lookup("label").DefValue = "" // an empty map is no value to show
	flags.BoolVar(
		&a.noCommand, "no-command", false,
		"tell only the name of the program to those who look at the lock and to the event log: arguments may hold secrets",
	)

	// What flock calls them too.
	flags.BoolP("exclusively", "e", false, "")
	_ = flags.MarkHidden("exclusively") // it is there
	flags.SetNormalizeFunc(func(_ *pflag.FlagSet, name string) pflag.NormalizedName {
		return pflag.NormalizedName(cmp.Or(map[string]string{"nb": "nonblock", "timeout": "wait"}[name], name))
	})
}

func (a *asking) check(cmd *cobra.Command) error {
	for _, pair := range [][2]string{
		{"shared", "exclusive"},
		{"shared", "exclusively"},
		{"shared", "fair"},
		{"exclusive", "fair"},
		{"plain", "shared"},
		{"plain", "exclusive"},
		{"plain", "fair"},
		{"plain", "slots"},
		{"nonblock", "wait"},
		{"slots", "shared"},
		{"slots", "exclusive"},
		{"slots", "fair"},
	} {
		if cmd.Flags().Changed(pair[0]) && cmd.Flags().Changed(pair[1]) {
			return cli.Usage(
				cli.Example(cmd, cmd.Flags().Lookup(pair[0])), "--%s and --%s exclude each other", pair[0], pair[1],
			)
		}
	}
	if cmd.Flags().Changed("lease") {
		if err := lockagent.CheckLease(a.lease); err != nil {
			return cli.Usage(
				cli.Example(cmd, cmd.Flags().Lookup("lease")), "--lease must be between 1ms and a year, not %v", a.lease,
			)
		}
	}
	if cmd.Flags().Changed("slots") && a.slots < 1 {
		return cli.Usage(cli.Example(cmd, cmd.Flags().Lookup("slots")), "--slots must be at least 1, not %d", a.slots)
	}
	a.try = a.try || a.wait.given && a.wait.of == 0
	return nil
}

// maxCommand bounds the command line that others see.
const maxCommand = 1000

// described is what those who look at a lock may know of what is done with it. What is empty says nothing.
type described struct{ program, command string }

// request is what the daemon is asked.
func (a *asking) request(name lockagent.Name, of described) *lockagentv1.AcquireRequest {
	// A command lasts, and should have the long lease from the start.
	req := &lockagentv1.AcquireRequest{Name: string(name), Try: a.try, Labels: a.labels, NoRest: true}
	switch {
	case a.plain:
		req.Kind = lockagentv1.Kind_KIND_PLAIN
	case a.fair:
		req.Kind = lockagentv1.Kind_KIND_FAIR
	case a.slots > 0:
		req.Kind = lockagentv1.Kind_KIND_PERMITS
	default: // so that -s and -x, and neither of them, meet
		req.Kind = lockagentv1.Kind_KIND_READ_WRITE
		if a.shared {
			req.Mode = lockagentv1.Mode_MODE_SHARED
		}
	}
	if a.wait.of > 0 {
		req.Wait = durationpb.New(a.wait.of)
	}
	if a.lease > 0 {
		req.Lease = durationpb.New(a.lease)
	}
	req.Program = lockagent.Process{Program: of.program}.Who().Process().Program
	if !a.noCommand {
		text := strings.ToValidUTF8(of.command, "\uFFFD")
		for len(text) > maxCommand {
			_, last := utf8.DecodeLastRuneInString(text)
			text = text[:len(text)-last]
		}
		req.Command = text
	}
	return req
}

// waitFlag is a time to wait: a duration, or a number of seconds, as flock has it.
type waitFlag struct {
	of    time.Duration
	given bool
}

func (w *waitFlag) String() string {
	if !w.given {
		return ""
	}
	return w.of.String()
}

// Type implements the value of a flag.
func (w *waitFlag) Type() string { return "time to wait" }

// Set implements the value of a flag.
func (w *waitFlag) Set(text string) error {
	d, err := time.ParseDuration(text)
	if seconds, failed := strconv.ParseFloat(text, 64); err != nil && failed == nil &&
		seconds < lockagent.MaxLease.Seconds() {
		d, err = time.Duration(seconds*float64(time.Second)), nil
	}
	if err == nil && d < 0 {
		err = errors.New("negative")
	}
	w.of, w.given = d, true
	return err
}
