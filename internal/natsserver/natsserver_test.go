package natsserver_test

import (
	"bufio"
	"context"
	"errors"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"go.uber.org/goleak"

	"github.com/lockagent/lockagent"
	"github.com/lockagent/lockagent/internal/natsserver"
	"github.com/lockagent/lockagent/internal/natsserver/natstest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// connect returns a JetStream client of s whose connection ends with the test,
// before the server does.
func connect(t *testing.T, s *natsserver.Server) jetstream.JetStream {
	t.Helper()
	nc, err := nats.Connect("", nats.InProcessServer(s))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(nc.Close)
	js, err := jetstream.New(nc)
	if err != nil {
		t.Fatal(err)
	}
	return js
}

func TestLogSurvivesRestart(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "made", "by", "start")
	s := natstest.Start(t, natsserver.Config{Dir: dir})
	if s.URL() != "" {
		t.Errorf("listens at %s unasked", s.URL())
	}
	js := connect(t, s)
	if _, err := js.CreateStream(t.Context(), jetstream.StreamConfig{Name: "S", Subjects: []string{"s"}}); err != nil {
		t.Fatal(err)
	}
	if _, err := js.Publish(t.Context(), "s", []byte("kept")); err != nil {
		t.Fatal(err)
	}
	if err := s.Stop(); err != nil {
		t.Fatal(err)
	}
	if _, err := s.InProcessConn(); err == nil {
		t.Error("a stopped server takes connections")
	}

	stream, err := connect(t, natstest.Start(t, natsserver.Config{Dir: dir})).Stream(t.Context(), "S")
	if err != nil {
		t.Fatal(err)
	}
	m, err := stream.GetMsg(t.Context(), 1)
	if err != nil || string(m.Data) != "kept" {
		t.Errorf("got %v, %v", m, err)
	}
}

func TestDirectoryIsUsedOnce(t *testing.T) {
	cfg := natsserver.Config{Dir: t.TempDir()}
	first := natstest.Start(t, cfg)
	if s, err := natsserver.Start(cfg); !errors.Is(err, natsserver.ErrInUse) {
		t.Fatalf("got %v, %v; want ErrInUse", s, err)
	}
	if err := first.Stop(); err != nil {
		t.Fatal(err)
	}
	natstest.Start(t, cfg)
}

func TestTemporaryLeavesNothing(t *testing.T) {
	t.Setenv("TMPDIR", t.TempDir())
	s := natstest.Start(t, natsserver.Config{})
	if made, _ := os.ReadDir(os.Getenv("TMPDIR")); len(made) != 1 {
		t.Fatalf("got %v, want one directory", made)
	}
	for range 2 {
		if err := s.Stop(); err != nil {
			t.Fatal(err)
		}
	}
	if left, _ := os.ReadDir(os.Getenv("TMPDIR")); len(left) != 0 {
		t.Errorf("left %v", left)
	}
}

func TestListen(t *testing.T) {
	s := natstest.Start(t, natsserver.Config{Listen: "127.0.0.1:0"})
	addr, ok := strings.CutPrefix(s.URL(), "nats://")
	if !ok {
		t.Fatalf("URL %q", s.URL())
	}
	c, err := net.DialTimeout("tcp", addr, 10*time.Second)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if line, err := bufio.NewReader(c).ReadString('\n'); err != nil || !strings.HasPrefix(line, "INFO ") {
		t.Errorf("greeted with %q, %v", line, err)
	}

	t.Run("SamePortAgain", func(t *testing.T) {
		if err := s.Stop(); err != nil {
			t.Fatal(err)
		}
		if again := natstest.Start(t, natsserver.Config{Listen: addr}); again.URL() != s.URL() {
			t.Errorf("listens at %s, want %s", again.URL(), s.URL())
		}
	})
}

func TestPortInUse(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	s, err := natsserver.Start(natsserver.Config{Temporary: true, Listen: l.Addr().String()})
	if err == nil || !strings.Contains(err.Error(), "address already in use") {
		t.Errorf("got %v, %v; want an error that says why", s, err)
	}
}

func TestDirectoryCannotBeMade(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if s, err := natsserver.Start(natsserver.Config{Dir: file}); err == nil {
		t.Errorf("started on a file: %v", s)
	}
}

func TestBadConfig(t *testing.T) {
	for name, cfg := range map[string]natsserver.Config{
		"NoDir":         {},
		"TwoDirs":       {Dir: "x", Temporary: true},
		"NotLoopback":   {Temporary: true, Listen: "0.0.0.0:0"},
		"NoPort":        {Temporary: true, Listen: "127.0.0.1"},
		"NegativeLimit": {Temporary: true, MaxBytes: -1},
	} {
		t.Run(name, func(t *testing.T) {
			var bad *lockagent.OptionError
			if s, err := natsserver.Start(cfg); !errors.As(err, &bad) {
				t.Errorf("got %v, %v; want an OptionError", s, err)
			}
		})
	}
}

func TestMaxBytes(t *testing.T) {
	js := connect(t, natstest.Start(t, natsserver.Config{MaxBytes: 1 << 20}))
	info, err := js.AccountInfo(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	_, err = js.CreateStream(t.Context(), jetstream.StreamConfig{Name: "S", Subjects: []string{"s"}, MaxBytes: 2 << 20})
	if err == nil {
		t.Errorf("a stream may reserve more than the limit: %+v", info)
	}
}

func TestConfigFile(t *testing.T) {
	s := natstest.StartSecured(
		t, `port: 1, store_dir: "/no/such/directory", authorization: { user: joe, password: s3cr3t }`,
	)
	if nc, err := nats.Connect(s.URL()); !errors.Is(err, nats.ErrAuthorization) {
		t.Errorf("a stranger got %v, %v", nc, err)
	}
	nc, err := nats.Connect(s.URL(), nats.UserInfo("joe", "s3cr3t"))
	if err != nil {
		t.Fatal(err)
	}
	nc.Close()

	for name, path := range map[string]string{
		"Missing": filepath.Join(t.TempDir(), "missing"),
		"Wrong":   natstest.File(t, "accounts: {"),
	} {
		t.Run(name, func(t *testing.T) {
			if s, err := natsserver.Start(natsserver.Config{Temporary: true, ConfigFile: path}); err == nil {
				t.Errorf("started: %v", s)
			}
		})
	}
}
