//go:build linux

package servecmd

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/sys/unix"

	"github.com/lockagent/lockagent"
	"github.com/lockagent/lockagent/cmd/lockagent/internal/cli"
	"github.com/lockagent/lockagent/cmd/lockagent/internal/client"
	"github.com/lockagent/lockagent/cmd/lockagent/internal/doctor"
	"github.com/lockagent/lockagent/cmd/lockagent/internal/readable"
	"github.com/lockagent/lockagent/events/natslog"
	"github.com/lockagent/lockagent/internal/bootclock"
	"github.com/lockagent/lockagent/internal/config"
	"github.com/lockagent/lockagent/internal/daemon/state"
	"github.com/lockagent/lockagent/internal/place"
	"github.com/lockagent/lockagent/redisstore"
)

// NewDoctor makes the verb doctor.
func NewDoctor() *cobra.Command {
	var format cli.ListFlag
	cmd := &cobra.Command{
		Use:   "doctor",
		Short: "Check Redis, NATS and the daemon, and say what to do",
		Long: `Doctor checks what the daemon needs. It looks at the version and the settings of Redis, at scripts, messages
and replicas, and at the permissions of the user. It looks at the rate of the clock, at NATS and its stream, at the
clock that clients share with the daemon, and at the state directory. Then it looks at the socket and the daemon, and
says what to do about what is wrong. The settings are those of the daemon that runs where clients look for it, if that
tells them: it does so to root and to its user. With flags of lockagent serve, and where no daemon runs, they are those
of the command line, as lockagent serve would have them. If these are wrong, or the daemon that runs does not tell its
own, it checks only what needs no settings. If they are wrong while a daemon runs, that is one more thing that it finds.

It changes nothing. The exit code is 1 if something is wrong. A warning is about a bad day that may come, and does not
change the exit code.`,
		Example:    "  lockagent doctor\n  lockagent doctor --redis " + cli.ExampleRedis + " --format json",
		SuggestFor: []string{"status", "ping"},
		Args:       cli.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := format.Check(cmd); err != nil {
				return err
			}
			settings, wrong := readSettings(cmd)
			bad := badSettings(cmd, wrong)
			if bad != nil && cli.CodeOf(bad) != cli.ExitConfig {
				return bad
			}
			// The daemon may run all the same, where its clients look for it.
			socket := cmp.Or(cmd.Flags().Lookup("socket").Value.String(), os.Getenv(cli.Variable("socket")),
				place.Current().Find())
			own, found := settingsThatCount(cmd, socket)
			if bad != nil && found != nil {
				found, bad = append(found, nextSettings(wrong, own != nil)), nil
			}
			switch {
			case own != nil:
				found = append(found, examine(cmd.Context(), own)...)
			case found == nil && wrong == nil:
				found = append(found, examine(cmd.Context(), &settings.Settings)...)
			default:
				found = append(found, examineWithoutSettings(cmd.Context(), socket)...)
			}
			if cmd.Context().Err() != nil {
				return context.Cause(cmd.Context())
			}
			if err := format.Write(cmd, listFindings(found)); err != nil || bad != nil {
				return errors.Join(err, bad)
			}
			failed := slices.DeleteFunc(found, func(f doctor.Finding) bool { return f.State != doctor.Error })
			if n := len(failed); n > 0 {
				err := fmt.Errorf("%s wrong", readable.Counted(n, "thing is", "things are"))
				return &cli.Failure{Code: cli.ExitFailed, Err: err}
			}
			return nil
		},
	}
	format.Add(cmd)
	addSettings(cmd)
	return cmd
}

// settingsThatCount are those of the daemon that runs on a socket, unless the command line has settings to try. It
// returns nil if the daemon does not tell them. whose says whose they are. It is nil if no daemon runs there, as far as
// this user may know, and if there are settings to try.
func settingsThatCount(cmd *cobra.Command, socket string) (own *config.Settings, whose []doctor.Finding) {
	tries := config.Given(cmd.Flags())
	delete(tries, "socket")
	if len(tries) > 0 {
		return nil, nil
	}
	text, err := askOperator(cmd.Context(), config.OperatorSocket(socket), settingsPath, maxSettings)
	if err == nil {
		own = new(config.Settings)
		err = json.Unmarshal(text, own)
	}
	if err == nil {
		return own, []doctor.Finding{{
			Check: "settings", State: doctor.OK, Found: "those of the daemon on " + socket,
		}}
	}
	daemon := client.New(socket)
	defer daemon.Close()
	if _, err := ready(cmd.Context(), daemon); err != nil && !errors.Is(err, fs.ErrPermission) {
		return nil, nil
	}
	return nil, []doctor.Finding{{
		Check: "settings", State: doctor.Skipped,
		Found: "the daemon on " + socket + " does not tell them: " + err.Error(),
		Do:    "run it as root, or as the user of the daemon; or say where its settings are with --config",
	}}
}

