//go:build linux

package main

import (
	"encoding/json"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/lockagent/lockagent/cmd/lockagent/internal/cli"
	"github.com/lockagent/lockagent/cmd/lockagent/internal/doctor"
	"github.com/lockagent/lockagent/events"
	"github.com/lockagent/lockagent/events/natslog"
	"github.com/lockagent/lockagent/internal/natsserver"
	"github.com/lockagent/lockagent/internal/natsserver/natstest"
	"github.com/lockagent/lockagent/internal/redistest"
)

// diagnosis is what doctor found: one finding for each check.
type diagnosis struct {
	result
	checks map[string]doctor.Finding
}

// diagnose runs doctor on files that it need not share.
func diagnose(t *testing.T, args ...string) diagnosis {
	t.Helper()
	dir := t.TempDir()
	return diagnosed(
		t,
		call(
			t,
			append(
				[]string{"doctor", "--format", "json", "--state-dir", dir, "--socket", filepath.Join(dir, "a.sock")}, args...,
			)...,
		),
	)
}

func diagnosed(t *testing.T, r result) diagnosis {
	t.Helper()
	d := diagnosis{r, make(map[string]doctor.Finding)}
	var told struct{ Checks []doctor.Finding }
	if err := json.Unmarshal([]byte(r.stdout), &told); err != nil {
		t.Fatalf("%v\n%s\n%s", err, r.stdout, r.stderr)
	}
	for _, f := range told.Checks {
		d.checks[f.Check] = f
		if f.State != doctor.OK && f.Do == "" {
			t.Errorf("%s does not say what to do: %s", f.Check, f.Found)
		}
	}
	return d
}

// is fails the test unless a check ended so, and its texts contain these.
func (d diagnosis) is(t *testing.T, check string, state doctor.State, says ...string) {
	t.Helper()
	f := d.checks[check]
	for _, text := range says {
		if !strings.Contains(f.Found+"\n"+f.Do, text) {
			t.Errorf("%s does not say %q: %+v", check, text, f)
		}
	}
	if f.State != state {
		t.Errorf("%s is %+v, not %s", check, f, state)
	}
	if state == doctor.Error && d.code != cli.ExitFailed {
		t.Errorf("the exit code is %d", d.code)
	}
}

func TestDoctorFindsNothing(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t, redistest.WithConfig("appendonly yes"))
	hub := natstest.Start(t, natsserver.Config{Listen: "127.0.0.1:0"})
	d := runDaemon(t)
	r := diagnose(t, "--redis", server.URL(), "--nats", hub.URL(), "--socket", d.Path)
	r.is(t, "redis", doctor.OK, "standalone")
	r.is(t, "redis version", doctor.OK, "RESP3")
	for _, check := range []string{
		"redis scripts", "redis messages", "redis permissions", "redis eviction", "redis persistence", "redis replicas",
		"nats", "deadlines", "state directory", "socket",
	} {
		r.is(t, check, doctor.OK)
	}
	r.is(t, "nats stream", doctor.OK, "there is no LOCKAGENT yet")
	r.is(t, "daemon", doctor.OK, "it can grant locks")
	// On a busy machine doctor cannot be sure of the clock.
	if clock := r.checks["redis clock"]; clock.State != doctor.OK && clock.State != doctor.Warning {
		t.Errorf("the clock: %+v", clock)
	}
	if r.code != cli.ExitOK {
		t.Errorf("the exit code is %d: %s", r.code, r.stderr)
	}
}

func TestDoctorOfOneHost(t *testing.T) {
	t.Parallel()
	r := diagnose(t)
	r.is(t, "redis", doctor.Skipped, "redis.url")
	r.is(t, "nats", doctor.Skipped, "nats.url")
	r.is(t, "socket", doctor.Skipped)
	r.is(t, "daemon", doctor.Warning, "lockagent serve --socket")
	if r.code != cli.ExitOK {
		t.Errorf("the exit code is %d: %s", r.code, r.stderr)
	}
	call(t, "doctor", "--format", "xml").expect(t, cli.ExitUsage, nil, []string{"Try: lockagent doctor --format json"})
	call(t, "doctor", "--lease", "never").expect(t, cli.ExitUsage, nil, []string{"--lease"})
	call(t, "doctor", "now").expect(t, cli.ExitUsage, nil, nil)
	call(t, "doctor", "--config", "/no/such/file").expect(t, cli.ExitConfig, nil, nil)
}

