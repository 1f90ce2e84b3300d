package claims

import (
	"encoding/json"
	"time"

	"github.com/lockagent/lockagent/internal/bootclock"
)

// Journal keeps what the next daemon has to know. What the agent keeps of a request in the same journal is not in the
// records.
type Journal interface {
	// Put adds a record, or replaces it. A record is kept before all that the agent adds later.
	Put(id string, record []byte)
	// Drop removes a record.
	Drop(id string)
	// Flush returns when everything is kept so far, or [Journal.Err].
	Flush() error
	// Err is why not everything is kept, or nil.
	Err() error
}

// forgetful is the journal of a book that has none.
type forgetful struct{}

func (forgetful) Put(string, []byte) {}
func (forgetful) Drop(string)        {}
func (forgetful) Flush() error       { return nil }
func (forgetful) Err() error         { return nil }

// record is a claim in the journal. Fields are only added.
type record struct {
	Secret   []byte            `json:"secret"` // its fingerprint
	Chosen   bool              `json:"chosen,omitempty"`
	Client   Client            `json:"client"`
	By       *Client           `json:"by,omitempty"` // if it is not Client
	Detach   bool              `json:"detach,omitempty"`
	Detached bool              `json:"detached,omitempty"`
	TTL      time.Duration     `json:"ttl,omitempty"`
	Expires  time.Duration     `json:"expires,omitempty"` // on the boot clock; 0 if nothing but its client ends the claim
	ForPID   int               `json:"forPID,omitempty"`
	ForStart uint64            `json:"forStart,omitempty"`
	Session  string            `json:"session,omitempty"`
	Command  string            `json:"command,omitempty"`
	Labels   map[string]string `json:"labels,omitempty"`
	Holds    int               `json:"holds,omitempty"` // that the client wants to make
	Outlive  bool              `json:"outlive,omitempty"`
	Workers  []worker          `json:"workers,omitempty"`
	Kept     bool              `json:"kept,omitempty"` // its client has released it, and it is held until it expires
}

// save has the journal keep the claim. expires is as in a record. The mutex of the book must be held.
func (c *claim) save(detached bool, expires time.Duration) {
	if c.book.cfg.Journal == (forgetful{}) {
		return
	}
	r := record{
		Secret: c.secret[:], Chosen: c.chosen, Client: c.Client, Detach: c.Detach, Detached: detached, TTL: c.TTL,
		Expires: expires, ForPID: c.ForPID, ForStart: c.boundStart, Session: c.Session, Command: c.Command, Labels: c.Labels,
		Holds: c.Holds, Outlive: c.Outlive,
		Workers: c.workers, Kept: c.kept,
	}
	if c.by != c.Client {
		r.By = &c.by
	}
	data, _ := json.Marshal(&r) // nothing in it can fail
	c.book.cfg.Journal.Put(c.id, data)
}

// expires is when a detached claim ends that nobody renews. It is 0 if it has no time to live.
func expires(ttl time.Duration) time.Duration {
	if ttl == 0 {
		return 0
	}
	return bootclock.Now() + ttl
}
