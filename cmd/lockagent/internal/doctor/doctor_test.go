package doctor

import (
	"errors"
	"io/fs"
	"testing"
	"time"

	"github.com/lockagent/lockagent"
	"github.com/lockagent/lockagent/redisstore"
)

func TestClock(t *testing.T) {
	sample := func(before, after time.Duration, store time.Duration) Sample {
		return Sample{before, after, lockagent.StoreTime(0).Add(store)}
	}
	const ms = time.Millisecond
	first := sample(0, 2*ms, time.Hour)
	for name, test := range map[string]struct {
		second Sample
		err    error
		want   State
	}{
		"the same rate":      {sample(1000*ms, 1002*ms, time.Hour+time.Second), nil, OK},
		"within the bound":   {sample(1000*ms, 1002*ms, time.Hour+1009*ms), nil, OK},
		"too fast":           {sample(1000*ms, 1002*ms, time.Hour+1020*ms), nil, Error},
		"too slow":           {sample(1000*ms, 1002*ms, time.Hour+980*ms), nil, Error},
		"it stands":          {sample(1000*ms, 1002*ms, time.Hour), nil, Error},
		"perhaps too fast":   {sample(1000*ms, 1200*ms, time.Hour+1150*ms), nil, Warning},
		"slow, and too fast": {sample(1000*ms, 1200*ms, time.Hour+2*time.Second), nil, Error},
		"no time has passed": {first, nil, Skipped},
		"no answer":          {Sample{}, errors.New("no answer"), Skipped},
	} {
		t.Run(name, func(t *testing.T) {
			got := Clock(first, test.second, test.err)
			if got.State != test.want || got.Found == "" || got.State != OK && got.Do == "" {
				t.Errorf("got %+v, want %s", got, test.want)
			}
		})
	}
}

func TestRoom(t *testing.T) {
	for free, want := range map[int64]State{1 << 30: OK, 100 << 20: Warning, 1 << 20: Error} {
		if got := (Host{Dir: "/d", Info: ownDir{}, Free: free}).state(); got.State != want {
			t.Errorf("with %d bytes free it is %+v, not %s", free, got, want)
		}
	}
}

// ownDir is a directory of its user alone.
type ownDir struct{ fs.FileInfo }

func (ownDir) Mode() fs.FileMode { return fs.ModeDir | 0o700 }

// A master that another one may replace has to stop by itself.
func TestTwoMasters(t *testing.T) {
	for name, test := range map[string]struct {
		replicas, good int
		watched        bool
		minReplicas    int
		want           State
	}{
		"alone":                                 {0, -1, false, 0, OK},
		"with a replica":                        {1, -1, false, 0, Warning},
		"with a Sentinel, and its replica away": {0, -1, true, 0, Warning},
		"the server demands a replica":          {1, 1, true, 0, OK},
		"the store demands a replica":           {1, -1, true, 1, OK},
		"the store demands two":                 {1, -1, true, 2, Error},
	} {
		m := redisstore.Master{Replicas: test.replicas, GoodReplicas: test.good}
		if got := replicas(m, test.watched, test.minReplicas); got.State != test.want || (got.Do == "") != (test.want == OK) {
			t.Errorf("%s: %+v, want %s", name, got, test.want)
		}
	}
}