func TestDoctorFindsWhatIsWrongWithRedis(t *testing.T) {
	t.Parallel()
	evicts := redistest.Start(t, redistest.WithConfig("maxmemory 64mb", "maxmemory-policy allkeys-lru"))
	r := diagnose(t, "--redis", evicts.URL(), "--redis-min-replicas", "1")
	r.is(t, "redis grace", doctor.OK, "2s")
	r.is(t, "redis eviction", doctor.Error, "allkeys-lru", "64 MiB", "maxmemory-policy noeviction")
	r.is(t, "redis persistence", doctor.Warning, "none", "appendonly yes")
	r.is(t, "redis replicas", doctor.Error, "demands 1")
	evicts.Do("CONFIG", "SET", "maxmemory", "0")
	evicts.Do("CONFIG", "SET", "save", "3600 1")
	r = diagnose(t, "--redis", evicts.URL(), "--redis-grace=false")
	r.is(t, "redis grace", doctor.Warning, "two may hold", "redis.grace")
	r.is(t, "redis eviction", doctor.Warning, "as soon as there is a maxmemory")
	r.is(t, "redis persistence", doctor.Warning, "snapshots only")

	replica := redistest.Start(t)
	host, port, err := net.SplitHostPort(evicts.Addr())
	if err != nil {
		t.Fatal(err)
	}
	replica.Do("REPLICAOF", host, port)
	evicts.AwaitReplica()
	diagnose(t, "--redis", evicts.URL()).is(
		t, "redis replicas", doctor.Warning, "redis.min_replicas", "min-replicas-to-write 1",
	)
	diagnose(t, "--redis", evicts.URL(), "--redis-min-replicas", "1").is(t, "redis replicas", doctor.OK)
	evicts.Do("CONFIG", "SET", "min-replicas-to-write", "1")
	diagnose(t, "--redis", evicts.URL()).is(t, "redis replicas", doctor.OK, "a failover can forget")
}

func TestDoctorFindsMissingPermissions(t *testing.T) {
	t.Parallel()
	const all = "~* &* +@all "
	server := redistest.Start(t,
		redistest.WithUser("deaf", "secret", all+"-subscribe -ssubscribe"),
		redistest.WithUser("idle", "secret", all+"-eval -evalsha"),
		redistest.WithUser("blind", "secret", all+"-info"),
		redistest.WithUser("shy", "secret", all+"-config"),
		redistest.WithUser("ageless", "secret", "~lockagent_[^s]* ~lockagent_store ~redisson_lock_* &* +@all"),
	)
	secret := natstest.File(t, "secret")
	of := func(user string) diagnosis {
		return diagnose(t, "--redis", "redis://"+user+"@"+server.Addr(), "--redis-password-file", secret)
	}
	r := of("deaf")
	r.is(t, "redis messages", doctor.Error, "subscribe")
	r.is(t, "redis permissions", doctor.Error, "subscribe", "ACL SETUSER")
	r.is(t, "redis scripts", doctor.OK)
	r = of("idle")
	r.is(t, "redis scripts", doctor.Error, "eval")
	r.is(t, "redis permissions", doctor.Error, "eval", "ACL SETUSER")
	of("ageless").is(t, "redis permissions", doctor.Error, "keys", "ACL SETUSER")
	of("blind").is(t, "redis settings", doctor.Skipped, "info")
	of("shy").is(t, "redis persistence", doctor.Skipped, "config")
	wrong := natstest.File(t, "not-the-secret")
	r = diagnose(t, "--redis", "redis://deaf@"+server.Addr(), "--redis-password-file", wrong)
	r.is(t, "redis", doctor.Error, "redis.password_file")
	if strings.Contains(r.stdout+r.stderr, "not-the-secret") {
		t.Error("it tells the password")
	}
}

func TestDoctorFindsNoRedis(t *testing.T) {
	t.Parallel()
	free, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	_ = free.Close()
	r := diagnose(t, "--redis", "redis://"+free.Addr().String(), "--nats", "nats://"+free.Addr().String())
	r.is(t, "redis", doctor.Error, "start Redis", "examine "+free.Addr().String()+": store unavailable: ")
	if text := r.checks["redis"].Found; strings.Contains(text, "redisstore") || strings.Contains(text, "lockagent") {
		t.Errorf("it speaks of packages: %s", text)
	}
	r.is(t, "nats", doctor.Error, "start NATS", "locks work without it")
	// One that does not know RESP3.
	old := redistest.Start(t, redistest.WithConfig(`rename-command HELLO ""`))
	diagnose(t, "--redis", old.URL()).is(t, "redis version", doctor.Error, "5 or less", "RESP3")
}

