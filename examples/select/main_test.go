package main

import (
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"github.com/lockagent/lockagent/channelapi"
	"github.com/lockagent/lockagent/memstore"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestPrintDocument(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		locks, err := channelapi.New(channelapi.Config{Store: memstore.New()})
		if err != nil {
			t.Fatal(err)
		}
		defer locks.Close()
		laser, inkjet := locks.Lock("printers/laser"), locks.Lock("printers/inkjet")
		others, err := channelapi.All(t.Context(), laser, inkjet)
		if err != nil {
			t.Fatal(err)
		}
		quit := make(chan struct{})

		time.AfterFunc(time.Minute, func() { others[1].ReleaseAsync(t.Context()) })
		if printer, err := printDocument(t.Context(), locks, quit); printer != "printers/inkjet" || err != nil {
			t.Errorf("printed on %q, %v; want the inkjet", printer, err)
		}

		if _, err := inkjet.TryAcquire(t.Context()); err != nil { // which nobody else has now
			t.Error(err)
		}
		time.AfterFunc(time.Minute, func() { close(quit) })
		if printer, err := printDocument(t.Context(), locks, quit); printer != "" || err != nil {
			t.Errorf("printed on %q, %v; want that it quits", printer, err)
		}
		synctest.Wait()
		for _, l := range []*channelapi.Lock{laser, inkjet} {
			if s, err := l.Status(t.Context()); s.Waiters != 0 || err != nil {
				t.Errorf("somebody still waits for a printer: %+v, %v", s, err)
			}
		}
	})
}
