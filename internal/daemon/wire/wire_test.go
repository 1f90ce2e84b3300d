package wire

import (
	"context"
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/proto"

	"github.com/lockagent/lockagent"
	"github.com/lockagent/lockagent/internal/daemon/refusal"
	lockagentv1 "github.com/lockagent/lockagent/proto/lockagent/v1"
)

func TestKindsAndModes(t *testing.T) {
	for _, k := range lockagent.LockKinds() {
		if got := ToKind(FromKind(k)); got != k {
			t.Errorf("%s comes back as %q", k, got)
		}
	}
	for number := range lockagentv1.Kind_name {
		if k := lockagentv1.Kind(number); FromKind(ToKind(k)) != k {
			t.Errorf("%v stands for %q", k, ToKind(k))
		}
	}
	for number := range lockagentv1.Mode_name {
		if m := lockagentv1.Mode(number); FromMode(ToMode(m)) != m {
			t.Errorf("%v stands for %q", m, ToMode(m))
		}
	}
	if k, m := ToKind(99), ToMode(99); k != unknown || m != unknown {
		t.Errorf("what is not known is %q and %q", k, m)
	}
}

// A client tells of the losses that it finds itself. What else the daemon would have to find, or does not know, is a
// release.
func TestGivenUp(t *testing.T) {
	found := []lockagent.LossReason{
		lockagent.LostDenied, lockagent.LostBroken, lockagent.LostInternal, lockagent.LostIdentity,
	}
	for r := lockagent.LossReason(0); r.String() != "unknown"; r++ {
		want := r
		if slices.Contains(found, r) {
			want = 0
		}
		if got := ToGivenUp(FromGivenUp(&lockagent.LostError{Reason: r})); got != want {
			t.Errorf("%v comes back as %v", r, got)
		}
	}
	for _, cause := range []error{nil, lockagent.ErrReleased, lockagent.ErrTimeout} {
		if got := FromGivenUp(cause); got != lockagentv1.LossReason_LOSS_REASON_UNSPECIFIED {
			t.Errorf("%v is %v", cause, got)
		}
	}
	if got := ToGivenUp(99); got != 0 {
		t.Errorf("what is not known is %v", got)
	}
}

func TestLosses(t *testing.T) {
	for r := lockagent.LossReason(1); r.String() != "unknown"; r++ {
		lost := &lockagent.LostError{Name: "door", Token: 7, Reason: r, Operator: "root"}
		if got := ToLost(FromLost(lost)); *got != *lost {
			t.Errorf("%v comes back as %v", lost, got)
		}
	}
	for number := range lockagentv1.LossReason_name {
		lost := ToLost(&lockagentv1.Lost{Reason: lockagentv1.LossReason(number)})
		if number != 0 && int32(FromLost(lost).GetReason()) != number {
			t.Errorf("%v stands for %v", lockagentv1.LossReason(number), lost.Reason)
		}
	}
}

// sentinels returns the names of the errors that a folder declares: its variables that begin with Err.
func sentinels(t *testing.T, folder string) (names []string) {
	files, err := filepath.Glob(filepath.Join(folder, "*.go"))
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range files {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		source, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		file, err := parser.ParseFile(token.NewFileSet(), name, source, 0)
		if err != nil {
			t.Fatal(err)
		}
		for _, d := range file.Decls {
			d, ok := d.(*ast.GenDecl)
			if !ok || d.Tok != token.VAR {
				continue
			}
			for _, s := range d.Specs {
				for _, name := range s.(*ast.ValueSpec).Names {
					if strings.HasPrefix(name.Name, "Err") {
						names = append(names, name.Name)
					}
				}
			}
		}
	}
	return names
}

// Every error of the lock manager and of the daemon has a reason, and every reason an error.
func TestReasonsAreComplete(t *testing.T) {
	source, err := os.ReadFile("failure.go")
	if err != nil {
		t.Fatal(err)
	}
	for folder, of := range map[string]string{"../../..": "lockagent", "../refusal": "refusal"} {
		names := sentinels(t, folder)
		if len(names) < 4 {
			t.Fatalf("%s declares %q", folder, names)
		}
		for _, name := range names {
			if n := strings.Count(string(source), "{"+of+"."+name+", "); n != 1 {
				t.Errorf("the table has %s.%s %d times", of, name, n)
			}
		}
	}
	times := make(map[lockagentv1.Reason]int)
	for _, r := range reasons {
		times[r.reason]++
		if r.code == 0 {
			t.Errorf("%v has no code", r.reason)
		}
	}
	for number := range lockagentv1.Reason_name {
		if r := lockagentv1.Reason(number); times[r] != 1 && number != 0 {
			t.Errorf("%v is in the table %d times", r, times[r])
		}
	}
}

