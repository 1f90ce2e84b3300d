package lockagent_test

import (
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lockagent/lockagent"
	"github.com/lockagent/lockagent/channelapi"
	"github.com/lockagent/lockagent/events"
	"github.com/lockagent/lockagent/memstore"
)

// chronicleLog is the log of several agents, in the order in which they recorded it.
type chronicleLog struct {
	mu      sync.Mutex
	records []events.Record              // guarded by mu
	numbers map[lockagent.AgentID]uint64 // guarded by mu
}

func (l *chronicleLog) Record(_ context.Context, e lockagent.Event) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.numbers[e.Agent]++
	l.records = append(l.records, events.Record{
		Event: e, Epoch: 1, Seq: l.numbers[e.Agent], Position: uint64(len(l.records)) + 1, Stored: time.Now(),
	})
}

// tenMinutes is what four agents do with three locks in ten minutes: they wait and give up, enter
// again, hand off, keep locks for longer than a lease, and let fixed leases run out.
func tenMinutes(t *testing.T) []events.Record {
	log := &chronicleLog{numbers: make(map[lockagent.AgentID]uint64)}
	synctest.Test(t, func(t *testing.T) {
		memory := memstore.New()
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Minute)
		defer cancel()
		var agents []*channelapi.Locks
		var work sync.WaitGroup
		for n := range 4 {
			locks, err := channelapi.New(channelapi.Config{Store: memory.Share(), Recorder: log})
			if err != nil {
				t.Fatal(err)
			}
			agents = append(agents, locks)
			for worker := range 3 {
				session, err := locks.Session(fmt.Sprintf("worker-%d-%d", n, worker))
				if err != nil {
					t.Fatal(err)
				}
				r := rand.New(rand.NewPCG(uint64(n), uint64(worker)))
				work.Go(func() { labour(ctx, r, session) })
			}
			work.Go(func() { log.signs(ctx, locks.ID()) })
		}
		work.Wait()
		for _, locks := range agents {
			if err := locks.Close(); err != nil {
				t.Error(err)
			}
		}
	})
	return log.records
}

// signs are the signs of life that a publisher gives.
func (l *chronicleLog) signs(ctx context.Context, id lockagent.AgentID) {
	tick := time.NewTicker(10 * time.Second)
	defer tick.Stop()
	for {
		select {
		case now := <-tick.C:
			// The clock of this store is that of the machine.
			l.Record(ctx, lockagent.Event{Kind: lockagent.EventAlive, Agent: id, Time: now, StoreTime: lockagent.StoreTime(now.UnixMicro()) - 1000, Store: l.store()})
		case <-ctx.Done():
			return
		}
	}
}

func (l *chronicleLog) store() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, r := range l.records {
		if r.Store != "" {
			return r.Store
		}
	}
	return ""
}

func labour(ctx context.Context, r *rand.Rand, session *channelapi.Session) {
	for ctx.Err() == nil {
		options := []channelapi.Option{channelapi.Wait(time.Duration(1+r.IntN(20)) * time.Second)}
		fixed := r.IntN(5) == 0
		if fixed {
			options = append(options, channelapi.Lease(2*time.Second))
		}
		lock := session.Lock([]string{"orders/42", "stock", "mail"}[r.IntN(3)], options...)
		grant, err := lock.Acquire(ctx)
		if err != nil {
			time.Sleep(time.Duration(r.IntN(2000)) * time.Millisecond)
			continue
		}
		again, err := lock.Acquire(ctx)
		time.Sleep(time.Duration([]int{0, 1, 1, 5, 50, 50, 50, 300, 800, 3000}[r.IntN(10)]) * time.Millisecond)
		if r.IntN(50) == 0 {
			time.Sleep(45 * time.Second)
		}
		if err == nil {
			_ = again.Release(ctx) // a fixed lease may have run out
		}
		_ = grant.Release(ctx)
		time.Sleep(time.Duration(r.IntN(3000)) * time.Millisecond)
	}
}

func auditOfRecords(records []events.Record) events.Report {
	audit := events.NewAudit()
	for _, r := range records {
		audit.Add(r)
	}
	return audit.Report()
}

// Ten minutes of a mixed life are proven. Each record matters: if one is missing, or there is a second
// one of its number, the audit finds that.
func TestTenMinutesAreProven(t *testing.T) {
	records := tenMinutes(t)
	report := auditOfRecords(records)
	if report.Verdict != events.Proven || report.Grants < 500 || report.HandOffs == 0 || report.Losses["expired"] == 0 || report.Agents != 4 || report.Locks != 3 {
		t.Fatalf("%v", report)
	}
	t.Logf("%v", report)
	kinds := make(map[lockagent.EventKind]int)
	for i, r := range records {
		if kinds[r.Kind]++; kinds[r.Kind] > 3 {
			continue // enough of this kind
		}
		missing := slices.Delete(slices.Clone(records), i, i+1)
		if report := auditOfRecords(missing); report.Verdict != events.Incomplete && (r.Kind != lockagent.EventAgentStopped || report.Tails.Count != 1) {
			t.Errorf("without record %d of agent %s, %s:\n%v", r.Seq, r.Agent, r.Kind, report)
		}
		second := r
		second.Waited++
		if report := auditOfRecords(slices.Insert(slices.Clone(records), i+1, second)); report.Verdict != events.Violated || report.Violations.First[0].Kind != events.Equivocation {
			t.Errorf("with a second record %d of agent %s, %s:\n%v", r.Seq, r.Agent, r.Kind, report)
		}
		if report := auditOfRecords(slices.Insert(slices.Clone(records), i+1, r)); report.Verdict != events.Proven || report.Duplicates != 1 {
			t.Errorf("with record %d of agent %s twice, %s:\n%v", r.Seq, r.Agent, r.Kind, report)
		}
	}
	if len(kinds) < 8 {
		t.Errorf("there are only records of the kinds %v", slices.Sorted(maps.Keys(kinds)))
	}
}

// A hold that began a second earlier, while another had the lock, is found.
func TestEarlierGrantIsFound(t *testing.T) {
	records := tenMinutes(t)
	before := make(map[lockagent.Name]*events.Record) // the last end
	tried := 0
	for i := range records {
		r := &records[i]
		end := before[r.Lock]
		if r.Kind == lockagent.EventGranted && r.How == lockagent.ByStore && end != nil && end.Agent != r.Agent && end.Held > 2*time.Second && tried < 20 {
			tried++
			changed := slices.Clone(records)
			changed[i].StoreTime = end.Until - 1_000_000
			report := auditOfRecords(changed)
			if report.Verdict != events.Violated || !slices.ContainsFunc(report.Violations.First, func(v events.Violation) bool {
				return v.Kind == events.Overlap && v.First.Token == end.Token && v.Second.Token == r.Token
			}) {
				t.Errorf("%+v after %+v:\n%v", r, end, report)
			}
		}
		if r.Kind.EndsHold() && r.Count == 0 {
			before[r.Lock] = r
		}
	}
	if tried < 10 {
		t.Errorf("there were only %d such grants", tried)
	}
}
