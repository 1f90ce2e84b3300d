package natslog

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/lockagent/lockagent"
	"github.com/lockagent/lockagent/events"
)

// tailBackoff is how long Tail waits before it tries to read on.
const tailBackoff = 500 * time.Millisecond

// ReaderConfig says what a [Reader] reads. One of URL and InProcess must be set.
type ReaderConfig struct {
	Connection

	// Stream is the name of the stream. Defaults to [DefaultStream].
	Stream string

	// Prefix begins the subjects of the events. Only those are read. It is one or more parts with
	// a dot between them, of letters, digits, '_' and '-'. Defaults to [events.DefaultPrefix].
	Prefix string
}

// check returns everything that is wrong with cfg, and sets its defaults.
func (cfg *ReaderConfig) check() error {
	if cfg.Stream == "" {
		cfg.Stream = DefaultStream
	}
	if cfg.Prefix == "" {
		cfg.Prefix = events.DefaultPrefix
	}
	return errors.Join(cfg.Connection.check(), checkStream(cfg.Stream), events.CheckPrefix(cfg.Prefix))
}

// Reader reads the events of all agents from a stream. It must be made by
// [OpenReader] and closed. All methods are safe for concurrent use.
type Reader struct {
	cfg  ReaderConfig
	nc   *nats.Conn
	js   jetstream.JetStream
	gone chan signal // closed when the connection is closed

	reads  *permission // to read the stream, or a second stream that was found
	copies *permission // to ask whether there is a second stream
}

// OpenReader connects to NATS, which must be there; the stream need not.
//
// It returns a [*lockagent.OptionError] or [ErrBadURL] for a wrong cfg,
// [ErrNotPermitted] if NATS refuses us, and otherwise why there is no connection.
func OpenReader(cfg ReaderConfig) (*Reader, error) {
	if err := cfg.check(); err != nil {
		return nil, err
	}
	r := &Reader{cfg: cfg, gone: make(chan signal), reads: newPermission(), copies: newPermission()}
	var err error
	r.nc, err = Connect(cfg.Connection, nats.Name("lockagent reader"),
		nats.ErrorHandler(cfg.errorHandler(r.refused)),
		nats.ClosedHandler(func(*nats.Conn) { close(r.gone) }))
	if err != nil {
		return nil, err
	}
	if r.js, err = cfg.JetStream(r.nc); err != nil {
		r.Close()
		return nil, fmt.Errorf("events: %w", err)
	}
	return r, nil
}

// Close lets go of the connection. A Replay or Tail that goes on returns
// [lockagent.ErrClosed].
func (r *Reader) Close() {
	r.nc.Close()
	<-r.gone
}

// refused ends what is under way if a permission is missing, with an error that tells it. The server
// does not answer a request that it does not permit: it only tells us so.
func (r *Reader) refused(err error) (told bool) {
	missing, ok := errors.AsType[*PermissionError](err)
	switch {
	case !ok, strings.Contains(missing.Subject, ".CONSUMER.DELETE."): // nothing needs it
		return false
	case strings.HasSuffix(missing.Subject, ".STREAM.INFO."+urgentName(r.cfg.Stream)):
		r.copies.isMissing(missing)
	default:
		r.reads.isMissing(missing)
	}
	return true
}

// causeOf is the error of a read whose context has ended. That context also ends when a permission is missing, and then
// the caller's has not.
func causeOf(ctx context.Context) error {
	if missing, ok := errors.AsType[*PermissionError](context.Cause(ctx)); ok {
		return missing
	}
	return lockagent.CauseOf(ctx)
}

// Replay calls visit for the selected records from from until the end that the
// stream had when Replay was called. With [events.Filter].Urgent it begins with the records of
// consequence that the stream itself has forgotten, if there are copies of them. Nobody knows any more when the stream
// took these, so their Stored is zero. [FromTime] begins with what was copied since then. That may be earlier.
//
// It returns
//
//   - nil at that end;
//   - what visit returned, see [events.Visit] for how to go on after that;
//   - the cause of ctx;
//   - [ErrNoStream] or a [*PermissionError];
//   - or why the stream cannot be read on.
//
// In the last case every record up to the last Position was visited. Another Replay can go on
// behind it. A server that hangs may hold up the return for some seconds after the end of ctx.
func (r *Reader) Replay(ctx context.Context, from From, filter events.Filter, visit events.Visit) error {
	if err := filter.Validate(); err != nil {
		return err
	}
	ctx, done := r.reads.while(ctx)
	defer done()
	stream, err := r.stream(ctx)
	if err != nil {
		return err
	}
	stream, _, err = r.readForgotten(ctx, stream, from, 0, filter, visit)
	if err != nil {
		return err
	}
	state := stream.CachedInfo().State
	if state.Msgs == 0 || from.policy == jetstream.DeliverNewPolicy {
		return nil
	}
	_, err = r.read(ctx, stream, from, filter, state.LastSeq, visit)
	return err
}

