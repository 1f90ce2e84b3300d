package main

import (
	"errors"
	"strings"
	"testing"
	"testing/synctest"

	"go.uber.org/goleak"

	"github.com/lockagent/lockagent"
	"github.com/lockagent/lockagent/internal/redistest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const want = `adding a hammer, under 2 grants
adding a nail, under 2 grants
somebody else has to wait for the importer
`

func TestInMemory(t *testing.T) {
	synctest.Test(t, func(t *testing.T) { check(t, "") })
}

func TestOnRedis(t *testing.T) { check(t, redistest.Start(t).URL()) }

func check(t *testing.T, redis string) {
	var out strings.Builder
	if err := run(t.Context(), &out, redis); err != nil {
		t.Fatal(err)
	}
	if out.String() != want {
		t.Errorf("the program says\n%s\nwant\n%s", out.String(), want)
	}
}

func TestBadURL(t *testing.T) {
	var out strings.Builder
	if err := run(t.Context(), &out, "http://localhost"); !errors.Is(err, lockagent.ErrBadURL) {
		t.Errorf("%v, want %v", err, lockagent.ErrBadURL)
	}
}
