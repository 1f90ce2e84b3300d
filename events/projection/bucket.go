package projection

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/lockagent/lockagent/events/natslog"
)

const (
	// answerTime is how long the server may take for an answer.
	answerTime = 5 * time.Second

	// markerTime is how long the bucket remembers that a key was removed. A watcher that is away for less learns of it.
	markerTime = time.Hour

	// writers is how many keys are written at a time.
	writers = 16
)

// errOtherWrote is returned when somebody else has written something else to the bucket.
var errOtherWrote = errors.New("events: somebody else has written to the bucket")

// ErrOtherKeys is returned for a bucket that has keys of which a projector knows nothing. It might remove them.
var ErrOtherKeys = errors.New("events: the bucket has keys that are no locks; use a bucket for this alone")

// bucket is a key-value bucket, and what is in it as far as this projector knows.
type bucket struct {
	cfg  *Config
	nc   *nats.Conn
	js   jetstream.JetStream
	kept time.Duration // for which a marker is kept, or 0 if for ever

	mu      sync.Mutex
	entries map[string]entry // guarded by mu
}

// entry is what is known of a key.
type entry struct {
	revision uint64
	value    []byte    // nil if the key was removed
	removed  time.Time // then: when
}

// open returns the bucket, which it makes if there is none, with all that it has.
func (b *bucket) open(ctx context.Context) error {
	kv, err := b.find(ctx)
	if err != nil {
		return fmt.Errorf("events: bucket %s: %w", b.cfg.Bucket, err)
	}
	if err := b.load(ctx, kv); err != nil {
		return fmt.Errorf("events: bucket %s: %w", b.cfg.Bucket, err)
	}
	return nil
}

func (b *bucket) find(ctx context.Context) (jetstream.KeyValue, error) {
	ctx, cancel := context.WithTimeout(ctx, answerTime)
	defer cancel()
	kv, err := b.js.KeyValue(ctx, b.cfg.Bucket)
	if !errors.Is(err, jetstream.ErrBucketNotFound) {
		return kv, err
	}
	cfg := jetstream.KeyValueConfig{
		Bucket: b.cfg.Bucket, Description: "who holds which lock: see lockagent events project", History: 1,
		Storage: jetstream.FileStorage, MaxBytes: b.cfg.MaxBytes, Replicas: b.cfg.Replicas, LimitMarkerTTL: markerTime,
	}
	kv, err = b.js.CreateKeyValue(ctx, cfg)
	if errors.Is(err, jetstream.ErrLimitMarkerTTLNotSupported) { // by servers before 2.11
		cfg.LimitMarkerTTL = 0
		kv, err = b.js.CreateKeyValue(ctx, cfg)
	}
	if errors.Is(err, jetstream.ErrBucketExists) { // another projector was faster
		return b.js.KeyValue(ctx, b.cfg.Bucket)
	}
	if err == nil {
		b.cfg.Log.Logger.Info(
			"events: the bucket is made", "bucket", b.cfg.Bucket, "max_bytes", b.cfg.MaxBytes, "replicas", b.cfg.Replicas,
		)
	}
	return kv, err
}