func TestDoctorFindsWhatIsWrongWithNATS(t *testing.T) {
	t.Parallel()
	hub := natstest.Start(t, natsserver.Config{Listen: "127.0.0.1:0"})
	nc, err := nats.Connect(hub.URL())
	if err != nil {
		t.Fatal(err)
	}
	defer nc.Close()
	js, err := jetstream.New(nc)
	if err != nil {
		t.Fatal(err)
	}
	cfg := jetstream.StreamConfig{Name: "ORDERS", Subjects: []string{events.AllSubjects}}
	if _, err := js.CreateStream(t.Context(), cfg); err != nil {
		t.Fatal(err)
	}
	diagnose(t, "--nats", hub.URL()).is(
		t, "nats stream", doctor.Error, `stream "ORDERS" has subjects of lockagent.v1.>`,
		"configure that stream or another prefix",
	)
	if err := js.DeleteStream(t.Context(), cfg.Name); err != nil {
		t.Fatal(err)
	}
	cfg.Name, cfg.MaxMsgsPerSubject = natslog.DefaultStream, 1
	if _, err := js.CreateStream(t.Context(), cfg); err != nil {
		t.Fatal(err)
	}
	diagnose(t, "--nats", hub.URL()).is(
		t, "nats stream", doctor.Error, "1 messages of each lock", "nats stream edit LOCKAGENT --max-msgs-per-subject=-1",
	)
	cfg.MaxMsgsPerSubject, cfg.AllowDirect = -1, false
	if _, err := js.UpdateStream(t.Context(), cfg); err != nil {
		t.Fatal(err)
	}
	diagnose(t, "--nats", hub.URL()).is(t, "nats stream", doctor.Warning, "0 messages", "nats stream edit")

	shy := natstest.StartSecured(t, `jetstream: enabled, accounts: { a: { jetstream: enabled, users: [
		{ user: shy, password: secret, permissions: { publish: { allow: ">", deny: "$JS.API.STREAM.NAMES" } } },
	] } }`)
	diagnose(t, "--nats", shy.URL(), "--nats-user", "shy", "--nats-password-file", natstest.File(t, "secret")).
		is(t, "nats stream", doctor.Warning, "perhaps it cannot be made", "$JS.API.STREAM.NAMES", "docs/nats.md")

	secured := natstest.StartSecured(t, `accounts: { a: { users: [
		{ user: mute, password: secret, permissions: { publish: "none" } },
		{ user: plain, password: secret },
	] } }`)
	as := func(user, password string) diagnosis {
		return diagnose(t, "--nats", secured.URL(), "--nats-user", user, "--nats-password-file", natstest.File(t, password))
	}
	as("plain", "secret").is(t, "nats stream", doctor.Error, "JetStream is not enabled", "switch JetStream on")
	as("mute", "secret").is(t, "nats stream", doctor.Error, "permissions")
	as("plain", "wrong").is(t, "nats", doctor.Error, "credentials")
}

// A server that cannot be asked because of a file has nothing to do with that.
func TestDoctorFindsBadFiles(t *testing.T) {
	t.Parallel()
	file := natstest.File(t, "no certificate")
	for check, args := range map[string][][]string{
		"redis": {
			{"--redis", "rediss://127.0.0.1:1", "--redis-password-file", "/no/such/file"},
			{"--redis", "rediss://127.0.0.1:1", "--redis-ca", file},
			{"--redis", "rediss://127.0.0.1:1", "--redis-cert", file, "--redis-key", file},
		},
		"nats": {
			{"--nats", "nats://127.0.0.1:1", "--nats-token-file", "/no/such/file"},
			{"--nats", "nats://127.0.0.1:1", "--nats-ca", file},
		},
	} {
		for _, args := range args {
			r := diagnose(t, args...)
			r.is(t, check, doctor.Error, args[len(args)-1], "correct the file")
			if text := r.checks[check].Do; strings.Contains(text, "start") {
				t.Errorf("%v: %s", args, text)
			}
		}
	}
	diagnose(t, "--nats", "nats://127.0.0.1:1", "--nats-creds", "/no/such/file").is(
		t, "nats", doctor.Error, "nats.creds: the file cannot be read",
	)
}

