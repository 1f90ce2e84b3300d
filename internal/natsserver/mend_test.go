package natsserver

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// A server that has given up writing starts anew, at the same address, with all that it had. Its clients come back.
func TestStartsAnew(t *testing.T) {
	s, err := Start(Config{Dir: t.TempDir(), Listen: "127.0.0.1:0"})
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := s.Stop(); err != nil {
			t.Error(err)
		}
	}()
	back := make(chan struct{}, 1)
	nc, err := nats.Connect(
		s.URL(), nats.ReconnectWait(10*time.Millisecond), nats.MaxReconnects(-1),
		nats.ReconnectHandler(func(*nats.Conn) { back <- struct{}{} }),
	)
	if err != nil {
		t.Fatal(err)
	}
	defer nc.Close()
	js, err := jetstream.New(nc)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := js.CreateStream(t.Context(), jetstream.StreamConfig{Name: "S", Subjects: []string{"s"}}); err != nil {
		t.Fatal(err)
	}
	for seq := uint64(1); seq <= 3; seq++ {
		ack, err := js.Publish(t.Context(), "s", nil)
		if err != nil || ack.Sequence != seq {
			t.Fatalf("message %d: %+v, %v", seq, ack, err)
		}
		old, most := s.server(), s.server().JetStreamConfig().MaxStore
		s.log.broken <- struct{}{}
		<-back
		if s.server() == old || s.server().JetStreamConfig().MaxStore != most {
			t.Fatal("the server is not a new one with the same settings")
		}
	}
}

// While there is no room, the server goes on as it is, and can be stopped.
func TestStopWithoutRoom(t *testing.T) {
	dir := t.TempDir()
	s, err := Start(Config{Dir: dir})
	if err != nil {
		t.Fatal(err)
	}
	if err := os.MkdirAll(filepath.Join(dir, roomFile, "in the way"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := s.relaunch(t.Context()); err == nil {
		t.Error("started anew without room")
	}
	nc, err := nats.Connect("", nats.InProcessServer(s))
	if err != nil {
		t.Fatal(err)
	}
	nc.Close()
	s.log.broken <- struct{}{}
	if err := s.Stop(); err != nil {
		t.Error(err)
	}
}
