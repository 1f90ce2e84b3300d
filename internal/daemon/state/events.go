//go:build linux

package state

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"
)

// Seen is what the event log had when somebody last looked. With it the next daemon finds out whether something has
// gone.
type Seen struct {
	Stream string `json:"stream"` // names the stream, and none that was made anew
	Last   uint64 `json:"last"`   // the position of its last message
}

// Seen returns what the event log had, or nothing if nobody has looked.
func (d *Dir) Seen() (s Seen, err error) {
	name := filepath.Join(d.path, seenName)
	text, err := os.ReadFile(name)
	if errors.Is(err, fs.ErrNotExist) {
		return Seen{}, nil
	}
	if err == nil {
		err = json.Unmarshal(text, &s)
	}
	if err != nil {
		return Seen{}, &Error{
			d.path,
			fmt.Errorf("%s: %w; remove it: it only tells whether the event log has lost something", name, hint(d.path, err)),
		}
	}
	return s, nil
}

// Saw remembers what the event log has.
func (d *Dir) Saw(s Seen) error {
	if err := replace(filepath.Join(d.path, seenName), s); err != nil {
		return &Error{d.path, hint(d.path, err)}
	}
	return nil
}

// SetEventsAside moves the event log away, so that a new one can begin. It returns where the old one is.
func (d *Dir) SetEventsAside(now time.Time) (string, error) {
	aside := d.Events() + ".damaged-" + now.UTC().Format("20060102T150405Z")
	if err := os.Rename(d.Events(), aside); err != nil {
		return "", &Error{d.path, hint(d.path, err)}
	}
	return aside, nil
}
