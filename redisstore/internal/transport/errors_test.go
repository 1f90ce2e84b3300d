package transport

import (
	"context"
	"errors"
	"io"
	"strings"
	"testing"

	"github.com/lockagent/lockagent"
)

// What servers of different versions answer.
func TestKind(t *testing.T) {
	wrong, denied, away := lockagent.ErrWrongType, lockagent.ErrNotPermitted, lockagent.ErrStoreUnavailable
	for text, want := range map[string]error{
		"WRONGTYPE Operation against a key holding the wrong kind of value":                                 wrong,
		"WRONGTYPE Operation against a key holding the wrong kind of value script: 8f, on @user_script:37.": wrong,
		"ERR Error running script (call to f_8f): @user_script:37: WRONGTYPE Operation against a key holding the " +
			"wrong kind of value": wrong,
		"NOPERM this user has no permissions to access one of the keys used as arguments":                       denied,
		"NOPERM User app has no permissions to run the 'evalsha' command":                                       denied,
		"NOAUTH Authentication required.":                                                                       denied,
		"WRONGPASS invalid username-password pair or user is disabled.":                                         denied,
		"ERR The user executing the script can't run this command or subcommand script: 8f, on @user_script:1.": denied,
		"ERR Error running script (call to f_8f): @user_script:1: The user executing the script can't run this " +
			"command or subcommand": denied,
		"ERR ACL failure in script: User app has no permissions to run the 'hset' command script: 8f, on " +
			"@user_script:1.": denied,
		"READONLY You can't write against a read only replica. script: 8f, on @user_script:55.":            away,
		"LOADING Redis is loading the dataset in memory":                                                   away,
		"OOM command not allowed when used memory > 'maxmemory'. script: 8f, on @user_script:55.":          away,
		"CLUSTERDOWN Hash slot not served":                                                                 away,
		"MASTERDOWN Link with MASTER is down and replica-serve-stale-data is set to 'no'.":                 away,
		"BUSY Redis is busy running a script. You can only call SCRIPT KILL or SHUTDOWN NOSAVE.":           away,
		"NOREPLICAS Not enough good replicas to write.":                                                    away,
		"TRYAGAIN Multiple keys request during rehashing of slot":                                          away,
		"MISCONF Redis is configured to save RDB snapshots, but it's currently unable to persist to disk.": away,
	} {
		if got := Kind(text); !errors.Is(got, want) {
			t.Errorf("Kind(%q) = %v, want %v", text, got, want)
		}
	}
}

// The error of a rehearsal at a service that refuses keys which a script does not declare.
func TestAdviceAboutUndeclaredKeys(t *testing.T) {
	err := Error(Refusal("UNDECLARED ERR script tried accessing undeclared key (at EXISTS)"))
	if !errors.Is(err, lockagent.ErrStoreUnavailable) || !strings.Contains(err.Error(), "allow-undeclared-keys") {
		t.Errorf("%v", err)
	}
	// But if the user may not use the key, that is the error.
	err = Error(Refusal("UNDECLARED NOPERM No permissions to access a key (at EXISTS)"))
	if !errors.Is(err, lockagent.ErrNotPermitted) {
		t.Errorf("%v", err)
	}
}

func TestErrorHidesOurOwnContexts(t *testing.T) {
	for _, err := range []error{context.DeadlineExceeded, context.Canceled, io.EOF} {
		got := Error(err)
		if !errors.Is(got, lockagent.ErrStoreUnavailable) || errors.Is(got, context.DeadlineExceeded) ||
			errors.Is(got, context.Canceled) {
			t.Errorf("Error(%v) = %v", err, got)
		}
	}
	if err := Error(nil); err != nil {
		t.Errorf("Error(nil) = %v", err)
	}
	if err := Error(io.EOF); !errors.Is(err, io.EOF) {
		t.Errorf("%v hides its cause", err)
	}
}
