package telemetry

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

func TestComplaintsAreNoFlood(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log bytes.Buffer
		c := &complaints{logger: slog.New(slog.NewTextHandler(&log, nil))}
		for range 100 {
			c.Handle(errors.New("the collector is gone"))
			time.Sleep(complainEvery / 50)
		}
		c.conclude()
		text := log.String()
		if n := strings.Count(text, "the collector is gone"); n != 2 {
			t.Errorf("it was logged %d times in two minutes, want 2:\n%s", n, text)
		}
		for _, want := range []string{"unsaid=0", "unsaid=49"} {
			if !strings.Contains(text, want) {
				t.Errorf("it does not say %s:\n%s", want, text)
			}
		}
		if strings.Count(text, "unsaid=49") != 2 {
			t.Errorf("the last line does not say how many there were since:\n%s", text)
		}
		time.Sleep(complainEvery)
		c.Handle(errors.New("an exporter that was given up"))
		if log.String() != text {
			t.Errorf("it goes on after the end:\n%s", log.String())
		}
	})
}

// A collector that takes everything and answers nothing cannot keep the program.
func TestFlushHasABound(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		sdk := &SDK{complaints: &complaints{logger: slog.New(slog.DiscardHandler)}}
		for range 2 {
			sdk.closers = append(sdk.closers, func(ctx context.Context) error {
				<-ctx.Done()
				return ctx.Err()
			})
		}
		began := time.Now()
		sdk.Close()
		if took := time.Since(began); took != flushTime {
			t.Errorf("it took %v, want %v", took, flushTime)
		}
	})
}
