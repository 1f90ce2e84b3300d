package lockagent_test

import (
	"errors"
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/lockagent/lockagent"
)

// sentinels are all errors that can be tested for.
var sentinels = []error{
	lockagent.ErrNotGranted, lockagent.ErrHeld, lockagent.ErrTimeout, lockagent.ErrClosed, lockagent.ErrSessionClosed,
	lockagent.ErrReleased, lockagent.ErrNotHeld, lockagent.ErrNotOwner, lockagent.ErrLost, lockagent.ErrUnconfirmed,
	lockagent.ErrLeaseTooShort, lockagent.ErrInternal, lockagent.ErrStoreUnavailable, lockagent.ErrWrongType,
	lockagent.ErrNotPermitted, lockagent.ErrNoTokens, lockagent.ErrTooFewReplicas, lockagent.ErrWithdrawn,
	lockagent.ErrBadURL,
	lockagent.ErrBadName, lockagent.ErrBadOwner, lockagent.ErrBadOption, lockagent.ErrGrace,
}

func TestTypedErrors(t *testing.T) {
	for _, c := range []struct {
		err  error
		is   error
		text string
	}{
		{
			&lockagent.LostError{Name: "a b", Owner: "alice", Token: 7, Reason: lockagent.LostDenied}, lockagent.ErrLost,
			`lockagent: lost "a b" (token 7): the store says it is not held any more`,
		},
		{
			&lockagent.LostError{Name: "a b", Owner: "alice", Token: 7, Reason: lockagent.LostBroken, Operator: "olga\n"},
			lockagent.ErrLost,
			`lockagent: lost "a b" (token 7): an operator broke it: "olga\n"`,
		},
		{
			&lockagent.HeldError{Name: "a b", Left: time.Millisecond}, lockagent.ErrHeld,
			`lockagent: lock "a b" is kept for other waiters for a moment`,
		},
		{
			&lockagent.HeldError{Name: "a b", Holder: "alice", Left: time.Second}, lockagent.ErrHeld,
			`lockagent: lock "a b" is held by "alice"`,
		},
		{
			&lockagent.GraceError{Name: "a b", Left: 1234567 * time.Microsecond},
			errors.Join(lockagent.ErrGrace, lockagent.ErrStoreUnavailable),
			`lockagent: lock "a b": the store may have forgotten who holds it, and waits for up to 1.235s ` +
				`for the holders to come back; try again`,
		},
		{
			&lockagent.ReplicasError{Name: "a b", Acknowledged: 1, Wanted: 2}, lockagent.ErrTooFewReplicas,
			`lockagent: lock "a b" was not granted: 1 replicas of the store acknowledged it in time, and 2 have to; ` +
				`see whether they run and follow`,
		},
		{
			&lockagent.ReplicasError{Name: "a b", Acknowledged: 1, Wanted: 2, Renewal: true}, lockagent.ErrTooFewReplicas,
			`lockagent: lock "a b" was not renewed: 1 replicas of the store acknowledged it in time, and 2 have to; ` +
				`see whether they run and follow`,
		},
		{&lockagent.NameError{Name: "x{", Reason: "it is bad"}, lockagent.ErrBadName, `lockagent: bad name "x{": it is bad`},
		{
			&lockagent.OwnerError{Owner: "\xff", Reason: "it is bad"}, lockagent.ErrBadOwner,
			`lockagent: bad owner "\xff": it is bad`,
		},
		{
			&lockagent.OptionError{Option: "wait", Reason: "it is bad"}, lockagent.ErrBadOption,
			`lockagent: bad wait: it is bad`,
		},
		{
			&lockagent.NameError{Name: strings.Repeat("n", 1<<20), Reason: "it is long"}, lockagent.ErrBadName,
			`lockagent: bad name "` + strings.Repeat("n", 64) + `...": it is long`,
		},
	} {
		if got := c.err.Error(); got != c.text {
			t.Errorf("%T says %q, want %q", c.err, got, c.text)
		}
		wrapped := fmt.Errorf("somewhere: %w", c.err)
		for _, s := range sentinels {
			if got, want := errors.Is(wrapped, s), errors.Is(c.is, s); got != want {
				t.Errorf("%T is %q: %t, want %t", c.err, s, got, want)
			}
		}
	}
}

