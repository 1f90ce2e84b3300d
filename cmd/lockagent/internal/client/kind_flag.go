//go:build linux

package client

import (
	"errors"

	"github.com/spf13/cobra"

	"github.com/lockagent/lockagent"
	"github.com/lockagent/lockagent/internal/daemon/wire"
	lockagentv1 "github.com/lockagent/lockagent/proto/lockagent/v1"
)

// KindFlag is --kind of a verb that is about any kind of lock.
type KindFlag lockagent.LockKind

// Add adds the flag to cmd.
func (k *KindFlag) Add(cmd *cobra.Command) {
	cmd.Flags().Var(k, "kind", "`kind` of the lock: readwrite, plain, fair, and so on; by default as it is in use")
}

func (k *KindFlag) String() string { return string(*k) }

// Type implements the value of a flag.
func (k *KindFlag) Type() string { return "kind of lock such as fair" }

// Set implements the value of a flag.
func (k *KindFlag) Set(text string) error {
	*k = KindFlag(text)
	if wire.FromKind(lockagent.LockKind(text)) == lockagentv1.Kind_KIND_UNSPECIFIED {
		return errors.New("no such kind")
	}
	return nil
}
