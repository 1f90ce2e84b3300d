package journal

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"os"

	"github.com/lockagent/lockagent/internal/bootclock"
	"github.com/lockagent/lockagent/internal/saved"
)

// FormatError says that another version wrote the journal.
type FormatError struct {
	Path   string
	Format uint32
}

func (e *FormatError) Error() string {
	return fmt.Sprintf("journal: %s has format %d, this version knows %d; start the version that wrote it, or move "+
		"the file away: then its locks are gone, and free when their leases have run out", e.Path, e.Format, format)
}

// DamagedError says that the journal cannot be trusted.
type DamagedError struct {
	Path   string
	Offset int64 // 0 if the damage is not at one place
	Err    error
}

func (e *DamagedError) Error() string {
	at := ""
	if e.Offset > 0 {
		at = fmt.Sprintf(" at byte %d", e.Offset)
	}
	return fmt.Sprintf("journal: %s is damaged%s: %v; restore the file, or move it away: then its locks are gone, and "+
		"free when their leases have run out, and their clients have to ask again", e.Path, at, e.Err)
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
	Agent *saved.Agent
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
	records map[string][]byte
	boot    string // in which the file was made
	dropped int64
}

func (s *state) thisBoot() bool { return s.boot == bootclock.ID() }

// recovered tells what the records say.
func (s *state) recovered(path string) (r Recovered, err error) {
	r = Recovered{Records: make(map[string][]byte), SameBoot: s.thisBoot(), Dropped: s.dropped}
	if r.Agent, err = saved.Read(s.records); err != nil {
		return Recovered{}, &DamagedError{Path: path, Err: err}
	}
	for key, data := range s.records {
		if !saved.IsAgents(key) {
			r.Records[key] = data
		}
	}
	return r, nil
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
	if f := binary.LittleEndian.Uint32(b[len(magic):]); f != format {
		return nil, &FormatError{Path: path, Format: f}
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
		if err != nil && (first || s.thisBoot()) {
			return nil, damaged(rest, err)
		} else if err != nil { // a power cut
			s.dropped = int64(len(rest))
			break
		}
		rest = next
	}
	return s, nil
}

// apply takes a frame into account.
func (s *state) apply(payload []byte, first bool) (err error) {
	if first {
		s.boot, err = readHeader(payload)
		return err
	}
	changes, err := readChanges(payload)
	for i := range changes {
		if c := &changes[i]; c.Data == nil {
			delete(s.records, c.Key)
		} else {
			s.records[c.Key] = c.Data
		}
	}
	return err
}
