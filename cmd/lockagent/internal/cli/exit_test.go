package cli

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
		{nil, ExitOK},
		{errors.New("some error"), ExitFailed},
		{Usage("lockagent demo", "wrong"), ExitUsage},
		{fmt.Errorf("wrapped: %w", lockagent.ErrInternal), ExitBug},
		{fmt.Errorf("wrapped: %w", lockagent.ErrStoreUnavailable), ExitUnavailable},
		{fmt.Errorf("wrapped: %w", &lockagent.GraceError{Name: "door"}), ExitUnavailable},
		{fmt.Errorf("wrapped: %w", lockagent.ErrNotPermitted), ExitNotPermitted},
	} {
		if got := CodeOf(test.err); got != test.code {
			t.Errorf("the exit code of %v is %d, want %d", test.err, got, test.code)
		}
	}
}
