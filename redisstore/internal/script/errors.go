package script

import (
	"fmt"
	"strings"

	"github.com/lockagent/lockagent"
)

// Refused is the error for the text of an error reply. Those are definite that say what is wrong
// with the key or the user. The others, such as READONLY, LOADING, CLUSTERDOWN or OOM, speak of
// the state of the server, which may change: they are [lockagent.ErrStoreUnavailable].
func Refused(text string) error {
	if known, ok := strings.CutPrefix(text, "FAR "); ok {
		return &lockagent.OptionError{Option: "floor", Reason: known + " is more than a day ahead of the store's clock; use a token of the lock, or set the clock of the server right"}
	}
	return fmt.Errorf("%w: %s", kind(text), text)
}

// kind looks for the code of an error. Inside of a script, servers before 7.0 put words of their
// own in front of it.
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

// Apart reports whether the text of an error reply says that the keys of a call are not in one
// place. Then the call had no effect, and goes through if it is made alone.
func Apart(text string) bool {
	return strings.HasPrefix(text, "TRYAGAIN") || strings.HasPrefix(text, "CROSSSLOT")
}

// Several reports whether the text of an error reply to a call about several locks may be due to
// one of them. The call had no effect. It is made once more for each.
func Several(text string) bool {
	return strings.HasPrefix(text, "FAR ") || kind(text) == lockagent.ErrNotPermitted
}
