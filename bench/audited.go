package main

import (
	"context"
	"fmt"
	"runtime"
	"strconv"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/lockagent/lockagent"
	"github.com/lockagent/lockagent/bench/contender"
	"github.com/lockagent/lockagent/events"
	"github.com/lockagent/lockagent/events/audit"
	"github.com/lockagent/lockagent/events/natslog"
	"github.com/lockagent/lockagent/internal/natsserver"
)

// The log has holds of auditedAgents agents, which have auditedLocks locks in turn. A
// message has auditedBatch holds of one lock.
const (
	auditedAgents = 4
	auditedLocks  = 1000
	auditedBatch  = 64

	// auditedAlone is how many events of ten are alone in their messages, because their locks are used now and then.
	auditedAlone = 2

	// aliveEach is how often an agent says that it is alive, by the clock of the store.
	aliveEach = lockagent.StoreTime(10 * time.Second / time.Microsecond)
)

// audited measures how fast a log is audited, and what processor time and memory that takes.
func (b *bench) audited(ctx context.Context) error {
	t := &table{
		Name:  "audit",
		Title: fmt.Sprintf("Audit of %s events", number(float64(b.plan.Audited))),
		Columns: []column{
			{Key: "audit", Title: "events/s"},
			{Key: "processor", Title: "processor s"},
			{Key: "heap", Title: "heap after, MB"},
			{Key: "disk", Title: "log, MB"},
		},
		Notes: []string{fmt.Sprintf("The log is in an embedded NATS server with a JetStream in files: %d agents have %s "+
			"locks in turn. %d events of ten are alone in their messages. The others are %d holds in a message, as a "+
			"table. The processor time is that of the server, too. The heap is what is in use in the end, with the audit "+
			"and without. Then one record in the middle of the log is deleted: the audit names exactly that one, or the "+
			"benchmark fails.", auditedAgents, number(auditedLocks), auditedAlone, auditedBatch)},
	}
	b.results.Tables = append(b.results.Tables, t)
	server, err := natsserver.Start(natsserver.Config{Temporary: true})
	if err != nil {
		return err
	}
	defer func() { _ = server.Stop() }() // its directory is temporary
	nc, err := nats.Connect("", nats.InProcessServer(server))
	if err != nil {
		return err
	}
	defer nc.Close()
	js, err := jetstream.New(nc, jetstream.WithPublishAsyncMaxPending(256))
	if err != nil {
		return err
	}
	log, err := fillLog(ctx, js, b.plan.Audited)
	if err != nil {
		return err
	}
	info, err := log.stream.Info(ctx)
	if err != nil {
		return err
	}
	found := newSeries()
	found.add("disk", float64(info.State.Bytes)/1e6)
	collect()
	spent := cpuSeconds()
	report, judged, heap, err := judge(ctx, server)
	if err != nil {
		return err
	}
	spent = cpuSeconds() - spent
	if report.Verdict != audit.Proven || report.Events != log.events {
		return fmt.Errorf("the audit of %d events is wrong:\n%v", log.events, report)
	}
	slower := 1 + b.slowdown
	found.add("audit", float64(log.events)/(slower*judged.Seconds()))
	found.add("processor", slower*spent)
	found.add("heap", heap)
	t.Rows = []*row{found.row(contender.Lockagent)}
	if err := log.stream.DeleteMsg(ctx, log.position); err != nil {
		return err
	}
	report, _, _, err = judge(ctx, server)
	if err != nil {
		return err
	}
	if report.Verdict != audit.Incomplete || report.Events != log.events-1 || report.RecordHoles.Count != 1 ||
		report.RecordHoles.First[0] != log.middle {
		return fmt.Errorf("the audit does not name the record %+v, which is missing:\n%v", log.middle, report)
	}
	return nil
}

// filledLog is the log that is read.
type filledLog struct {
	stream jetstream.Stream
	events int

	middle   audit.RecordHole // what is missing without the record in the middle
	position uint64           // of that record, which is a message of its own
}