// load reads all that the bucket has.
func (b *bucket) load(ctx context.Context, kv jetstream.KeyValue) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	status, err := kv.Status(ctx)
	if err != nil {
		return err
	}
	b.kept = status.LimitMarkerTTL()
	stream, err := b.js.Stream(ctx, "KV_"+b.cfg.Bucket)
	if err != nil {
		return err
	}
	serverNow, now := stream.CachedInfo().TimeStamp, time.Now()
	all, err := kv.WatchAll(ctx)
	if err != nil {
		return err
	}
	defer func() { _ = all.Stop() }() // the connection may be gone
	entries := make(map[string]entry)
	for {
		select {
		case e := <-all.Updates():
			switch {
			case e == nil: // that is all there is
				b.mu.Lock()
				b.entries = entries
				b.mu.Unlock()
				return nil
			case e.Operation() != jetstream.KeyValuePut:
				entries[e.Key()] = entry{revision: e.Revision(), removed: now.Add(-max(serverNow.Sub(e.Created()), 0))}
			case !ours(e.Key(), e.Value()):
				return fmt.Errorf("%w: %s", ErrOtherKeys, e.Key())
			case e.Key() != StatusKey:
				entries[e.Key()] = entry{revision: e.Revision(), value: e.Value()}
			}
		case <-time.After(answerTime):
			return fmt.Errorf("the server does not go on: %w", nats.ErrTimeout)
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// held are the keys of the bucket that have a value.
func (b *bucket) held() (keys []string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for key, e := range b.entries {
		if e.value != nil {
			keys = append(keys, key)
		}
	}
	return keys
}

// forgetMarkers forgets keys that were removed so long ago that the server has forgotten them, too.
func (b *bucket) forgetMarkers(now time.Time) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for key, e := range b.entries {
		if b.expired(e, now) {
			delete(b.entries, key)
		}
	}
}

func (b *bucket) expired(e entry, now time.Time) bool {
	return e.value == nil && b.kept > 0 && now.Sub(e.removed) > b.kept+time.Second
}

// writeAll gives keys their values, where nil removes a key. It returns how many it has written.
func (b *bucket) writeAll(ctx context.Context, wanted map[string][]byte) (written int, err error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var all sync.WaitGroup
	var count atomic.Int64
	slots := make(chan struct{}, writers)
	for key, value := range wanted {
		e := b.entry(key)
		if bytes.Equal(e.value, value) {
			continue
		}
		slots <- struct{}{}
		if ctx.Err() != nil {
			break
		}
		all.Go(func() {
			defer func() { <-slots }()
			switch wrote, err := b.write(ctx, key, e, value); {
			case err != nil:
				cancel(err)
			case wrote:
				count.Add(1)
			}
		})
	}
	all.Wait()
	return int(count.Load()), context.Cause(ctx)
}

func (b *bucket) entry(key string) entry {
	b.mu.Lock()
	defer b.mu.Unlock()
	e := b.entries[key]
	if b.expired(e, time.Now()) {
		return entry{}
	}
	return e
}

// write replaces an entry. If that is not what the bucket has any more, it returns errOtherWrote, unless somebody else
// has written the same.
func (b *bucket) write(ctx context.Context, key string, before entry, value []byte) (wrote bool, err error) {
	after := entry{value: value, removed: time.Now()}
	after.revision, err = b.publish(ctx, key, value, jetstream.WithExpectLastSequencePerSubject(before.revision))
	wrote = err == nil
	if refused, ok := errors.AsType[*jetstream.APIError](err); ok &&
		refused.ErrorCode == jetstream.JSErrCodeStreamWrongLastSequence {
		if after, err = b.latest(ctx, key); err == nil && !bytes.Equal(after.value, value) {
			err = errOtherWrote
		}
	}
	if err != nil {
		return false, err
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.entries[key] = after
	return wrote, nil
}

// latest asks for what the bucket has of a key.
func (b *bucket) latest(ctx context.Context, key string) (entry, error) {
	ctx, cancel := context.WithTimeout(ctx, answerTime)
	defer cancel()
	stream, err := b.js.Stream(ctx, "KV_"+b.cfg.Bucket)
	if err != nil {
		return entry{}, err
	}
	m, err := stream.GetLastMsgForSubject(ctx, "$KV."+b.cfg.Bucket+"."+key)
	switch {
	case errors.Is(err, jetstream.ErrMsgNotFound):
		return entry{}, nil
	case err != nil:
		return entry{}, err
	case m.Header.Get(operation) != "":
		return entry{revision: m.Sequence, removed: time.Now()}, nil
	}
	return entry{revision: m.Sequence, value: m.Data}, nil
}

// operation is the header of a message of a bucket that is no value.
const operation = "KV-Operation"

// publish writes to a key, as the client library does. It tells the revision of a removal, too, which the client
// library does not.
func (b *bucket) publish(
	ctx context.Context, key string, value []byte, options ...jetstream.PublishOpt,
) (revision uint64, err error) {
	ctx, cancel := context.WithTimeout(ctx, answerTime)
	defer cancel()
	m := nats.NewMsg("$KV." + b.cfg.Bucket + "." + key)
	if domain := b.cfg.Log.Domain; domain != "" {
		m.Subject = "$JS." + domain + ".API." + m.Subject
	}
	if m.Data = value; value == nil {
		m.Header.Set(operation, "PURGE")
		m.Header.Set(jetstream.MsgRollup, jetstream.MsgRollupSubject)
		if b.kept > 0 {
			options = append(options, jetstream.WithMsgTTL(b.kept))
		}
	}
	ack, err := b.js.PublishMsg(ctx, m, options...)
	if err != nil {
		if missing := b.nc.LastError(); missing != nil && strings.Contains(missing.Error(), `"`+m.Subject+`"`) {
			err = b.explained(err)
		}
		return 0, err
	}
	return ack.Sequence, nil
}

// explained returns an error of a connection as one that says so if the user lacks a permission. The server does
// not answer such a request.
func (b *bucket) explained(err error) error {
	if missing := b.nc.LastError(); errors.Is(missing, nats.ErrPermissionViolation) &&
		errors.Is(err, context.DeadlineExceeded) {
		return fmt.Errorf("%w: %s", natslog.ErrNotPermitted, strings.TrimPrefix(missing.Error(), "nats: "))
	}
	return err
}
