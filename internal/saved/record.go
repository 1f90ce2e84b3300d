package saved

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/lockagent/lockagent"
	"github.com/lockagent/lockagent/internal/lockstate"
)

// Change is a record that takes the place of the one with its key, or, if Data is nil, the end of that record.
type Change struct {
	Key  string
	Data []byte
}

// The keys, see the package documentation.
const (
	agentKey  = "agent/stay"
	lockKey   = "lock/"
	floor     = "/floor"
	tenures   = "/tenure/"
	requests  = "/request/"
	inKeys    = 36 // the base of numbers in keys
	agentLeft = "the journal has records of locks, and none of their agent"
)

// IsAgents reports whether a key is one of an agent.
func IsAgents(key string) bool { return key == agentKey || strings.HasPrefix(key, lockKey) }

// FloorKey is the key of the floor of a lock.
func FloorKey(name lockagent.Name) string { return lockKey + string(name) + floor }

// TenureKey is the key of a tenure.
func TenureKey(name lockagent.Name, number uint64) string { return numbered(name, tenures, number) }

// RequestKey is the key of a request.
func RequestKey(name lockagent.Name, id lockstate.RequestID) string {
	return numbered(name, requests, uint64(id))
}

func numbered(name lockagent.Name, what string, number uint64) string {
	var room [13]byte // for the greatest number
	return lockKey + string(name) + what + string(strconv.AppendUint(room[:0], number, inKeys))
}

// splitKey is the inverse of FloorKey, TenureKey and RequestKey.
func splitKey(key string) (name lockagent.Name, what string, number uint64, ok bool) {
	rest := key[len(lockKey):]
	if name, is := strings.CutSuffix(rest, floor); is {
		return lockagent.Name(name), floor, 0, true
	}
	last := strings.LastIndexByte(rest, '/') + 1
	number, err := strconv.ParseUint(rest[last:], inKeys, 64)
	for _, what := range []string{tenures, requests} {
		if name, is := strings.CutSuffix(rest[:last], what); is {
			return lockagent.Name(name), what, number, err == nil
		}
	}
	return "", "", 0, false
}

// Record is the record of the agent.
func (a *Stay) Record() Change {
	var e encoder
	encodeText(&e, a.ID)
	e.uint(a.First)
	e.uint(a.Last)
	e.int(a.Taken.Wall.Unix())
	e.int(int64(a.Taken.Wall.Nanosecond()))
	encodeText(&e, a.Taken.Boot)
	e.int(int64(a.Taken.Up))
	e.int(int64(a.Taken.At))
	return Change{agentKey, e.b}
}

func (d *decoder) agent(a *Stay) {
	a.ID, a.First, a.Last = decodeText[lockagent.AgentID](d), d.uint(), d.uint()
	sec, nsec := d.int(), d.int()
	if nsec < 0 || nsec >= int64(time.Second) {
		d.fail()
	}
	a.Taken = Stamp{
		Wall: time.Unix(sec, nsec), Boot: decodeText[string](d), Up: time.Duration(d.int()),
		At: lockstate.Instant(d.int()),
	}
}

// FloorRecord is the record of the floor of a lock.
func FloorRecord(name lockagent.Name, kind lockagent.LockKind, token lockagent.Token) Change {
	var e encoder
	e.kind(kind)
	e.int(int64(token))
	return Change{FloorKey(name), e.b}
}

// TenureRecord is the record of a tenure.
func TenureRecord(name lockagent.Name, kind lockagent.LockKind, t *lockstate.SavedTenure) Change {
	e := encoder{make([]byte, 0, 112)} // most have room in it
	e.kind(kind)
	e.uint(t.Part)
	e.flags(t.Asks, t.Queued, t.Mode == lockstate.Shared, t.Unanswered, t.Outsiders, t.Contested, t.Wanted)
	e.int(int64(t.Open))
	e.instants(t.Until)
	if t.Asks {
		e.int(int64(t.Arrived))
	} else {
		e.instants(t.Began, t.Sent, t.Replied, t.Deadline)
		e.int(int64(t.Lease))
		e.int(int64(t.StoreTime))
		encodeText(&e, t.Incarnation)
		e.int(int64(t.Replicas))
		e.int(int64(t.First))
		e.int(int64(t.Last))
		e.int(int64(t.Holds))
	}
	return Change{TenureKey(name, t.Number), e.b}
}

func (d *decoder) tenure(t *lockstate.SavedTenure) {
	shared := false
	t.Part = d.uint()
	d.flags(&t.Asks, &t.Queued, &shared, &t.Unanswered, &t.Outsiders, &t.Contested, &t.Wanted)
	if shared {
		t.Mode = lockstate.Shared
	}
	t.Open = time.Duration(d.int())
	d.instants(&t.Until)
	if t.Asks {
		if len(d.b) > 0 { // the first journals lack it
			t.Arrived = lockagent.StoreTime(d.int())
		}
		return
	}
	d.instants(&t.Began, &t.Sent, &t.Replied, &t.Deadline)
	t.Lease, t.StoreTime = time.Duration(d.int()), lockagent.StoreTime(d.int())
	t.Incarnation = decodeText[string](d)
	t.Replicas, t.First, t.Last = int(d.int()), lockagent.Token(d.int()), lockagent.Token(d.int())
	t.Holds = int(d.int())
}

