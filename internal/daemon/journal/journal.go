package journal

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/lockagent/lockagent/actor"
	"github.com/lockagent/lockagent/internal/bootclock"
	"github.com/lockagent/lockagent/internal/saved"
)

const (
	// linger is how long a change that is not due may wait for others.
	linger = 2 * time.Millisecond
	// retry is the pause after a file could not be written.
	retry = 250 * time.Millisecond
	// leastSize is the size from which on a file is replaced by a smaller one.
	leastSize = 1 << 20
	// retained is the room that the buffer keeps.
	retained = 1 << 16
)

// file is what the journal does with a file.
type file interface {
	Write([]byte) (int, error)
	Sync() error
	Close() error
}

// Journal is the journal of a daemon. Make one with [Open].
type Journal struct {
	path   string
	create func(path string) (file, error)
	least  int64          // leastSize, but for tests
	boot   string         // the present boot of the machine, but for tests
	work   sync.WaitGroup // the goroutine that makes a new file

	mu      sync.Mutex // guards what follows
	records map[string][]byte
	begun   bool // the agent has told what it goes on with
	closed  bool

	file  file   // nil before the first one was made
	size  int64  // of the file
	began int64  // the size that it had with all records, at its beginning
	buf   []byte // frames that are not written yet
	timer *time.Timer
	armed bool // the timer will write the buffer, or make a new file

	tell   func(error) // nil unless somebody wants to know of err
	making bool        // a new file is being made
	tail   []byte      // the frames that came since then
	err    error       // why the file does not have everything
}

var _ actor.Journal = (*Journal)(nil)

// Open reads the journal at path, if there is one. The file stays as it is until the new agent begins.
func Open(path string) (*Journal, Recovered, error) {
	s, err := read(path)
	if err != nil {
		return nil, Recovered{}, err
	}
	j := &Journal{
		path: path, create: create, least: leastSize, boot: bootclock.ID(), records: make(map[string][]byte),
	}
	var r Recovered
	if s != nil {
		if r, err = s.recovered(path); err != nil {
			return nil, Recovered{}, err
		}
		j.records = s.records
	}
	j.timer = time.AfterFunc(time.Hour, j.overdue)
	j.timer.Stop()
	return j, r, nil
}

// create makes a new file. Only the daemon's user reads it: with its content a program can release the locks.
func create(path string) (file, error) {
	return os.OpenFile(path, os.O_CREATE|os.O_WRONLY|os.O_TRUNC, 0o600)
}

// Begin implements [actor.Journal]. It makes a new file.
func (j *Journal) Begin(changes []saved.Change) {
	j.mu.Lock()
	defer j.mu.Unlock()
	maps.DeleteFunc(j.records, func(key string, _ []byte) bool { return saved.IsAgents(key) })
	for i := range changes {
		j.records[changes[i].Key] = changes[i].Data
	}
	j.begun = true
	if f, size, err := j.make(j.all()); err != nil {
		j.fail(err)
	} else if err = j.use(f, size); err != nil {
		j.fail(err)
	}
	_ = syncDir(filepath.Dir(j.path)) // for a power cut, after which nothing goes on anyway
}

// Write implements [actor.Journal]. The changes are one frame, which is whole in the file or not there.
func (j *Journal) Write(changes []saved.Change, due bool) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.change(changes, due)
}

// Put adds a record of the daemon, or replaces it. It is written with the next due change, or after a few
// milliseconds, or when Flush returns.
func (j *Journal) Put(id string, data []byte) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.change([]saved.Change{{Key: id, Data: append([]byte{}, data...)}}, false)
}

// Drop removes a record of the daemon. It is written as one of Put is.
func (j *Journal) Drop(id string) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.change([]saved.Change{{Key: id}}, false)
}

// Flush writes what is not written yet. It returns [Journal.Err].
func (j *Journal) Flush() error {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.flush()
	return j.err
}

// Err is why the file does not have everything, or nil. The journal goes on to try.
func (j *Journal) Err() error {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.err
}

// Tell has f called when the file ceases to have everything, with the reason, and when it has everything again, with
// nil. Call it before the agent begins.
func (j *Journal) Tell(f func(error)) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.tell = f
}

// told tells of err, in a goroutine of its own: whoever is told may need a moment.
func (j *Journal) told(err error) {
	if tell := j.tell; tell != nil {
		j.work.Go(func() { tell(err) })
	}
}

// Close writes what is not written yet, and closes the file. Later records are ignored.
func (j *Journal) Close() error {
	j.mu.Lock()
	j.flush()
	j.closed = true
	j.timer.Stop()
	f, err := j.file, j.err
	j.file = nil
	j.mu.Unlock()
	j.work.Wait()
	if f != nil {
		err = errors.Join(err, f.Close())
	}
	return err
}

