// Package refusal has the errors by which a daemon refuses its clients, beside those of package lockagent. Clients get
// back the same errors.
package refusal

import (
	"errors"
	"fmt"
)

var (
	// ErrNoClaim answers whoever names a claim that is over or never was, or does not know its secret.
	ErrNoClaim = errors.New("lockagent: no such claim: it has ended, or the secret is another")
	// ErrDraining answers requests while the daemon drains.
	ErrDraining = errors.New(
		"lockagent: the daemon drains: it takes no new claims until it has started anew, or an operator takes that back",
	)
	// ErrJournal answers requests while the daemon cannot write its journal.
	ErrJournal = errors.New(
		"lockagent: the daemon takes no new claims, because it cannot write its journal; see its log, and whether its disk " +
			"is full",
	)
	// ErrForbidden answers what the rules of the daemon do not allow.
	ErrForbidden = errors.New("lockagent: not allowed by the rules of the daemon")
	// ErrQuota matches every [*QuotaError].
	ErrQuota = errors.New("lockagent: quota exceeded")
)

// What a [QuotaError] speaks of that is about all users of the daemon together.
const (
	Numbers            = "semaphores and latches"
	Connections        = "connections of all users"
	PageConnections    = "connections of all users to the live page"
	MetricsConnections = "connections of all users to the metrics"
	Pages              = "live pages of all users"
	Processes          = "processes with which claims end"
	Files              = "open files"
)

// QuotaError says that a user has as many of something as the user may have.
type QuotaError struct {
	What  string // such as "claims"
	Limit int
}

func (e *QuotaError) Error() string {
	switch e.What {
	case Connections, Processes, Files:
		return fmt.Sprintf(
			"lockagent: the daemon has %d %s, and its descriptors allow no more; end some, or have it start with more "+
				"descriptors",
			e.Limit, e.What,
		)
	case PageConnections, MetricsConnections, Pages:
		return fmt.Sprintf("lockagent: the daemon has %d %s, and takes no more", e.Limit, e.What)
	case Numbers:
		return fmt.Sprintf(
			"lockagent: the daemon has %d %s in its memory, and may not have more; delete some, or have limits.numbers raised",
			e.Limit, e.What,
		)
	}
	return fmt.Sprintf(
		"lockagent: the user has %d %s, and may not have more; end some, or have the quota raised", e.Limit, e.What,
	)
}

// Is reports whether target is [ErrQuota].
func (e *QuotaError) Is(target error) bool { return target == ErrQuota }
