//go:build unix

// Command filestore has processes of one host take turns, by a lock in a directory. It shows how to write a store of
// your own.
//
// Start it in two terminals. The store is in store.go, in about 350 lines of code: the six methods of
// [lockagent.Store], and no layer. What that means for programs:
//
//   - Who waits is woken some hundredths of a second after a release, and whoever asks first is next.
//   - Nobody can break a lock, or look who has it. There are plain locks only.
//   - A lock whose process has crashed is free when its lease is over.
//   - The clock of the host measures the leases. If somebody sets it forward, leases end early, and the holders are
//     told.
//   - Each name that was ever used leaves a small file. Empty the directory when no program uses it.
//
// Its test has package storetest prove the chapters that are for every store.
package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"log"
	"os"
	"os/signal"
	"path/filepath"
	"time"

	"github.com/lockagent/lockagent/channelapi"
)

func main() {
	dir := flag.String("dir", filepath.Join(os.TempDir(), "lockagent-filestore"), "the directory with the locks")
	turns := flag.Int("turns", 10, "how often to take a turn")
	hold := flag.Duration("hold", time.Second, "how long a turn takes")
	flag.Parse()
	ctx, cancel := signal.NotifyContext(context.Background(), os.Interrupt)
	defer cancel()
	if err := run(ctx, *dir, *turns, *hold, os.Stdout); err != nil {
		log.Fatal(err)
	}
}

// pause is the time between two turns of a process. Whoever waits looks again within that time, and comes first.
const pause = 200 * time.Millisecond

// run takes some turns.
func run(ctx context.Context, dir string, turns int, hold time.Duration, out io.Writer) error {
	store, err := Open(dir)
	if err != nil {
		return err
	}
	defer store.Close()
	locks, err := channelapi.New(channelapi.Config{Store: store, Lease: 5 * time.Second})
	if err != nil {
		return err
	}
	defer locks.Close()
	door := locks.Lock("door")
	for range turns {
		err := door.Do(ctx, func(ctx context.Context, g channelapi.Grant) error {
			fmt.Fprintf(out, "process %d enters, with token %d\n", os.Getpid(), g.Token())
			select {
			case <-time.After(hold):
			case <-ctx.Done():
				return context.Cause(ctx)
			}
			fmt.Fprintf(out, "process %d leaves\n", os.Getpid())
			return nil
		})
		if err != nil {
			return err
		}
		time.Sleep(pause)
	}
	return nil
}
