package lockagent

import (
	"fmt"
)

// ParseAgentID checks s and returns it as an [AgentID]. It returns an
// [*OptionError] unless s has between 1 and 64 bytes, all of them ASCII letters,
// digits, '-' or '_': stores write it into keys, between separators.
func ParseAgentID(s string) (AgentID, error) {
	if s == "" || len(s) > 64 || !plain(s) {
		return "", &OptionError{
			Option: "agent",
			Reason: fmt.Sprintf("%.64q is not 1 to 64 ASCII letters, digits, '-' or '_'; make one with NewAgentID", s),
		}
	}
	return AgentID(s), nil
}

// plain reports whether s has only ASCII letters, digits, '-' and '_'.
func plain(s string) bool {
	for i := range len(s) {
		switch c := s[i]; {
		case 'a' <= c && c <= 'z', 'A' <= c && c <= 'Z', '0' <= c && c <= '9', c == '-', c == '_':
		default:
			return false
		}
	}
	return true
}

// Check returns an [*OptionError] unless the tenure has an agent and a number in
// its bounds.
func (t Tenure) Check() error {
	if _, err := ParseAgentID(string(t.Agent)); err != nil {
		return err
	}
	if t.Number < 1 || t.Number > MaxTenure {
		return &OptionError{
			Option: "tenure",
			Reason: fmt.Sprintf(
				"number %d is not between 1 and %d; count the agent's tenures of the lock from 1", t.Number, uint64(MaxTenure),
			),
		}
	}
	return nil
}

// Check returns a [*NameError] or an [*OptionError] if the request is out of its
// bounds.
func (r AcquireRequest) Check() error {
	if err := checkCall(r.Name, r.Tenure); err != nil {
		return err
	}
	if err := CheckLease(r.Lease); err != nil {
		return err
	}
	if err := CheckPermits(r.Kind, r.Permits); err != nil {
		return err
	}
	if err := CheckMode(r.Mode, r.Kind); err != nil {
		return err
	}
	if r.Floor >= MaxToken {
		return &OptionError{
			Option: "floor", Reason: fmt.Sprintf("there is no token above %d; the greatest is %d", r.Floor, MaxToken),
		}
	}
	return nil
}

// Check is like [AcquireRequest.Check].
func (r RenewRequest) Check() error {
	if err := checkCall(r.Name, r.Tenure); err != nil {
		return err
	}
	if err := CheckMode(r.Mode, r.Kind); err != nil {
		return err
	}
	return CheckLease(r.Lease)
}

// CheckMode returns an [*OptionError] if locks of the kind have no holds of the mode.
func CheckMode(mode Mode, kind LockKind) error {
	switch {
	case mode == "", mode == Exclusive, mode == Shared && kind == ReadWriteLock:
		return nil
	}
	return &OptionError{
		Option: "mode",
		Reason: fmt.Sprintf(
			"a %s lock has no holds of the mode %.64q; shared holds are those of a read/write lock", kind.OrPlain(), mode,
		),
	}
}

// Check is like [AcquireRequest.Check].
func (r ReleaseRequest) Check() error {
	if err := checkCall(r.Name, r.Tenure); err != nil {
		return err
	}
	if r.Last > MaxToken {
		return &OptionError{Option: "last", Reason: fmt.Sprintf("%d is no token; the greatest is %d", r.Last, MaxToken)}
	}
	if r.Trace != "" && !isTrace(r.Trace) {
		return &OptionError{
			Option: "trace",
			Reason: fmt.Sprintf(
				"%.64q is no W3C trace context; leave it out, or write 00-<32 hex digits>-<16 hex digits>-<2 hex digits>", r.Trace,
			),
		}
	}
	return nil
}

// isTrace reports whether s has the form of a W3C traceparent of version 00.
func isTrace(s string) bool {
	const form = "00-xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx-xxxxxxxxxxxxxxxx-xx"
	if len(s) != len(form) {
		return false
	}
	for i := range len(form) {
		hex := '0' <= s[i] && s[i] <= '9' || 'a' <= s[i] && s[i] <= 'f'
		if form[i] != s[i] && (form[i] != 'x' || !hex) {
			return false
		}
	}
	return true
}

// Check is like [AcquireRequest.Check].
func (r BreakRequest) Check() error {
	if _, err := ParseName(string(r.Name)); err != nil {
		return err
	}
	return CheckOperator(r.Operator)
}

// CheckOperator returns an [*OptionError] if the text is longer than [MaxNameLen].
func CheckOperator(operator string) error {
	if len(operator) > MaxNameLen {
		return &OptionError{
			Option: "operator", Reason: fmt.Sprintf("it has %d bytes, the limit is %d; shorten it", len(operator), MaxNameLen),
		}
	}
	return nil
}

func checkCall(name Name, tenure Tenure) error {
	if _, err := ParseName(string(name)); err != nil {
		return err
	}
	return tenure.Check()
}