// fillLog makes a log of about n events.
func fillLog(ctx context.Context, js jetstream.JetStream, n int) (*filledLog, error) {
	stream, err := js.CreateStream(ctx, jetstream.StreamConfig{
		Name: natslog.DefaultStream, Subjects: []string{events.AllSubjects}, Storage: jetstream.FileStorage,
		Compression: jetstream.S2Compression, AllowDirect: true,
		Duplicates: time.Second, // a million remembered ids would make each collection of garbage long
	})
	if err != nil {
		return nil, err
	}
	w := &logWriter{js: js, now: lockagent.StoreTime(time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC).UnixMicro())}
	for a := range auditedAgents {
		w.agents[a] = lockagent.NewAgentID()
		if err := w.send(a, lockagent.Event{Kind: lockagent.EventAgentStarted}); err != nil {
			return nil, err
		}
	}
	log := &filledLog{stream: stream}
	for k := 0; w.written < n; k++ {
		agent, lock, holds := k%auditedAgents, k%auditedLocks, auditedBatch
		middle := log.position == 0 && w.written >= n/2
		if middle || 10*w.alone < auditedAlone*w.written {
			holds = 1
			w.alone++
		}
		if err := w.holds(agent, lock, holds); err != nil {
			return nil, err
		}
		if middle {
			log.position = w.messages
			log.middle = audit.RecordHole{
				Agent: w.agents[agent], Epoch: 1, Range: events.Range{First: w.seqs[agent], Last: w.seqs[agent]},
			}
		}
		if err := w.alive(); err != nil {
			return nil, err
		}
	}
	for a := range auditedAgents {
		if err := w.send(a, lockagent.Event{Kind: lockagent.EventAgentStopped}); err != nil {
			return nil, err
		}
	}
	log.events = w.written
	select {
	case <-js.PublishAsyncComplete():
		return log, ctx.Err()
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// logWriter writes the log of several agents.
type logWriter struct {
	js      jetstream.JetStream
	agents  [auditedAgents]lockagent.AgentID
	seqs    [auditedAgents]uint64
	tenure  uint64
	now     lockagent.StoreTime
	told    lockagent.StoreTime // when the agents said that they are alive
	written int
	alone   int // of those in messages of their own
	// messages is how many there are, and the position of the last one in the stream.
	messages uint64
	records  []events.Record
}

// alive has each agent say that it is alive, if it is time for that.
func (w *logWriter) alive() error {
	if w.now < w.told+aliveEach {
		return nil
	}
	w.told = w.now
	for a := range auditedAgents {
		if err := w.send(a, lockagent.Event{Kind: lockagent.EventAlive, StoreTime: w.now}); err != nil {
			return err
		}
	}
	return nil
}

// holds writes a tenure of one lock: so many holds, each 50 us long.
func (w *logWriter) holds(agent, lock, n int) error {
	const each = 50
	w.tenure++
	begin := w.now
	held := make([]lockagent.Event, n)
	for i := range held {
		held[i] = lockagent.Event{
			Kind: lockagent.EventHeld, Lock: lockagent.Name("orders/" + strconv.Itoa(lock)), Mode: lockagent.Exclusive,
			Owner: lockagent.Owner("worker/" + strconv.Itoa(i)), Request: uint64(w.written + i + 1), Tenure: w.tenure,
			Token: lockagent.Token(begin) + lockagent.Token(i), How: lockagent.ByHandOff, Waited: 3 * time.Millisecond,
			Held: 40 * time.Microsecond, Lease: 30 * time.Second,
			StoreTime: begin, Confirmed: begin, Until: begin + lockagent.StoreTime(i*each) + 45, Incarnation: "1.a",
		}
	}
	held[0].How = lockagent.ByStore
	w.now += lockagent.StoreTime(n * each)
	held[n-1].Returned = w.now
	w.now++
	return w.send(agent, held...)
}

// send writes a message.
func (w *logWriter) send(agent int, all ...lockagent.Event) error {
	id := fmt.Sprintf("%s:1:%d", w.agents[agent], w.seqs[agent]+1)
	w.records = w.records[:0]
	for _, e := range all {
		w.seqs[agent]++
		w.written++
		e.Agent, e.Store, e.LockKind, e.Time = w.agents[agent], "3f0c", lockagent.PlainLock, time.UnixMicro(int64(w.now))
		if e.Lock == "" {
			e.LockKind = ""
		}
		w.records = append(w.records, events.Record{Event: e, Epoch: 1, Seq: w.seqs[agent]})
	}
	m := nats.NewMsg(string(events.AppendSubject(nil, events.DefaultPrefix, w.agents[agent], all[0].Kind, all[0].Lock)))
	if len(all) == 1 {
		m.Data = events.Append(nil, w.records[0])
		m.Header.Set("Content-Type", events.ContentType)
	} else {
		m.Data = events.AppendBatch(nil, w.records)
		m.Header.Set("Content-Type", events.BatchContentType)
		id += "-" + strconv.FormatUint(w.seqs[agent], 10)
	}
	m.Header.Set(jetstream.MsgIDHeader, id)
	w.messages++
	_, err := w.js.PublishMsgAsync(m, jetstream.WithStallWait(time.Minute))
	return err
}

// judge audits the log. It returns how long that took as well, and how many megabytes of heap there
// are more than before.
func judge(ctx context.Context, server *natsserver.Server) (audit.Report, time.Duration, float64, error) {
	begin := time.Now()
	reader, err := natslog.OpenReader(natslog.ReaderConfig{Connection: natslog.Connection{InProcess: server}})
	if err != nil {
		return audit.Report{}, 0, 0, err
	}
	defer reader.Close()
	auditor := audit.New()
	if err := reader.Replay(ctx, natslog.From{}, events.Filter{}, auditor.Visit); err != nil {
		return audit.Report{}, 0, 0, err
	}
	report := auditor.Report()
	took := time.Since(begin)
	with := heap()
	runtime.KeepAlive(auditor) // from here on it is garbage
	return report, took, (with - heap()) / 1e6, nil
}
