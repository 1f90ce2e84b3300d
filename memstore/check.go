package memstore

import (
	"fmt"
	"math"

	"github.com/lockagent/lockagent"
)

func checkName(name lockagent.Name) error {
	_, err := lockagent.ParseName(string(name))
	return err
}

func checkTenure(name lockagent.Name, tenure lockagent.Tenure) error {
	if err := checkName(name); err != nil {
		return err
	}
	switch {
	case tenure.Agent == "":
		return &lockagent.OptionError{Option: "tenure", Reason: "it has no agent; make one with NewAgentID"}
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
	case req.Floor >= lockagent.MaxToken:
		return &lockagent.OptionError{Option: "floor", Reason: fmt.Sprintf("there is no token above %d; the greatest is %d", req.Floor, lockagent.MaxToken)}
	}
	return nil
}
