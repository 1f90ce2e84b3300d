package webui

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"time"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"

	"github.com/lockagent/lockagent"
	"github.com/lockagent/lockagent/internal/daemon/wire"
	lockagentv1 "github.com/lockagent/lockagent/proto/lockagent/v1"
)

// oneLock is the data of the screen of a lock.
type oneLock struct {
	lockRow
	Holders, Waiters []claimRow
	Elsewhere        *claimRow // who holds it on another host, as far as the hub tells

	// What the store says, or why it says nothing.
	Store    *lockagentv1.GetResponse
	StoreErr string
	Left     time.Duration

	History historyOf
	Watches bool // the user may watch what happens to the lock

	JSON  string
	Break breaking
	Ended uint64 // the token of a hold that the user has just ended, if it is over
}

// breaking is the form that breaks a lock.
type breaking struct {
	Off   bool // nobody can break locks on this page
	No    bool // this user has no right to
	Kind  string
	Token uint64 // of the hold that is to end, or 0 if the holder is on another host
	Whose string

	Others int // holders beside that one, who keep what they have
}

// storeTime is how long the page waits for the store.
const storeTime = 2 * time.Second

// lock loads the screen of a lock.
func (p *page) lock(r *http.Request) (content, error) {
	data, err := p.oneLock(r)
	if err != nil {
		return content{}, err
	}
	return content{Title: data.Name, Body: data.html(), Live: r.URL.RawQuery}, nil
}

// oneLock returns all that the page knows of a lock.
func (p *page) oneLock(r *http.Request) (*oneLock, error) {
	ctx, q := r.Context(), r.URL.Query()
	name, err := lockagent.ParseName(q.Get("name"))
	if err != nil {
		return nil, err
	}
	found, err := p.find(ctx, name)
	if err != nil {
		return nil, err
	}
	kind, err := kindOf(found, q.Get("kind"))
	if err != nil {
		return nil, err
	}
	data := &oneLock{
		lockRow: p.lockRow(found), Holders: p.claimRows(found.GetHolders()), Waiters: p.claimRows(found.GetWaiters()),
	}
	raw := proto.Message(found)
	asked, cancel := context.WithTimeout(ctx, storeTime)
	got, err := p.Look.Get(asked, &lockagentv1.GetRequest{Name: string(name), Kind: kind})
	cancel()
	switch {
	case connect.CodeOf(err) == connect.CodePermissionDenied:
		return nil, err
	case err != nil:
		data.StoreErr = problemOf(err).Text
	default:
		data.Store, data.Left, raw = got, got.GetRemaining().AsDuration(), got
		if data.State == stateFree && got.GetHeld() {
			data.State = stateElsewhere
		}
	}
	if data.Watches = p.Access.Sees(ctx, name, true); data.Watches {
		if data.Holder == nil && data.Store.GetHeld() {
			data.Elsewhere = p.elsewhere(name, data.Store.GetHolder())
		}
		data.History = p.past.get(string(name), func() historyOf { return p.readHistory(name) })
	}
	if data.JSON, err = indented(raw); err != nil {
		return nil, err
	}
	data.Break = p.breaking(ctx, data, kind)
	if ended, err := strconv.ParseUint(q.Get("ended"), 10, 64); err == nil &&
		!slices.ContainsFunc(data.Holders, func(c claimRow) bool { return c.Token == ended }) {
		data.Ended = ended
	}
	return data, nil
}

// find returns a lock as the daemon knows it. It is free if no client uses it.
func (p *page) find(ctx context.Context, name lockagent.Name) (*lockagentv1.Lock, error) {
	found, err := p.Look.List(ctx, &lockagentv1.ListRequest{Name: string(name)})
	if err != nil {
		return nil, err
	}
	if locks := found.GetLocks(); len(locks) > 0 {
		return locks[0], nil
	}
	return &lockagentv1.Lock{Name: string(name)}, nil
}

