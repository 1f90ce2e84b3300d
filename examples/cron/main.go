// Command cron runs a job once in each period, on one of five hosts.
//
// A lock that is released after the job would not do: the next host whose clock is a
// little behind would find it free, and run the job again. "Once per period" needs
//
//   - a lock for each period, named after it. Every host gets the name from its own
//     clock, rounded, because a timer may be a little early or late.
//   - a lease that nobody gives back, and that is longer than the clocks of two hosts
//     differ: [channelapi.Lease] of a period, and [channelapi.Outlive], so that it stays when
//     the host is restarted.
//   - hosts that ask once and do not wait: [channelapi.Try].
//
// A job that failed gives the lock back, and another host may try. A store that forgets the
// lock has the job run twice. If that matters, write the period down where the job writes.
package main

import (
	"context"
	"errors"
	"log"
	"time"

	"github.com/lockagent/lockagent/channelapi"
	"github.com/lockagent/lockagent/memstore"
)

const hosts, period = 5, 5 * time.Second

func main() {
	store := memstore.New() // for one process; redisstore.Open for five hosts
	defer store.Close()
	locks, err := channelapi.New(channelapi.Config{Store: store})
	if err != nil {
		log.Fatal(err)
	}
	defer locks.Close()
	ctx, cancel := context.WithTimeout(context.Background(), 3*period)
	defer cancel()
	for ctx.Err() == nil {
		time.Sleep(time.Until(time.Now().Truncate(period).Add(period)))
		for host := range hosts {
			ran, err := once(ctx, locks, "report", time.Now(), func(context.Context, channelapi.Token) error { return nil })
			log.Print("host ", host, " has run it: ", ran, ", ", err)
		}
	}
}

// once runs the job that is due now, by the clock of this host, unless some host has run it.
func once(
	ctx context.Context, locks *channelapi.Locks, name string, now time.Time,
	job func(context.Context, channelapi.Token) error,
) (ran bool, err error) {
	name += "/" + now.Round(period).UTC().Format(time.RFC3339)
	g, err := locks.Lock("cron/"+name, channelapi.Lease(period), channelapi.Outlive(), channelapi.Try()).Acquire(ctx)
	switch {
	case errors.Is(err, channelapi.ErrHeld):
		return false, nil
	case err != nil:
		return false, err
	}
	if err := job(g.Context(ctx), g.Token()); err != nil {
		return false, errors.Join(err, g.Release(context.WithoutCancel(ctx)))
	}
	return true, nil // and the lease runs out by itself
}