// nextSettings judges the settings of the command line if they are wrong while a daemon runs with others. They may not
// be those of the next daemon if this one did not tell its own: then this user is not its operator.
func nextSettings(wrong error, told bool) doctor.Finding {
	f := doctor.Finding{
		Check: "settings of the next start", State: doctor.Warning,
		Found: strings.ReplaceAll(wrong.Error(), "\n", "; "),
		Do:    "correct them: lockagent config validate",
	}
	problems, _ := errors.AsType[config.Problems](wrong)
	readable := slices.ContainsFunc(problems, func(p *config.Problem) bool { return !errors.Is(p, fs.ErrPermission) })
	switch {
	case !readable:
		f.State, f.Do = doctor.Skipped, "run it as root, or as the user of the daemon"
	case told:
		f.State = doctor.Error
	}
	return f
}

// maxSettings bounds what doctor reads of the daemon's settings.
const maxSettings = 1 << 20

// askOperator asks a daemon on the socket for its operators.
func askOperator(ctx context.Context, socket, path string, most int64) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, answerTime)
	defer cancel()
	operator := client.New(socket)
	defer operator.Close()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, client.URL+path, http.NoBody)
	if err != nil {
		return nil, err
	}
	res, err := operator.Transport.RoundTrip(req)
	if err != nil {
		return nil, err
	}
	defer func() { _ = res.Body.Close() }()
	return io.ReadAll(io.LimitReader(res.Body, most))
}

func listFindings(found []doctor.Finding) cli.List {
	l := cli.List{Name: "checks", Columns: []string{"CHECK", "STATE", "FOUND", "WHAT TO DO"}}
	for _, f := range found {
		l.Rows = append(l.Rows, cli.Row{Cells: []string{f.Check, string(f.State), f.Found, f.Do}, View: f})
	}
	return l
}

// examine makes all checks.
func examine(ctx context.Context, settings *config.Settings) []doctor.Finding {
	all := append(examineRedis(ctx, &settings.Redis), examineNATS(ctx, &settings.NATS)...)
	all = append(all, examineClock())
	return append(all, examineHost(ctx, settings).Files()...)
}

// examineWithoutSettings makes the checks that need no settings.
func examineWithoutSettings(ctx context.Context, socket string) []doctor.Finding {
	h := doctor.Host{Socket: socket, Mode: fs.ModePerm} // nobody knows a mode that would be too much
	return append([]doctor.Finding{examineClock()}, askDaemon(ctx, h, "").Files()...)
}

func examineClock() doctor.Finding { return doctor.Deadlines(bootclock.Foreign(bootclock.Clock())) }

// redisTime is how long Redis may take to connect, and to answer a question. A slow Redis is not a missing one.
const redisTime = 15 * time.Second

func examineRedis(ctx context.Context, redis *config.Redis) []doctor.Finding {
	if redis.URL == "" {
		return []doctor.Finding{{
			Check: "redis", State: doctor.Skipped, Found: "none: the locks are those of this host alone",
			Do: "set redis.url if several hosts shall share locks",
		}}
	}
	url, err := redis.Address()
	var cfg redisstore.Config
	if err == nil {
		cfg, err = redisConfig(redis) // with its grace periods: doctor may be the first that meets a new Redis
	}
	if err != nil {
		return []doctor.Finding{doctor.BadFile("redis", err)}
	}
	cfg.DialTimeout, cfg.CallTimeout, cfg.Logger = redisTime, redisTime, slog.New(slog.DiscardHandler)
	e, err := cfg.Examine(ctx, url)
	all := doctor.Redis(e, err, cfg)
	if err != nil || e.Unfit != nil || e.Scripts != nil {
		return all
	}
	return append(all, doctor.Clock(watchClock(ctx, cfg, url)))
}

// clockTime is between two looks at the store's clock.
const clockTime = time.Second

// watchClock looks at the store's clock twice.
func watchClock(ctx context.Context, cfg redisstore.Config, url string) (first, second doctor.Sample, err error) {
	store, err := cfg.Open(ctx, url)
	if err != nil {
		return first, second, err
	}
	defer func() { _ = store.Close() }() // it never fails
	look := func() (s doctor.Sample, err error) {
		told := make(chan error, 1)
		s.Before = bootclock.Now()
		store.Time(ctx, func(at lockagent.StoreTime, err error) {
			s.Store, s.After = at, bootclock.Now()
			told <- err
		})
		return s, <-told
	}
	if _, err = look(); err != nil { // so that the connection is there
		return first, second, err
	}
	if first, err = look(); err != nil {
		return first, second, err
	}
	select {
	case <-time.After(clockTime):
	case <-ctx.Done():
		return first, second, context.Cause(ctx)
	}
	second, err = look()
	return first, second, err
}

