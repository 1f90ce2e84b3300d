package main

import (
	"errors"
	"fmt"
	"testing"

	"github.com/lockagent/lockagent"
)

func TestExitCodes(t *testing.T) {
	for _, test := range []struct {
		err  error
		code int
	}{
		{nil, exitOK},
		{errors.New("some error"), exitFailed},
		{usage("lockagent demo", "wrong"), exitUsage},
		{fmt.Errorf("wrapped: %w", lockagent.ErrInternal), exitBug},
		{fmt.Errorf("wrapped: %w", lockagent.ErrStoreUnavailable), exitUnavailable},
		{fmt.Errorf("wrapped: %w", lockagent.ErrNotPermitted), exitNotPermitted},
	} {
		if got := codeOf(test.err); got != test.code {
			t.Errorf("the exit code of %v is %d, want %d", test.err, got, test.code)
		}
	}
}
