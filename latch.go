package lockagent

import "fmt"

// LatchOp is what a [LatchRequest] asks for.
type LatchOp uint8

// The operations. Each says what Changed means in its reply.
const (
	// LatchRead reads the count.
	LatchRead LatchOp = iota
	// LatchSet sets the count, if there is no latch of the name. Changed: there was none.
	LatchSet
	// LatchDown takes one from the count. The latch is gone when the count is 0, and its
	// waiters are woken. Changed: there was a latch.
	LatchDown
	// LatchDelete deletes the latch, and wakes its waiters. Changed: there was a latch.
	LatchDelete
)

var latchOps = [...]string{LatchRead: "read", LatchSet: "set", LatchDown: "down", LatchDelete: "delete"}

// String is the operation as one lower-case word.
func (o LatchOp) String() string {
	if int(o) >= len(latchOps) {
		return "unknown"
	}
	return latchOps[o]
}

// LatchRequest reads or changes the count of a [Latch].
type LatchRequest struct {
	Name  Name
	Op    LatchOp
	Count int64 // only for LatchSet: between 1 and MaxLatch
	// Change identifies a change: 1 to 64 ASCII letters, digits, '-' or '_'. The same change made
	// again within a minute has no further effect, and is answered with Changed. It is not for
	// LatchRead.
	Change string
}

// MaxLatch is the greatest count of a latch.
const MaxLatch = 1<<53 - 1

// Check is like [AcquireRequest.Check].
func (r LatchRequest) Check() error {
	if _, err := ParseName(string(r.Name)); err != nil {
		return err
	}
	switch {
	case int(r.Op) >= len(latchOps):
		return &OptionError{Option: "operation", Reason: fmt.Sprintf("%d is none", r.Op)}
	case r.Op == LatchSet && (r.Count < 1 || r.Count > MaxLatch):
		return &OptionError{Option: "count", Reason: fmt.Sprintf("%d is not between 1 and %d", r.Count, int64(MaxLatch))}
	case r.Op != LatchRead && (r.Change == "" || len(r.Change) > 64 || !plain(r.Change)):
		return &OptionError{
			Option: "change", Reason: fmt.Sprintf("%.64q is not 1 to 64 ASCII letters, digits, '-' or '_'", r.Change),
		}
	}
	return nil
}

// LatchReply answers a [LatchRequest].
type LatchReply struct {
	// Count is what is left to count down, after the change. It is 0 if there is no latch of the name.
	Count int64
	// Changed says whether the change was made, by this call or an earlier one. The comments of the
	// operations say when it is not.
	Changed bool
	// At is when the store decided.
	At StoreTime
}
