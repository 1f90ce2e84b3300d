package wire

import (
	"github.com/lockagent/lockagent"
	lockagentv1 "github.com/lockagent/lockagent/proto/lockagent/v1"
)

var permitsOps = pairs[lockagent.PermitsOp, lockagentv1.PermitsOp]{
	{lockagent.ReadPermits, lockagentv1.PermitsOp_PERMITS_OP_READ},
	{lockagent.ReadPermits, lockagentv1.PermitsOp_PERMITS_OP_UNSPECIFIED},
	{lockagent.TrySetPermits, lockagentv1.PermitsOp_PERMITS_OP_TRY_SET},
	{lockagent.SetPermits, lockagentv1.PermitsOp_PERMITS_OP_SET},
	{lockagent.AddPermits, lockagentv1.PermitsOp_PERMITS_OP_ADD},
	{lockagent.DrainPermits, lockagentv1.PermitsOp_PERMITS_OP_DRAIN},
	{lockagent.ReleasePermit, lockagentv1.PermitsOp_PERMITS_OP_RELEASE},
	{lockagent.ExtendPermit, lockagentv1.PermitsOp_PERMITS_OP_EXTEND},
	{lockagent.DeletePermits, lockagentv1.PermitsOp_PERMITS_OP_DELETE},
}

// FromPermitsOp is the message for an operation.
func FromPermitsOp(o lockagent.PermitsOp) lockagentv1.PermitsOp { return permitsOps.toMessage(o) }

// ToPermitsOp is the inverse of [FromPermitsOp].
func ToPermitsOp(o lockagentv1.PermitsOp) lockagent.PermitsOp { return permitsOps.toValue(o, unknown) }

var latchOps = pairs[lockagent.LatchOp, lockagentv1.LatchOp]{
	{lockagent.LatchRead, lockagentv1.LatchOp_LATCH_OP_READ},
	{lockagent.LatchRead, lockagentv1.LatchOp_LATCH_OP_UNSPECIFIED},
	{lockagent.LatchSet, lockagentv1.LatchOp_LATCH_OP_SET},
	{lockagent.LatchDown, lockagentv1.LatchOp_LATCH_OP_DOWN},
	{lockagent.LatchDelete, lockagentv1.LatchOp_LATCH_OP_DELETE},
}

// unknownLatchOp is none. Package lockagent refuses it.
const unknownLatchOp = lockagent.LatchOp(255)

// FromLatchOp is the message for an operation.
func FromLatchOp(o lockagent.LatchOp) lockagentv1.LatchOp { return latchOps.toMessage(o) }

// ToLatchOp is the inverse of [FromLatchOp].
func ToLatchOp(o lockagentv1.LatchOp) lockagent.LatchOp { return latchOps.toValue(o, unknownLatchOp) }