// kindOf is the kind of a lock: as the daemon knows it, or else as it was asked for, or else plain.
func kindOf(l *lockagentv1.Lock, text string) (lockagentv1.Kind, error) {
	if l.GetKind() != lockagentv1.Kind_KIND_UNSPECIFIED || text == "" {
		return l.GetKind(), nil
	}
	if kind := lockagent.LockKind(text); slices.Contains(lockagent.LockKinds(), kind) {
		return wire.FromKind(kind), nil
	}
	return 0, &Problem{
		http.StatusBadRequest, "There is no such kind of lock",
		fmt.Sprintf("The kinds are %v, and not %.64q.", lockagent.LockKinds(), text),
	}
}

// breaking says whether the user can break the lock, and which hold that ends.
func (p *page) breaking(ctx context.Context, data *oneLock, kind lockagentv1.Kind) breaking {
	b := breaking{
		Off: !p.AllowBreak(), No: !p.Access.Operates(ctx, lockagent.Name(data.Name)), Kind: string(wire.ToKind(kind)),
	}
	if h := data.Holder; h != nil {
		b.Token, b.Whose, b.Others = h.Token, h.Headline()+" ("+h.By()+")", data.Others()
	} else if data.Store.GetHeld() {
		b.Whose = data.Store.GetHolder()
	}
	return b
}

// indented is a message as the API of the daemon has it in JSON. The library changes its blanks from one run to the
// next.
func indented(m proto.Message) (string, error) {
	text, err := protojson.Marshal(m)
	if err != nil {
		return "", err
	}
	var b bytes.Buffer
	err = json.Indent(&b, text, "", "  ")
	return b.String(), err
}

// lockJSON answers with a lock as the API has it.
func (p *page) lockJSON(w http.ResponseWriter, r *http.Request) {
	if _, err := p.Access.Enter(r.Context()); err != nil {
		p.fail(w, r, err)
		return
	}
	of, err := p.oneLock(r)
	if err != nil {
		p.fail(w, r, err)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	_, _ = fmt.Fprintln(w, of.JSON) // a client that has gone needs nothing
}

// breaks breaks a lock. The user has typed its name.
func (p *page) breaks(w http.ResponseWriter, r *http.Request) {
	if err := p.tryBreak(r); err != nil {
		p.fail(w, r, err)
		return
	}
	to := "/lock?" +
		query("name", r.PostForm.Get("name"), "kind", r.PostForm.Get("kind"), "ended", r.PostForm.Get("token"))
	http.Redirect(w, r, to, http.StatusSeeOther)
}

func (p *page) tryBreak(r *http.Request) error {
	if _, err := p.Access.Enter(r.Context()); err != nil {
		return err
	}
	if !p.AllowBreak() {
		return &Problem{
			http.StatusForbidden, "Locks cannot be broken here",
			"The daemon does not allow it on this page: see web.allow_break in its configuration. Use lockagent break.",
		}
	}
	if err := r.ParseForm(); err != nil {
		if _, large := errors.AsType[*http.MaxBytesError](err); large {
			return &Problem{
				http.StatusRequestEntityTooLarge, "This is too long", fmt.Sprintf("The form may have %d bytes.", maxForm),
			}
		}
		return &Problem{http.StatusBadRequest, "The form cannot be read", err.Error()}
	}
	form := r.PostForm
	name, err := lockagent.ParseName(form.Get("name"))
	if err != nil {
		return err
	}
	if form.Get("confirm") != string(name) {
		return &Problem{http.StatusBadRequest, "The lock was not broken", fmt.Sprintf("To break it, type its name: %s", name)}
	}
	token, err := strconv.ParseUint(form.Get("token"), 10, 64)
	if err != nil {
		return &Problem{
			http.StatusBadRequest, "The lock was not broken", "The form has no token. Open the page of the lock again.",
		}
	}
	kind, err := kindOf(&lockagentv1.Lock{}, form.Get("kind"))
	if err != nil {
		return err
	}
	done, err := p.Break.Break(r.Context(), &lockagentv1.BreakRequest{
		Name: string(name), Kind: kind, Token: token, Reason: form.Get("reason"),
	})
	if err != nil {
		return err
	}
	if !done.GetBroken() {
		return &Problem{http.StatusConflict, "Nobody held the lock", fmt.Sprintf("%s was free already.", name)}
	}
	return nil
}