func examineNATS(ctx context.Context, hub *config.NATS) []doctor.Finding {
	if hub.URL == "" {
		return []doctor.Finding{{
			Check: "nats", State: doctor.Skipped, Found: "none: the events stay on this host",
			Do: "set nats.url if a hub shall have the events of all hosts",
		}}
	}
	cfg := natslog.ReaderConfig{Connection: hubConnection(hub), Stream: hub.Stream, Prefix: hub.Prefix}
	cfg.Logger = slog.New(slog.DiscardHandler)
	e, err := natslog.Examine(ctx, cfg)
	if bad, ok := errors.AsType[*lockagent.OptionError](err); ok && hubSettings[bad.Option] != "" {
		return []doctor.Finding{doctor.BadFile("nats", fmt.Errorf("%s: %s", hubSettings[bad.Option], bad.Reason))}
	}
	return doctor.NATS(e, hub.Stream, err)
}

// examineHost looks at the files of the daemon, and whether it answers.
func examineHost(ctx context.Context, settings *config.Settings) doctor.Host {
	h := doctor.Host{Dir: settings.StateDir, Socket: settings.Socket.Path, Mode: settings.Socket.Mode}
	var err error
	switch h.Info, err = os.Stat(h.Dir); {
	case errors.Is(err, fs.ErrNotExist):
		h.WriteErr = mayMake(h.Dir)
	case err != nil:
		h.WriteErr = err
	default:
		h.WriteErr = tryWriting(h.Dir)
		var room unix.Statfs_t
		if err := unix.Statfs(h.Dir, &room); err == nil {
			h.Free = int64(room.Bavail) * room.Bsize
		}
	}
	return askDaemon(ctx, h, settings.Operator.Socket)
}

// askDaemon asks the daemon on the socket how it is. The socket of its operators may be unknown.
func askDaemon(ctx context.Context, h doctor.Host, operator string) doctor.Host {
	info, err := os.Stat(h.Socket) // clients follow links, too
	if err != nil {
		if h.Dir != "" {
			h.PID = lockedBy(state.LockFile(h.Dir))
		}
		return h
	}
	h.SocketInfo = info
	daemon := client.New(h.Socket)
	defer daemon.Close()
	if h.Ready, h.Served = ready(ctx, daemon); h.Served == nil && !h.Ready {
		h.Why = whyNotReady(ctx, operator)
	}
	return h
}

// lockedBy is the process that has locked a file, or 0 if there is none.
func lockedBy(file string) (pid int) {
	info, err := os.Stat(file)
	if err != nil {
		return 0
	}
	locks, err := os.ReadFile("/proc/locks")
	if err != nil {
		return 0
	}
	inode := fmt.Sprintf(":%d", info.Sys().(*syscall.Stat_t).Ino)
	for line := range strings.Lines(string(locks)) {
		const process, place = 4, 5
		fields := strings.Fields(line)
		if len(fields) > place && fields[1] == "FLOCK" && strings.HasSuffix(fields[place], inode) {
			pid, _ = strconv.Atoi(fields[process])
		}
	}
	return pid
}

// maxWhy bounds what doctor reads of an answer.
const maxWhy = 4096

// whyNotReady asks on the operator's socket why the daemon can grant no lock. It returns nil to those who may not ask.
func whyNotReady(ctx context.Context, path string) error {
	text, err := askOperator(ctx, path, "/readyz", maxWhy)
	why, found := strings.CutPrefix(strings.TrimSpace(string(text)), notReady+": ")
	if err != nil || !found {
		return nil
	}
	return errors.New(why)
}

// mayMake says why this user cannot make a directory that does not exist, with those above it.
func mayMake(dir string) error {
	above := filepath.Dir(dir)
	if _, err := os.Stat(above); errors.Is(err, fs.ErrNotExist) {
		return mayMake(above)
	}
	if err := unix.Access(above, unix.W_OK|unix.X_OK); err != nil {
		return fmt.Errorf("it cannot be made in %s: %w", above, err)
	}
	return nil
}

// tryWriting makes a file in a directory, and removes it.
func tryWriting(dir string) error {
	f, err := os.CreateTemp(dir, "doctor-*")
	if err != nil {
		return err
	}
	_, err = f.Write([]byte("It can be written here.\n"))
	return errors.Join(err, f.Close(), os.Remove(f.Name()))
}

// answerTime bounds how long the daemon may take to say how it is.
const answerTime = 5 * time.Second

// ready asks the daemon whether it can grant locks at the moment, as the standard health check has it.
func ready(ctx context.Context, d *client.Daemon) (bool, error) {
	ctx, cancel := context.WithTimeout(ctx, answerTime)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, client.URL+"/grpc.health.v1.Health/Check",
		bytes.NewReader([]byte(`{"service":"lockagent.v1.LockService"}`)))
	if err != nil {
		return false, err
	}
	req.Header.Set("Content-Type", "application/json")
	res, err := d.Transport.RoundTrip(req)
	if err != nil {
		return false, err
	}
	defer func() { _ = res.Body.Close() }()
	var health struct{ Status string }
	if err := json.NewDecoder(res.Body).Decode(&health); err != nil {
		return false, fmt.Errorf("the daemon does not say how it is: %w", err)
	}
	return health.Status == "SERVING", nil
}
