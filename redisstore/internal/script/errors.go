package script

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/lockagent/lockagent"
)

// Refused is the error for the text of an error reply. An error about the key or the user is
// definite. All others, such as READONLY, LOADING, CLUSTERDOWN or OOM, are about the state of
// the server, which may change: they are [lockagent.ErrStoreUnavailable].
func Refused(text string) error {
	if known, ok := strings.CutPrefix(text, "FAR "); ok {
		return &lockagent.OptionError{
			Option: "floor",
			Reason: known + " is more than a day ahead of the store's clock; use a token of the lock, " +
				"or set the clock of the server right",
		}
	}
	if sum, ok := strings.CutPrefix(text, "MANY "); ok {
		return &lockagent.OptionError{
			Option: "number of permits",
			Reason: fmt.Sprintf(
				"there would be %s; add fewer, so that there are between %d and %d",
				sum, -lockagent.MaxPermits, lockagent.MaxPermits,
			),
		}
	}
	if used, ok := strings.CutPrefix(text, "KIND "); ok {
		return &lockagent.KindError{Used: lockagent.LockKind(used)} // the caller knows the rest
	}
	if words := strings.Fields(text); len(words) == 4 && words[0] == "GRACE" {
		ms, err := strconv.ParseInt(words[1], 10, 64)
		at, err2 := strconv.ParseInt(words[2], 10, 64)
		if err == nil && err2 == nil {
			return &GraceError{
				Left: time.Duration(ms) * time.Millisecond, At: lockagent.StoreTime(at), Incarnation: words[3],
			}
		}
	}
	if strings.HasPrefix(text, "LOOK ") {
		return ErrForgotten
	}
	if keys, ok := strings.CutPrefix(text, "TOKENS "); ok {
		return fmt.Errorf("%w: look at %s", lockagent.ErrNoTokens, keys)
	}
	err := kind(text)
	if lockagent.Definite(err) {
		text = place.ReplaceAllString(text, "")
	}
	return fmt.Errorf("%w: %s", err, text)
}

// GraceError says that the database is in a grace period, and grants nothing.
type GraceError struct {
	Left        time.Duration
	At          lockagent.StoreTime // when the server said so
	Incarnation string
}

func (e *GraceError) Error() string { return "a grace period goes on in " + e.Incarnation }

// Is reports whether target is [lockagent.ErrStoreUnavailable]: the caller makes a [lockagent.GraceError] of it.
func (e *GraceError) Is(target error) bool { return target == lockagent.ErrStoreUnavailable }

// ErrForgotten says that the store has to look at the database, and then to make the call again: the database may have
// forgotten the lock, or its grace period is over.
var ErrForgotten = fmt.Errorf("%w: it may have forgotten the lock", lockagent.ErrStoreUnavailable)

// place is where in a script a command failed, as servers of different versions tell it. It is of no use to whoever
// used a wrong key. Where an error is not definite, it may tell of a defect, so there it stays.
var place = regexp.MustCompile(
	`^ERR Error running script \(call to f_\w+\): |` +
		`@user_script: ?\d+: |` +
		` script: \w+, on @user_script:\d+\.$`,
)

// kind looks for an error code anywhere in a text. Servers before 7.0 put other words in front
// of the code if the error arose in a script.
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

// Several reports whether one of the locks of a call may have caused an error reply with this
// text, also because its keys are at another node already. The call had no effect. The store makes it once more for
// each lock.
func Several(text string) bool {
	return lockagent.Definite(Refused(text)) || strings.HasPrefix(text, "TRYAGAIN")
}
