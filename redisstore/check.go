package redisstore

import (
	"fmt"
	"math"
	"strings"

	"github.com/lockagent/lockagent"
)

func checkName(name lockagent.Name) error {
	if _, err := lockagent.ParseName(string(name)); err != nil {
		return err
	}
	if strings.HasPrefix(string(name), reserved) {
		return &lockagent.NameError{Name: string(name), Reason: fmt.Sprintf("names that begin with %q are those of the store's own keys; choose another", reserved)}
	}
	return nil
}

func checkTenure(name lockagent.Name, tenure lockagent.Tenure) error {
	if err := checkName(name); err != nil {
		return err
	}
	switch {
	case tenure.Agent == "" || strings.ContainsAny(string(tenure.Agent), ":{}"):
		return &lockagent.OptionError{Option: "tenure", Reason: fmt.Sprintf("agent %.64q is not a UUID; make one with NewAgentID", tenure.Agent)}
	case tenure.Number < 1 || tenure.Number > math.MaxInt64:
		return &lockagent.OptionError{Option: "tenure", Reason: fmt.Sprintf("number %d is not between 1 and %d; count the agent's tenures of the lock from 1", tenure.Number, math.MaxInt64)}
	}
	return nil
}

func checkRenew(req lockagent.RenewRequest) error {
	if err := checkTenure(req.Name, req.Tenure); err != nil {
		return err
	}
	return lockagent.CheckLease(req.Lease)
}

func checkAcquire(req lockagent.AcquireRequest) error {
	if err := checkTenure(req.Name, req.Tenure); err != nil {
		return err
	}
	if err := lockagent.CheckLease(req.Lease); err != nil {
		return err
	}
	switch {
	case req.Tokens < 1:
		return &lockagent.OptionError{Option: "tokens", Reason: fmt.Sprintf("%d is less than 1; ask for one token for each hold", req.Tokens)}
	case req.Floor >= lockagent.MaxToken || lockagent.Token(req.Tokens) > lockagent.MaxToken-req.Floor:
		return &lockagent.OptionError{Option: "floor", Reason: fmt.Sprintf("there are no %d tokens above %d; the greatest is %d", req.Tokens, req.Floor, lockagent.MaxToken)}
	}
	return nil
}
