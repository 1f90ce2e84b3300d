package journal

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"os"

	"github.com/lockagent/lockagent/actor"
)

// NewerError says that a newer version wrote the journal.
type NewerError struct {
	Path   string
	Format uint32
}

func (e *NewerError) Error() string {
	return fmt.Sprintf("journal: %s has format %d, this version knows %d; start the newer version, or move the file away: "+
		"then its locks are gone, and free when their leases have run out", e.Path, e.Format, format)
}

// DamagedError says that the journal cannot be trusted.
type DamagedError struct {
	Path   string
	Offset int64
	Err    error
}

func (e *DamagedError) Error() string {
	return fmt.Sprintf("journal: %s is damaged at byte %d: %v; restore the file, or move it away: "+
		"then its locks are gone, and free when their leases have run out, and their clients have to ask again", e.Path, e.Offset, e.Err)
}

func (e *DamagedError) Unwrap() error { return e.Err }

var (
	errMagic    = errors.New("it does not begin as a journal does")
	errNoHeader = errors.New("it has no header")
	errChecksum = errors.New("the checksum is wrong")
)

// Recovered is what a daemon has left.
type Recovered struct {
	// Agent is what [actor.Resume] needs, or nil if there is nothing to go on with.
	Agent *actor.AgentSnapshot
	// Records are those of the daemon, by their ids.
	Records map[string][]byte
	// SameBoot says that the machine was not booted since. Otherwise no hold goes on.
	SameBoot bool
	// Dropped is how many bytes at the end of the file do not count: a record that was cut off, or, after another boot,
	// what was damaged.
	Dropped int64
}

// state is what a file says.
type state struct {
	fold    actor.JournalFold
	records map[string][]byte
	stamp   actor.Stamp // of the header
	dropped int64
}

// read reads a file. It returns nil if there is none.
func read(path string) (*state, error) {
	b, err := os.ReadFile(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, nil
	case err != nil:
		return nil, fmt.Errorf("journal: %w", err)
	}
	return parse(path, b)
}

func parse(path string, b []byte) (*state, error) {
	damaged := func(rest []byte, err error) error {
		return &DamagedError{Path: path, Offset: int64(len(b) - len(rest)), Err: err}
	}
	if len(b) < preludeLen || string(b[:len(magic)]) != magic {
		return nil, damaged(b, errMagic)
	}
	switch f := binary.LittleEndian.Uint32(b[len(magic):]); {
	case f > format:
		return nil, &NewerError{Path: path, Format: f}
	case f == 0:
		return nil, damaged(b, errMagic)
	}
	s := &state{records: make(map[string][]byte)}
	rest := b[preludeLen:]
	for first := true; len(rest) > 0 || first; first = false {
		payload, next, whole, good := nextFrame(rest)
		if !whole && !first {
			s.dropped = int64(len(rest))
			break
		}
		var err error
		switch {
		case !whole:
			err = errNoHeader
		case !good:
			err = errChecksum
		default:
			err = s.apply(payload, first)
		}
		if err != nil && (first || s.stamp.ThisBoot()) {
			return nil, damaged(rest, err)
		} else if err != nil { // a power cut
			s.dropped = int64(len(rest))
			break
		}
		rest = next
	}
	return s, nil
}

// apply takes a record into account.
func (s *state) apply(payload []byte, first bool) error {
	r, err := (&decoder{b: payload}).record()
	switch {
	case err != nil:
		return err
	case first != (r.kind == headerRecord):
		return errNoHeader
	}
	switch r.kind {
	case headerRecord:
		s.stamp = r.header.stamp
		s.fold.Begin(actor.AgentSnapshot{Agent: r.header.agent, First: r.header.first, Last: r.header.last, Taken: r.header.stamp})
	case entryRecord:
		s.fold.Write(&r.entry)
	case putRecord:
		s.records[r.id] = r.data
	case dropRecord:
		delete(s.records, r.id)
	}
	return nil
}