func TestDoctorFindsWhatIsWrongWithFiles(t *testing.T) {
	t.Parallel()
	dir := shortDir(t)
	file := filepath.Join(dir, "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	diagnose(t, "--state-dir", filepath.Join(file, "below")).is(
		t, "state directory", doctor.Error, "not a directory", "--state-dir",
	)
	diagnose(t, "--state-dir", file).is(t, "state directory", doctor.Error)
	r := diagnose(t, "--socket", file)
	r.is(t, "socket", doctor.Error, "is no socket")
	r.is(t, "daemon", doctor.Error)

	open := filepath.Join(dir, "open")
	if err := os.Mkdir(open, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(open, 0o777); err != nil {
		t.Fatal(err)
	}
	diagnose(t, "--state-dir", open).is(t, "state directory", doctor.Error, "others can write", "chmod 0700")

	// A socket that a daemon left which was killed.
	stale := filepath.Join(dir, "stale")
	fd, err := syscall.Socket(syscall.AF_UNIX, syscall.SOCK_STREAM, 0)
	if err != nil {
		t.Fatal(err)
	}
	if err := syscall.Bind(fd, &syscall.SockaddrUnix{Name: stale}); err != nil {
		t.Fatal(err)
	}
	_ = syscall.Close(fd)
	if err := os.Chmod(stale, 0o666); err != nil {
		t.Fatal(err)
	}
	r = diagnose(t, "--socket", stale)
	r.is(t, "socket", doctor.Warning, "0666", "chmod 0660")
	r.is(t, "daemon", doctor.Error, "refused", "takes over")
}

func TestDoctorSaysThatTheDaemonDrains(t *testing.T) {
	t.Parallel()
	path := socketPath(t)
	serving(t, path)
	call(t, "drain", "--socket", path).expect(t, cli.ExitOK, nil, nil)
	see := func() diagnosis { return diagnose(t, "--state-dir", path+".state", "--socket", path) }
	see().is(t, "daemon", doctor.Error, "it takes no new claims", "lockagent drain --undo")
	call(t, "drain", "--socket", path, "--undo").expect(t, cli.ExitOK, nil, nil)
	see().is(t, "daemon", doctor.OK, "it can grant locks")
}

// Without flags, doctor examines what the daemon has that runs, and with flags what they say.
func TestDoctorAsksTheDaemonForItsSettings(t *testing.T) {
	t.Parallel()
	path := socketPath(t)
	d := serveProcess(t, path, nil)
	see := func(args ...string) diagnosis {
		return diagnosed(t, call(t, append([]string{"doctor", "--format", "json", "--socket", path}, args...)...))
	}
	r := see()
	r.is(t, "settings", doctor.OK, "those of the daemon on "+path)
	r.is(t, "state directory", doctor.OK, path+".state: ")
	r.is(t, "daemon", doctor.OK)
	other := t.TempDir()
	r = see("--state-dir", other)
	r.is(t, "state directory", doctor.OK, other)
	if _, told := r.checks["settings"]; told {
		t.Error("it asks the daemon for settings, and the command line has some to try")
	}

	// Somebody has removed the socket, and the daemon has not made it again.
	d.stop(t)
	t.Cleanup(func() { d.signal(t, syscall.SIGCONT) })
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	uses := fmt.Sprintf("process %d has the state directory", d.Process.Pid)
	see("--state-dir", path+".state").is(t, "daemon", doctor.Error, uses)
	see("--state-dir", other).is(t, "daemon", doctor.Warning, "it does not run")

	silent := runDaemon(t) // one that has no socket for operators
	r = diagnosed(t, call(t, "doctor", "--format", "json", "--socket", silent.Path))
	r.is(t, "settings", doctor.Skipped, "the daemon on "+silent.Path+" does not tell them", "run it as root")
	r.needsNoSettings(t, doctor.OK)
}

// needsNoSettings fails the test unless doctor made only the checks that need no settings, and found nothing wrong.
func (d diagnosis) needsNoSettings(t *testing.T, daemon doctor.State) {
	t.Helper()
	d.is(t, "deadlines", doctor.OK)
	d.is(t, "socket", doctor.OK)
	d.is(t, "daemon", daemon)
	for check := range d.checks {
		if !slices.Contains([]string{"settings", "settings of the next start", "deadlines", "socket", "daemon"}, check) {
			t.Errorf("it knows no settings, and makes the check %s: %+v", check, d.checks[check])
		}
	}
	if d.code != cli.ExitOK {
		t.Errorf("the exit code is %d: %s", d.code, d.stderr)
	}
}

// Whoever is no operator of the daemon learns nothing of its settings. So doctor does not judge what it does not know.
func TestDoctorOfAUserWhoIsNoOperator(t *testing.T) {
	t.Parallel()
	path := socketPath(t)
	serveProcess(t, path, nil, "--redis", redistest.Start(t).URL())
	if err := os.Chmod(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	for mode, daemon := range map[os.FileMode]doctor.State{0o666: doctor.OK, 0o660: doctor.Warning} {
		if err := os.Chmod(path, mode); err != nil {
			t.Fatal(err)
		}
		r := diagnosed(t, asNobody(t, "doctor", "--format", "json", "--socket", path))
		r.is(t, "settings", doctor.Skipped, "permission denied", "run it as root")
		r.needsNoSettings(t, daemon)
	}
}

// Settings that are wrong now are those of the next start. The daemon that runs has others.
func TestDoctorFindsTheSettingsOfTheNextStartWrong(t *testing.T) {
	t.Parallel()
	const check = "settings of the next start"
	path := socketPath(t)
	file := filepath.Join(filepath.Dir(path), "config.yaml")
	if err := os.WriteFile(file, []byte("lease: {duratoin: 5s}"), 0o600); err != nil {
		t.Fatal(err)
	}
	with := func(cmd *exec.Cmd, environ ...string) result {
		cmd.Env = append(append(os.Environ(), "HOME=/"), environ...)
		return ran(t, cmd)
	}
	args := []string{"doctor", "--format", "json", "--socket", path}
	with(ourselves(t, args...), "LOCKAGENT_CONFIG="+file).expect(
		t, cli.ExitConfig, []string{"it does not run"}, []string{"lease.duration"},
	)

	serveProcess(t, path, nil)
	for says, environ := range map[string][]string{
		"lease.duratoin is no setting; did you mean lease.duration?":      {"LOCKAGENT_CONFIG=" + file},
		"$LOCKAGENT_LEASES is no setting; did you mean $LOCKAGENT_LEASE?": {"LOCKAGENT_LEASES=5s"},
		"?; " + file + ":1: lease.duratoin is no setting": {
			"LOCKAGENT_CONFIG=" + file, "LOCKAGENT_LEASES=5s",
		},
	} {
		r := diagnosed(t, with(ourselves(t, args...), environ...))
		r.is(t, check, doctor.Error, says, "lockagent config validate")
		r.is(t, "settings", doctor.OK, "those of the daemon")
		r.is(t, "state directory", doctor.OK, path+".state: ")
		r.is(t, "daemon", doctor.OK)
		if !strings.Contains(r.stderr, "1 thing is wrong") {
			t.Errorf("it says %s", r.stderr)
		}
	}

	for name, mode := range map[string]os.FileMode{filepath.Dir(path): 0o755, path: 0o666} {
		if err := os.Chmod(name, mode); err != nil {
			t.Fatal(err)
		}
	}
	r := diagnosed(t, with(ofNobody(t, args...), "LOCKAGENT_CONFIG="+file))
	r.is(t, check, doctor.Skipped, file+": cannot be read: permission denied", "run it as root")
	r.needsNoSettings(t, doctor.OK)
	r = diagnosed(t, with(ofNobody(t, args...), "LOCKAGENT_CONFIG="+file, "LOCKAGENT_LEASES=5s"))
	r.is(t, check, doctor.Warning, "did you mean $LOCKAGENT_LEASE?", "lockagent config validate")
	r.needsNoSettings(t, doctor.OK)
}

func TestDoctorFindsADirectoryThatIsNotOurs(t *testing.T) {
	t.Parallel()
	dir := shortDir(t) // of root
	if err := os.Chmod(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	r := diagnosed(t, asNobody(t, "doctor", "--format", "json", "--state-dir", dir, "--socket", dir+"/a.sock"))
	r.is(t, "state directory", doctor.Error, "permission denied", fmt.Sprintf("install -d -m 0700 -o USER %s", dir))
	r = diagnosed(
		t, asNobody(t, "doctor", "--format", "json", "--state-dir", dir+"/none/state", "--socket", dir+"/a.sock"),
	)
	r.is(
		t, "state directory", doctor.Error, "it cannot be made in "+dir+": permission denied", "install -d -m 0700 -o USER",
	)
	diagnose(t, "--state-dir", dir+"/none/state").is(t, "state directory", doctor.OK, "the daemon makes it")
}
