package fold_test

import (
	"fmt"
	"log"
	"time"

	"github.com/lockagent/lockagent"
	"github.com/lockagent/lockagent/events"
	"github.com/lockagent/lockagent/events/fold"
)

// A program that ends keeps a snapshot, such as in a file. The next one goes on from there, and reads only the rest of
// the log.
func ExampleResume() {
	began := time.Date(2026, 11, 21, 14, 3, 0, 0, time.UTC)
	record := func(position uint64, kind lockagent.EventKind) events.Record {
		return events.Record{Epoch: 1, Seq: position, Position: position, Event: lockagent.Event{
			Kind: kind, Agent: "a", Time: began, Lock: "orders/42", Owner: "joe", Request: 1, Tenure: 1, Token: 100,
		}}
	}

	folded := fold.New()
	folded.Apply(record(1, lockagent.EventGranted))
	snapshot, err := folded.Snapshot()
	if err != nil {
		log.Fatal(err)
	}

	folded, err = fold.Resume(snapshot)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Printf("read on from position %d, see natslog.FromPosition\n", folded.Position())
	for l := range folded.Locks() {
		fmt.Println(l.Lock, "is held by", l.Now()[0].Owner)
	}
	for _, change := range folded.Apply(record(2, lockagent.EventReleased)) {
		fmt.Println(change.Lock.Lock, change.Kind)
	}
	// Output:
	// read on from position 1, see natslog.FromPosition
	// orders/42 is held by joe
	// orders/42 ended
}
