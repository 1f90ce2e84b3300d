//go:build linux

package daemon

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"
)

func TestNamesOfUsers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		names, asked, answer := newUserNames(), 0, make(chan string)
		names.lookup = func(uid uint32) (string, error) {
			switch asked++; {
			case uid == 2:
				return <-answer, nil
			case asked == 1:
				return "", errors.New("the directory is away")
			}
			return "ann", nil
		}
		for range 2 {
			if name := names.name(1); name != "" || asked != 1 {
				t.Errorf("the directory is away: %q after %d questions", name, asked)
			}
		}
		time.Sleep(namelessFor)
		for range 2 {
			if name := names.name(1); name != "ann" || asked != 2 {
				t.Errorf("the directory is back: %q after %d questions", name, asked)
			}
		}
		slow := make(chan string)
		go func() { slow <- names.name(2) }()
		synctest.Wait()
		if name := names.name(1); name != "ann" {
			t.Errorf("while another one is looked up: %q", name)
		}
		answer <- "bob"
		if name := <-slow; name != "bob" {
			t.Errorf("got %q", name)
		}
	})
}
