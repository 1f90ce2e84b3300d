package redisstore

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/redis/rueidis"

	"github.com/lockagent/lockagent"
)

// errSilent stands for the end of a context that bounded a call. It is an error
// of its own so that nobody takes it for the end of a context of the caller's.
var errSilent = errors.New("no answer in time")

// storeError puts what went wrong with a call into the words of the lockagent
// package. It returns nil for nil.
//
// Of the errors that a server answers with, those are definite that say what is
// wrong with the key or the user. The others, such as READONLY, LOADING,
// CLUSTERDOWN or OOM, speak of the state of the server, which may change.
func storeError(err error) error {
	if err == nil {
		return nil
	}
	if answer := (*rueidis.RedisError)(nil); errors.As(err, &answer) {
		return fmt.Errorf("%w: %w", kind(err.Error()), err)
	}
	if errors.Is(err, context.DeadlineExceeded) || errors.Is(err, context.Canceled) {
		err = errSilent
	}
	return fmt.Errorf("%w: %w", lockagent.ErrStoreUnavailable, err)
}

// kind is the error of the lockagent package for the text of an error reply.
// Inside of a script, servers before 7.0 put words of their own in front of the
// code of an error.
func kind(text string) error {
	for _, mark := range []struct {
		text string
		err  error
	}{
		{"WRONGTYPE", lockagent.ErrWrongType},
		{"NOPERM", lockagent.ErrNotPermitted},
		{"NOAUTH", lockagent.ErrNotPermitted},
		{"WRONGPASS", lockagent.ErrNotPermitted},
		{"The user executing the script can't", lockagent.ErrNotPermitted},
		{"ACL failure in script", lockagent.ErrNotPermitted},
	} {
		if strings.Contains(text, mark.text) {
			return mark.err
		}
	}
	return lockagent.ErrStoreUnavailable
}

// malformed is the error for a reply that is not what the script returns.
func malformed(err error) error {
	return fmt.Errorf("%w: a reply that cannot be understood: %w", lockagent.ErrStoreUnavailable, err)
}
