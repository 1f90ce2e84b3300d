// Command transfer moves money between accounts, each of which has a lock.
//
// A transfer takes both locks, always in the order of their names, so that two transfers in
// opposite directions do not wait for each other. Under them it calls functions that take
// the lock of one account, because others call them as well. That works because all of this
// goes through one session: who holds a lock here is a session, and never a goroutine.
package main

import (
	"context"
	"errors"
	"log"

	"github.com/lockagent/lockagent/channelapi"
	"github.com/lockagent/lockagent/memstore"
)

func main() {
	store := memstore.New() // for one process; redisstore.Open for many
	defer store.Close()
	locks, err := channelapi.New(channelapi.Config{Store: store})
	if err != nil {
		log.Fatal(err)
	}
	defer locks.Close()
	b := &bank{locks: locks, balances: map[string]*int{"alice": new(int), "bob": new(int)}}
	ctx := context.Background()
	log.Print(errors.Join(b.open(ctx, "alice", 100), b.transfer(ctx, "alice", "bob", 40)))
	log.Print(*b.balances["alice"], " and ", *b.balances["bob"])
}

type bank struct {
	locks    *channelapi.Locks
	balances map[string]*int // each guarded by the lock of its account
}

var errNotEnough = errors.New("there is not enough on the account")

// transfer moves an amount from one account to another.
func (b *bank) transfer(ctx context.Context, from, to string, amount int) error {
	return b.session(ctx, func(s *channelapi.Session) error {
		return channelapi.DoAll(ctx, func(ctx context.Context, _ []channelapi.Grant) error {
			if err := b.add(ctx, s, from, -amount); err != nil {
				return err
			}
			return b.add(ctx, s, to, amount)
		}, account(s, from), account(s, to))
	})
}

// open pays in the first amount.
func (b *bank) open(ctx context.Context, name string, amount int) error {
	return b.session(ctx, func(s *channelapi.Session) error { return b.add(ctx, s, name, amount) })
}

// add adds to one account, whether the session has its lock already or not.
func (b *bank) add(ctx context.Context, s *channelapi.Session, name string, amount int) error {
	return account(s, name).Do(ctx, func(context.Context, channelapi.Grant) error {
		balance := b.balances[name]
		if *balance+amount < 0 {
			return errNotEnough
		}
		*balance += amount
		return nil
	})
}

func account(s *channelapi.Session, name string) *channelapi.SessionLock {
	return s.Lock("accounts/" + name)
}

// session does something in a session of its own.
func (b *bank) session(ctx context.Context, do func(*channelapi.Session) error) error {
	s, err := b.locks.Session("")
	if err != nil {
		return err
	}
	return errors.Join(do(s), s.Close(context.WithoutCancel(ctx)))
}
