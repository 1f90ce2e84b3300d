package natslog

import (
	"context"
	"errors"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/lockagent/lockagent"
)

// Forwarder copies the messages of one stream to another: in order, and each of them once. It must
// be made by [NewForwarder]. Stats may be called at any time. Run must be called once.
//
// # How it resumes
//
// A forwarder keeps no state of its own. Each copy in the hub has a header that says where the
// message stands in the source. So a forwarder asks the hub for its last message of each agent, and
// goes on behind the last of these places. It does so at its start and after anything that went
// wrong. It does not matter how long that took.
//
// # Why nothing is stored twice
//
// The hub stores a message only if its last message of the same agent is still the one that the
// forwarder knows of. It stores a batch of messages as a whole or not at all. Therefore the hub has
// the beginning of the source at any moment, in its order and without holes. Messages that a dead
// connection delivers late are refused. So are those of a second forwarder of the same stream: the
// two of them take turns.
//
// # What is lost
//
// A stream that is full discards its oldest messages, also those that were not forwarded yet. The
// hub learns that: see [Forwarder.Run].
type Forwarder struct {
	cfg   ForwardConfig
	began time.Time // the durations below count from here

	// Only Run uses these.
	limit      int                      // how many messages to send in one batch
	known      knownAgents              // of the source
	singly     bool                     // it was logged that the hub takes no batches
	warned     string                   // about which settings of the hub
	complained map[string]time.Duration // when; see complain

	mu      sync.Mutex   // guards what follows
	stats   ForwardStats // without Err
	stalled stall
	reached uint64      // up to where messages of the source were dealt with
	news    chan signal // closed when reached or stalled changes; nil while nobody waits for that
}

var errSameStream error = &lockagent.OptionError{Option: "Hub", Reason: "it is the same stream as Source"}

// NewForwarder returns a forwarder that does nothing until it is run.
//
// For a wrong cfg it returns an [*EndError] with a [*lockagent.OptionError] or [ErrBadURL].
func NewForwarder(cfg ForwardConfig) (*Forwarder, error) {
	if err := cfg.check(); err != nil {
		return nil, err
	}
	return &Forwarder{cfg: cfg, began: time.Now(), limit: 1, complained: make(map[string]time.Duration)}, nil
}

// Run forwards until ctx ends, and returns the cause of ctx. Neither end has to be there when it
// begins. What goes wrong is logged and in Stats, and tried again. Only a source and a hub that are
// the same stream make Run return earlier, with a [*lockagent.OptionError]: whatever it forwarded
// would have to be forwarded again.
//
// If messages are refused or discarded, the first copy behind them says so in its header. Nobody
// knows what they told. So an audit of the hub names them, and holds of that time are not proven.
func (f *Forwarder) Run(ctx context.Context) error {
	backoff := minBackoff
	for {
		before := f.Stats().Forwarded
		err := f.session(ctx)
		if ctx.Err() != nil {
			return lockagent.CauseOf(ctx)
		}
		if errors.Is(err, errSameStream) {
			return err
		}
		f.stall(err)
		// A batch that fails may have one message that the hub will not take, or be too much for
		// a slow line. So the next session begins with one message at a time.
		f.limit = 1
		if f.Stats().Forwarded > before {
			backoff = minBackoff
		}
		select {
		case <-time.After(backoff/2 + rand.N(backoff)): // many forwarders lose one hub at once
			backoff = min(2*backoff, maxBackoff)
		case <-ctx.Done():
		}
	}
}
