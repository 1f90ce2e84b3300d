// Package seal keeps a snapshot as JSON that shows whether it is whole, and of which version it is.
package seal

import (
	"crypto/sha256"
	"encoding/json"
	"fmt"
)

// sealed is a snapshot with what shows that it is whole.
type sealed struct {
	Version  int             `json:"version"`
	Sum      string          `json:"sha256"` // of what follows
	Snapshot json.RawMessage `json:"snapshot"`
}

// Seal is a snapshot of a version, as JSON.
func Seal(version int, snapshot any) ([]byte, error) {
	text, err := json.Marshal(snapshot)
	if err != nil {
		return nil, err
	}
	return json.Marshal(sealed{version, sumOf(text), text})
}

// Open is the inverse of [Seal]. What is wrong with the text is an error as bad.
func Open(text []byte, version int, bad error, snapshot any) error {
	var s sealed
	if err := json.Unmarshal(text, &s); err != nil {
		return fmt.Errorf("%w: %w", bad, err)
	}
	switch {
	case s.Version != version:
		return fmt.Errorf("%w: it has version %d, and this is version %d", bad, s.Version, version)
	case s.Sum != sumOf(s.Snapshot):
		return fmt.Errorf("%w: it was changed", bad)
	}
	if err := json.Unmarshal(s.Snapshot, snapshot); err != nil {
		return fmt.Errorf("%w: %w", bad, err)
	}
	return nil
}

func sumOf(text []byte) string { return fmt.Sprintf("%x", sha256.Sum256(text)) }