func TestSentinelsAreDistinct(t *testing.T) {
	for i, a := range sentinels {
		if !strings.HasPrefix(a.Error(), "lockagent: ") {
			t.Errorf("%q does not say where it is from", a)
		}
		for _, b := range sentinels[i+1:] {
			if errors.Is(a, b) || a.Error() == b.Error() {
				t.Errorf("%q and %q are the same", a, b)
			}
		}
	}
}

func TestDefinite(t *testing.T) {
	definite := []error{
		lockagent.ErrWrongType, lockagent.ErrNotPermitted, lockagent.ErrClosed, lockagent.ErrWithdrawn,
		&lockagent.OptionError{}, &lockagent.NameError{},
	}
	for _, err := range definite {
		if !lockagent.Definite(err) || !lockagent.Definite(fmt.Errorf("somewhere: %w", err)) {
			t.Errorf("%v is not definite", err)
		}
	}
	for _, err := range []error{
		nil, lockagent.ErrStoreUnavailable, errors.New("unknown"), lockagent.ErrHeld, lockagent.ErrTimeout,
	} {
		if lockagent.Definite(err) {
			t.Errorf("%v is definite", err)
		}
	}
}

// The documentation of Store lists the errors that Definite knows.
func TestDefiniteErrorsAreDocumented(t *testing.T) {
	names := func(file, from, to string, name *regexp.Regexp) (names []string) {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		_, part, _ := strings.Cut(string(text), from)
		part, _, _ = strings.Cut(part, to)
		for _, m := range name.FindAllStringSubmatch(part, -1) {
			names = append(names, m[1])
		}
		slices.Sort(names)
		return names
	}
	known := names("errors.go", "range []error{", "}", regexp.MustCompile(`(Err\w+)`))
	documented := names("store.go", "// # Errors\n", "\n// # ", regexp.MustCompile(`\[(Err\w+)\]`))
	if len(known) < 5 || !slices.Equal(known, documented) {
		t.Errorf("Definite knows %q, and the documentation of Store lists %q", known, documented)
	}
}

var lossReasons = []lockagent.LossReason{
	lockagent.LostDeadline, lockagent.LostDenied, lockagent.LostExpired, lockagent.LostBroken, lockagent.LostClosed,
	lockagent.LostSessionClosed, lockagent.LostUnclaimed, lockagent.LostInternal, lockagent.LostIdentity,
}

func TestLossReasonRoundTrip(t *testing.T) {
	words, texts := make(map[string]bool), make(map[string]bool)
	for _, r := range lossReasons {
		word := r.String()
		if !oneWord.MatchString(word) || words[word] {
			t.Errorf("%q is not one lower-case word of its own", word)
		}
		words[word] = true
		if got, ok := lockagent.ParseLossReason(word); !ok || got != r {
			t.Errorf("ParseLossReason(%q) = %v, %t", word, got, ok)
		}
		text := (&lockagent.LostError{Reason: r}).Error()
		if texts[text] || strings.Contains(text, "no known reason") {
			t.Errorf("%q says nothing of its own", text)
		}
		texts[text] = true
	}
	if got, ok := lockagent.ParseLossReason(lockagent.LossReason(0).String()); !ok || got != 0 {
		t.Errorf("no reason became %v, %t", got, ok)
	}
	unknown := lockagent.LossReason(len(lossReasons) + 1)
	if unknown.String() != "unknown" {
		t.Errorf("a reason that does not exist is called %q: is the list of this test complete?", unknown)
	}
	if _, ok := lockagent.ParseLossReason("unknown"); ok {
		t.Error(`"unknown" is a reason`)
	}
	for _, r := range []lockagent.LossReason{0, unknown, 255} {
		if text := (&lockagent.LostError{Reason: r}).Error(); !strings.Contains(text, "for no known reason") {
			t.Errorf("reason %d: %q", r, text)
		}
	}
}