// Tail calls visit for the selected records from from on, and goes on with those
// that arrive. It survives the absence of the server, and of a stream that was
// there when it began, and goes on where it was. If the stream turns out to have
// been cut in the meantime, visit is passed [ErrRewound], with a record that has
// only the Position of the cut.
//
// A Tail that is slower than what arrives misses what the stream forgets before the Tail has read it, and copies of
// that, too. A Replay reads the copies.
//
// It returns what visit returned, the cause of ctx, [ErrNoStream], a
// [*PermissionError] or, once the reader is closed, [lockagent.ErrClosed]. A server that hangs may hold up the
// return for some seconds after the end of ctx.
func (r *Reader) Tail(ctx context.Context, from From, filter events.Filter, visit events.Visit) error {
	if err := filter.Validate(); err != nil {
		return err
	}
	ctx, done := r.reads.while(ctx)
	defer done()
	stream, err := r.stream(ctx)
	if err != nil {
		return err
	}
	at := from.before(stream) // up to where the stream was read
	var copied uint64         // up to where its copies were read
	if from.policy == jetstream.DeliverNewPolicy {
		at = stream.CachedInfo().State.LastSeq
		from = FromPosition(at + 1)
	}
	for {
		var read uint64
		stream, copied, err = r.readForgotten(ctx, stream, from, copied, filter, visit)
		if err == nil {
			read, err = r.read(ctx, stream, from, filter, 0, visit)
		}
		if !passing(err) {
			return err
		}
		r.cfg.Logger.Debug("events: reading is interrupted", "err", err)
		at = max(at, copied)
		if read > 0 {
			at = read
			from = FromPosition(at + 1)
		}
		before := stream
		if stream, err = r.await(ctx); err != nil {
			return err
		}
		if end := commonEnd(before, stream); end < at {
			if err := visit(&events.Record{Position: end}, ErrRewound); err != nil {
				return err
			}
			at, copied = end, 0
			from = FromPosition(at + 1)
		}
	}
}

// commonEnd is up to where a stream can still be what it was.
func commonEnd(before, after jetstream.Stream) uint64 {
	if !after.CachedInfo().Created.Equal(before.CachedInfo().Created) {
		return 0
	}
	return after.CachedInfo().State.LastSeq
}

// await returns when the server tells about the stream again.
func (r *Reader) await(ctx context.Context) (jetstream.Stream, error) {
	for {
		select {
		case <-time.After(tailBackoff):
		case <-ctx.Done():
			return nil, causeOf(ctx)
		}
		stream, err := r.stream(ctx)
		if !passing(err) {
			return stream, err
		}
	}
}

func (r *Reader) stream(ctx context.Context) (jetstream.Stream, error) {
	return r.named(ctx, r.cfg.Stream)
}

// named asks for a stream: for the one that is read, or for the second stream of a log.
func (r *Reader) named(ctx context.Context, name string) (jetstream.Stream, error) {
	bounded, cancel := context.WithTimeout(ctx, ackTimeout)
	defer cancel()
	stream, err := findStream(bounded, r.js, name)
	if err != nil {
		return nil, r.failed(ctx, name, err)
	}
	return stream, nil
}

// interruption is an error of the server or the connection, which may pass.
type interruption struct{ err error }

func (e *interruption) Error() string { return "events: read: " + e.err.Error() }
func (e *interruption) Unwrap() error { return e.err }

// passing reports whether err can pass by itself for a Tail. A stream that was
// there before will be made again by those who publish to it.
func passing(err error) bool {
	_, ok := errors.AsType[*interruption](err)
	return ok || errors.Is(err, ErrNoStream)
}

// failed says what an error of the client library about a stream means to our caller.
func (r *Reader) failed(ctx context.Context, stream string, err error) error {
	switch {
	case ctx.Err() != nil:
		return causeOf(ctx)
	case errors.Is(err, jetstream.ErrStreamNotFound):
		return fmt.Errorf("%w: %s", ErrNoStream, stream)
	case r.nc.IsClosed():
		return fmt.Errorf("events: read: %w", lockagent.ErrClosed)
	}
	return &interruption{err}
}