// change makes changes, and adds a frame with them to the buffer. What the journal has already is no change. mu must be
// held, here and below.
func (j *Journal) change(changes []saved.Change, due bool) {
	b, start := beginFrame(j.buf)
	for i := range changes {
		c := &changes[i]
		before, has := j.records[c.Key]
		switch {
		case c.Data == nil && !has, has && c.Data != nil && bytes.Equal(before, c.Data):
			continue
		case c.Data == nil:
			delete(j.records, c.Key)
		default:
			j.records[c.Key] = c.Data
		}
		b = appendChange(b, c)
	}
	if len(b) > start+frameHeader && j.wants() {
		endFrame(b[start:])
		j.buf = b
		j.added(start, due)
	}
	if due {
		j.flush()
	}
}

// wants reports whether a frame is to be added to the buffer. Otherwise the next file will have what it says.
func (j *Journal) wants() bool { return j.begun && !j.closed && (j.err == nil || j.making) }

// added takes care of the frame that starts there in the buffer.
func (j *Journal) added(start int, due bool) {
	if j.making {
		j.tail = append(j.tail, j.buf[start:]...)
	}
	if j.err != nil { // the file does not have what was before
		j.emptied()
	} else if !due {
		j.arm(linger)
	}
}

func (j *Journal) arm(after time.Duration) {
	if !j.armed {
		j.armed = true
		j.timer.Reset(after)
	}
}

// overdue is called by the timer.
func (j *Journal) overdue() {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.armed = false
	if j.err != nil {
		j.remake()
		return
	}
	j.flush()
}

// flush writes the buffer, with one call to the system.
func (j *Journal) flush() {
	if len(j.buf) == 0 || j.err != nil || j.file == nil {
		return
	}
	n, err := j.file.Write(j.buf)
	j.size += int64(n)
	j.emptied()
	if err != nil {
		j.fail(err)
		return
	}
	if j.size > max(j.least, 2*j.began) {
		j.remake()
	}
}

// emptied forgets the buffer.
func (j *Journal) emptied() {
	if j.buf = j.buf[:0]; cap(j.buf) > retained {
		j.buf = nil
	}
}

// fail notes that the file does not have everything. The next file will.
func (j *Journal) fail(err error) {
	first := j.err == nil
	j.err = fmt.Errorf("journal: %w", err)
	if first {
		j.told(j.err)
	}
	j.emptied()
	if !j.closed {
		j.armed = true
		j.timer.Reset(retry)
	}
}

// remake makes a new file in the background.
func (j *Journal) remake() {
	if j.making || j.closed || !j.begun {
		return
	}
	j.making = true
	all := j.all()
	j.work.Go(func() {
		f, size, err := j.make(all)
		j.mu.Lock()
		defer j.mu.Unlock()
		j.making = false
		tail := j.tail
		j.tail = nil
		if err == nil {
			var n int
			n, err = f.Write(tail)
			if err == nil && !j.closed {
				old := j.file
				if err = j.use(f, size); err == nil {
					j.size += int64(n)
					if old != nil {
						_ = old.Close()
					}
					return
				}
			}
			_ = f.Close()
		}
		_ = os.Remove(j.newPath())
		switch {
		case err == nil: // the journal was closed meanwhile
		case j.err == nil && j.file != nil: // the present file has everything, and goes on
			j.began = j.size
		default:
			j.fail(err)
		}
	})
}

func (j *Journal) newPath() string { return j.path + ".new" }

// make makes a new file beside the present one. It needs no mutex.
func (j *Journal) make(all []byte) (f file, size int64, err error) {
	if f, err = j.create(j.newPath()); err != nil {
		return nil, 0, err
	}
	if _, err = f.Write(all); err == nil {
		err = f.Sync()
	}
	if err != nil {
		_ = f.Close()
		return nil, 0, err
	}
	return f, int64(len(all)), nil
}

// use has a new file take the place of the present one. It has everything.
func (j *Journal) use(f file, size int64) error {
	if err := os.Rename(j.newPath(), j.path); err != nil {
		return err
	}
	if j.err != nil {
		j.told(nil)
	}
	j.file, j.size, j.began, j.err = f, size, size, nil
	j.emptied()
	return nil
}

// all is a file with all that is known.
func (j *Journal) all() []byte {
	b := make([]byte, 0, j.began+j.began/8+retained)
	b = binary.LittleEndian.AppendUint32(append(b, magic...), format)
	b, start := beginFrame(b)
	b = appendHeader(b, j.boot)
	endFrame(b[start:])
	for key, data := range j.records {
		b, start = beginFrame(b)
		b = appendChange(b, &saved.Change{Key: key, Data: data})
		endFrame(b[start:])
	}
	return b
}

// syncDir makes a rename last.
func syncDir(path string) error {
	d, err := os.Open(path)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}
