package projection

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/lockagent/lockagent/events/audit"
)

// ErrOtherLog is returned for a bucket whose snapshot is of another event log.
var ErrOtherLog = errors.New("events: the bucket has the holds of another event log")

// snapshotObject is the name of the snapshot in its object store.
const snapshotObject = "fold"

// snapshot is what a projector knows, beside what is in the bucket.
type snapshot struct {
	Version int             `json:"version"`
	Stream  string          `json:"stream"`
	Fold    json.RawMessage `json:"fold"`
}

// snapshots is the name of the object store beside a bucket.
func (b *bucket) snapshots() string { return b.cfg.Bucket + "_snapshot" }

// resume returns the fold of the snapshot, or nil if there is none.
func (b *bucket) resume(ctx context.Context) (stream string, fold *audit.Fold, err error) {
	ctx, cancel := context.WithTimeout(ctx, answerTime)
	defer cancel()
	store, err := b.js.ObjectStore(ctx, b.snapshots())
	var text []byte
	if err == nil {
		text, err = store.GetBytes(ctx, snapshotObject)
	}
	switch {
	case errors.Is(err, jetstream.ErrBucketNotFound), errors.Is(err, jetstream.ErrObjectNotFound):
		return "", nil, nil
	case err != nil:
		return "", nil, fmt.Errorf("events: read the snapshot of bucket %s: %w", b.cfg.Bucket, err)
	}
	var s snapshot
	if err := json.Unmarshal(text, &s); err != nil {
		return "", nil, fmt.Errorf("events: bucket %s: %w: %w", b.cfg.Bucket, audit.ErrSnapshot, err)
	}
	if s.Version != Version {
		return "", nil, fmt.Errorf("events: bucket %s: %w: it has version %d", b.cfg.Bucket, audit.ErrSnapshot, s.Version)
	}
	if fold, err = audit.ResumeFold(s.Fold); err != nil {
		return "", nil, fmt.Errorf("events: bucket %s: %w", b.cfg.Bucket, err)
	}
	return s.Stream, fold, nil
}

// save keeps a snapshot.
func (b *bucket) save(ctx context.Context, stream string, fold []byte) error {
	ctx, cancel := context.WithTimeout(ctx, answerTime)
	defer cancel()
	text, err := json.Marshal(snapshot{Version, stream, fold})
	if err != nil {
		return err
	}
	store, err := b.js.ObjectStore(ctx, b.snapshots())
	if errors.Is(err, jetstream.ErrBucketNotFound) {
		store, err = b.js.CreateObjectStore(ctx, jetstream.ObjectStoreConfig{
			Bucket: b.snapshots(), Description: "where lockagent events project goes on", Storage: jetstream.FileStorage,
			MaxBytes: b.cfg.MaxBytes, Replicas: b.cfg.Replicas,
		})
	}
	if err == nil {
		_, err = store.PutBytes(ctx, snapshotObject, text)
	}
	return err
}
