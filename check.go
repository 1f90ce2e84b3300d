package lockagent

import (
	"fmt"
	"math"
)

// ParseAgentID checks s and returns it as an [AgentID]. It returns an
// [*OptionError] unless s has between 1 and 64 bytes, all of them ASCII letters,
// digits, '-' or '_': stores write it into keys, between separators.
func ParseAgentID(s string) (AgentID, error) {
	fine := len(s) >= 1 && len(s) <= 64
	for i := 0; fine && i < len(s); i++ {
		c := s[i]
		fine = 'a' <= c && c <= 'z' || '0' <= c && c <= '9' || 'A' <= c && c <= 'Z' || c == '-' || c == '_'
	}
	if !fine {
		return "", &OptionError{Option: "agent", Reason: fmt.Sprintf("%.64q is not 1 to 64 ASCII letters, digits, '-' or '_'; make one with NewAgentID", s)}
	}
	return AgentID(s), nil
}

// Check returns an [*OptionError] unless the tenure has an agent and a number in
// its bounds.
func (t Tenure) Check() error {
	if _, err := ParseAgentID(string(t.Agent)); err != nil {
		return err
	}
	if t.Number < 1 || t.Number > math.MaxInt64 {
		return &OptionError{Option: "tenure", Reason: fmt.Sprintf("number %d is not between 1 and %d; count the agent's tenures of the lock from 1", t.Number, math.MaxInt64)}
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
	switch {
	case r.Tokens < 1:
		return &OptionError{Option: "tokens", Reason: fmt.Sprintf("%d is less than 1; ask for one token for each hold", r.Tokens)}
	case r.Floor >= MaxToken || Token(r.Tokens) > MaxToken-r.Floor:
		return &OptionError{Option: "floor", Reason: fmt.Sprintf("there are no %d tokens above %d; the greatest is %d", r.Tokens, r.Floor, MaxToken)}
	}
	return nil
}

// Check is like [AcquireRequest.Check].
func (r RenewRequest) Check() error {
	if err := checkCall(r.Name, r.Tenure); err != nil {
		return err
	}
	return CheckLease(r.Lease)
}

// Check is like [AcquireRequest.Check].
func (r ReleaseRequest) Check() error { return checkCall(r.Name, r.Tenure) }

func checkCall(name Name, tenure Tenure) error {
	if _, err := ParseName(string(name)); err != nil {
		return err
	}
	return tenure.Check()
}