// An error of each reason comes back from a call as what it was.
func TestEveryErrorComesBack(t *testing.T) {
	for _, r := range reasons {
		for _, err := range []error{r.err, fmt.Errorf("somewhere: %w", r.err)} {
			back := Refused(overTheWire(t, Refuse(err)))
			if !errors.Is(back, r.err) {
				t.Errorf("%v comes back as %v", err, back)
			}
			if code := connect.CodeOf(Refuse(err)); code != r.code {
				t.Errorf("%v has the code %v", err, code)
			}
		}
	}
}

func TestTypedErrorsComeBackWhole(t *testing.T) {
	for _, err := range []error{
		&lockagent.HeldError{Name: "door", Holder: "ann", Left: time.Second, Permits: 3},
		&lockagent.HeldError{Name: "door", Left: -1},
		&lockagent.GraceError{Name: "door", Left: 1200 * time.Millisecond},
		&lockagent.WaitError{
			Name: "door", Waited: time.Second, TimedOut: true, Err: lockagent.ErrTimeout,
			Store: &lockagent.GraceError{Name: "door", Left: time.Second},
		},
		&lockagent.WaitError{
			Name: "door", Kind: lockagent.Semaphore, Waited: time.Minute, Holder: "ann", Permits: 2, TimedOut: true,
			Err: lockagent.ErrTimeout,
		},
		&lockagent.WaitError{
			Name: "door", Waited: time.Minute, Silent: time.Second, TimedOut: true, Err: lockagent.ErrTimeout,
			Store: lockagent.ErrStoreUnavailable,
		},
		&lockagent.WaitError{Name: "door", Err: context.Canceled},
		&lockagent.KindError{Name: "door", Kind: lockagent.FairLock, Used: lockagent.PlainLock},
		&lockagent.ReplicasError{Name: "door", Acknowledged: 1, Wanted: 2, Renewal: true},
		&lockagent.LostError{Name: "door", Token: 7, Reason: lockagent.LostBroken, Operator: "root"},
		&lockagent.NameError{Name: "a}b", Reason: "braces"},
		&lockagent.OwnerError{Owner: "x", Reason: "too short"},
		&lockagent.OptionError{Option: "wait", Reason: "negative"},
		&refusal.QuotaError{What: "claims", Limit: 7},
		&refusal.QuotaError{What: refusal.Numbers, Limit: 7},
	} {
		back := Refused(overTheWire(t, Refuse(err)))
		if !reflect.DeepEqual(back, err) || back.Error() != err.Error() {
			t.Errorf("%#v comes back as %#v", err, back)
		}
	}
}

// overTheWire is the error of a call after its messages were written and read.
func overTheWire(t *testing.T, err error) error {
	t.Helper()
	refused, _ := errors.AsType[*connect.Error](err)
	copied := connect.NewError(refused.Code(), errors.New(refused.Message()))
	for _, d := range refused.Details() {
		v, err := d.Value()
		if err != nil {
			t.Fatal(err)
		}
		raw, err := proto.Marshal(v)
		if err != nil {
			t.Fatal(err)
		}
		read := new(lockagentv1.Failure)
		if err := proto.Unmarshal(raw, read); err != nil {
			t.Fatal(err)
		}
		detail, err := connect.NewErrorDetail(read)
		if err != nil {
			t.Fatal(err)
		}
		copied.AddDetail(detail)
	}
	return copied
}

func TestErrorsThatAreNotOurs(t *testing.T) {
	if f, code := FromError(errors.New("\xff")); f.GetReason() != lockagentv1.Reason_REASON_INTERNAL ||
		code != connect.CodeInternal || f.GetMessage() != "\uFFFD" {
		t.Errorf("%v, %v", f, code)
	}
	if err := ToError(
		&lockagentv1.Failure{Reason: 999, Message: "of a newer daemon"},
	); err.Error() != "of a newer daemon" {
		t.Error(err)
	}
	down := connect.NewError(connect.CodeUnavailable, errors.New("no such socket"))
	if err := Refused(down); !errors.Is(err, down) {
		t.Error(err)
	}
	if Refuse(nil) != nil || Refused(nil) != nil {
		t.Error("no error became one")
	}
}

func TestDurations(t *testing.T) {
	for _, d := range []time.Duration{0, 1, -time.Second, time.Hour} {
		if got, err := ToDuration("wait", FromDuration(d)); got != d || err != nil {
			t.Errorf("%v comes back as %v, %v", d, got, err)
		}
	}
	bad := FromDuration(time.Second)
	bad.Nanos = -5
	if _, err := ToDuration("wait", bad); !errors.Is(err, lockagent.ErrBadOption) {
		t.Error(err)
	}
}