// RequestRecord is the record of a request. It leaves out ClaimBy, because the grant has to be claimed anew, and Holds.
func RequestRecord(name lockagent.Name, kind lockagent.LockKind, r *Request) Change {
	e := encoder{make([]byte, 0, 112)} // most have room in it
	e.kind(kind)
	e.uint(r.Part)
	encodeText(&e, r.Owner)
	encodeText(&e, r.Tag)
	e.flags(r.Mode == lockstate.Shared, r.Try, r.Session, r.Outlive, r.NoRest)
	e.int(int64(r.Permits))
	e.int(int64(r.Lease))
	e.instants(r.Arrived, r.Until)
	e.uint(r.Tenure)
	if r.Tenure != 0 {
		e.int(int64(r.Token))
		e.instants(r.Since, r.Fixed, r.Own)
		e.int(int64(r.Confirmed))
		e.int(int64(r.Total))
	}
	return Change{RequestKey(name, r.ID), e.b}
}

func (d *decoder) request(r *Request) {
	shared := false
	r.Part, r.Owner, r.Tag = d.uint(), decodeText[lockagent.Owner](d), decodeText[string](d)
	d.flags(&shared, &r.Try, &r.Session, &r.Outlive, &r.NoRest)
	if shared {
		r.Mode = lockstate.Shared
	}
	r.Permits, r.Lease = int(d.int()), time.Duration(d.int())
	d.instants(&r.Arrived, &r.Until)
	if r.Tenure = d.uint(); r.Tenure != 0 {
		r.Token = lockagent.Token(d.int())
		d.instants(&r.Since, &r.Fixed, &r.Own)
		r.Confirmed = lockagent.StoreTime(d.int())
		if len(d.b) > 0 { // the first journals lack it
			r.Total = int(d.int())
		}
	}
}

// Changes are the records of the lock.
func (l *Lock) Changes() (all []Change) {
	if l.Floor != 0 {
		all = append(all, FloorRecord(l.Name, l.Kind, l.Floor))
	}
	for i := range l.Tenures {
		all = append(all, TenureRecord(l.Name, l.Kind, &l.Tenures[i]))
	}
	for i := range l.Requests {
		all = append(all, RequestRecord(l.Name, l.Kind, &l.Requests[i]))
	}
	return all
}

// Changes are all records of the agent.
func (a *Agent) Changes() []Change {
	all := []Change{a.Record()}
	for i := range a.Locks {
		all = append(all, a.Locks[i].Changes()...)
	}
	return all
}

// Read returns the agent whose records are in a journal, or nil if there is none. It passes over records of others. The
// error is about a record that no agent of this version has written.
func Read(records map[string][]byte) (*Agent, error) {
	var a Agent
	locks := make(map[lockagent.Name]*Lock)
	for key, data := range records {
		if !IsAgents(key) {
			continue
		}
		d := decoder{b: data}
		if key == agentKey {
			d.agent(&a.Stay)
		} else {
			d.lock(key, locks)
		}
		if len(d.b) > 0 {
			d.fail()
		}
		if d.err != nil {
			return nil, fmt.Errorf("the record %.300q cannot be read: %w", key, d.err)
		}
	}
	switch _, has := records[agentKey]; {
	case !has && len(locks) > 0:
		return nil, errors.New(agentLeft)
	case !has:
		return nil, nil
	}
	a.Locks = make([]Lock, 0, len(locks))
	for _, l := range locks {
		slices.SortFunc(l.Tenures, func(x, y lockstate.SavedTenure) int { return cmp.Compare(x.Number, y.Number) })
		slices.SortFunc(l.Requests, func(x, y Request) int { return x.Compare(y.SavedRequest) })
		a.Locks = append(a.Locks, *l)
	}
	slices.SortFunc(a.Locks, byName)
	return &a, nil
}

// lock decodes a record of a lock.
func (d *decoder) lock(key string, locks map[lockagent.Name]*Lock) {
	name, what, number, ok := splitKey(key)
	kind := d.kind()
	l := locks[name]
	if l == nil {
		l = &Lock{Name: name, Kind: kind}
		locks[name] = l
	}
	switch {
	case !ok || l.Kind != kind:
		d.fail()
	case what == floor:
		if l.Floor = lockagent.Token(d.int()); l.Floor == 0 {
			d.fail() // a lock with no more than that needs no record
		}
	case what == tenures:
		t := lockstate.SavedTenure{Number: number}
		d.tenure(&t)
		l.Tenures = append(l.Tenures, t)
	default:
		var r Request
		r.ID = lockstate.RequestID(number)
		d.request(&r)
		l.Requests = append(l.Requests, r)
	}
}
