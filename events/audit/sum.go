package audit

import (
	"encoding/base64"
	"encoding/binary"
	"errors"
	"math/bits"

	"github.com/lockagent/lockagent"
	"github.com/lockagent/lockagent/events"
	"github.com/lockagent/lockagent/events/fold"
	"github.com/lockagent/lockagent/events/internal/wire"
)

// sum is a number that two records with another content hardly ever share. It is never 0, and the
// same in each process. It is fast, and nothing against an attacker.
func sum(r *events.Record) uint32 { return new(summing).sum(r) }

// summing makes the sums of records of which most have the names of the one before.
type summing struct {
	names wire.Common
	sums  summer // of the names
}

func (l *summing) sum(r *events.Record) uint32 {
	e := &r.Event
	if l.sums == 0 || !l.names.Of(e) {
		l.names = wire.CommonOf(e)
		l.sums = 1
		for _, text := range [...]string{e.Store, string(e.Lock), string(e.LockKind), string(e.Mode), e.Incarnation} {
			l.sums.text(text)
		}
	}
	rare := e.Reset != (lockagent.Reset{}) || e.Process != (lockagent.Process{}) || r.Follows != (events.Place{})
	dropped := r.Dropped != (events.Drops{})
	s := l.sums
	s.pair(
		uint64(e.Kind)|uint64(e.How)<<8|uint64(e.Reason)<<16|bit(e.Fixed)<<24|bit(rare)<<25|bit(dropped)<<26|
			uint64(uint32(e.Count))<<32,
		uint64(e.Time.UnixMicro()))
	s.pair(e.Request, e.Tenure)
	s.pair(uint64(e.Token), uint64(e.Waiters))
	s.pair(uint64(e.Waited), uint64(e.Held))
	s.pair(uint64(e.Lease), uint64(e.Remaining))
	s.pair(uint64(e.StoreTime), uint64(e.Until))
	s.pair(uint64(e.Confirmed), uint64(e.Returned))
	s.text(string(e.Owner))
	if e.Permits != 0 || e.Total != 0 || e.Op != "" || e.Permit != "" {
		s.pair(uint64(e.Permits), uint64(e.Total))
		s.text(string(e.Op))
		s.text(string(e.Permit))
	}
	if e.Sum != 0 {
		s.pair(e.Sum, 2)
	}
	if e.Replicas != 0 || e.Holds != 0 {
		s.pair(uint64(e.Replicas), uint64(e.Holds))
	}
	if e.Holder != "" || e.Operator != "" || e.Err != "" || e.TraceParent != "" || r.Raw != "" {
		for _, text := range [...]string{e.Holder, e.Operator, e.Err, e.TraceParent, r.Raw} {
			s.text(text)
		}
	}
	if !e.Who.IsZero() {
		s.who(e.Who)
	}
	if e.Grace != nil {
		s.grace(e.Grace)
	}
	if rare {
		s.rare(r)
	}
	if dropped {
		for i := 0; i < len(r.Dropped); i += 2 {
			s.pair(uint64(r.Dropped[i]), uint64(r.Dropped[i+1]))
		}
	}
	return uint32(s>>32) ^ uint32(s) | 1
}

// rare adds what few records have.
func (s *summer) rare(r *events.Record) {
	e := &r.Event
	s.pair(uint64(e.Reset.After), uint64(e.Reset.Before))
	s.pair(uint64(e.Reset.Step), uint64(e.Process.PID))
	s.pair(r.Follows.Epoch, r.Follows.Seq)
	for _, text := range [...]string{
		e.Reset.From, e.Reset.To, e.Reset.Reason, e.Reset.Store, e.Process.Host, e.Process.Program, e.Process.Version,
		e.Process.User, e.Process.Command,
	} {
		s.text(text)
	}
}

func bit(b bool) uint64 {
	if b {
		return 1
	}
	return 0
}

type summer uint64

// pair adds two numbers, with one multiplication as in wyhash.
func (s *summer) pair(a, b uint64) {
	hi, lo := bits.Mul64(uint64(*s)^a^0x9e3779b97f4a7c15, b^0xd6e8feb86659fd93)
	*s = summer(hi ^ lo)
}

func (s *summer) text(text string) {
	length := uint64(len(text)) * 0xff51afd7ed558ccd
	for ; len(text) > 16; text = text[16:] {
		s.pair(binary.LittleEndian.Uint64([]byte(text[:8])), binary.LittleEndian.Uint64([]byte(text[8:16])))
	}
	var rest [16]byte
	copy(rest[:], text)
	s.pair(binary.LittleEndian.Uint64(rest[:8]), binary.LittleEndian.Uint64(rest[8:])^length)
}

func keySum(k fold.LockKey) uint64 {
	s := summer(1)
	s.text(k.Store)
	s.text(string(k.Kind))
	s.text(string(k.Lock))
	return uint64(s)
}

// sums are short in a checkpoint.
type sums []uint32

// MarshalText implements [encoding.TextMarshaler].
func (s sums) MarshalText() ([]byte, error) {
	raw := make([]byte, 0, 4*len(s))
	for _, n := range s {
		raw = binary.LittleEndian.AppendUint32(raw, n)
	}
	return base64.StdEncoding.AppendEncode(nil, raw), nil
}

// UnmarshalText implements [encoding.TextUnmarshaler].
func (s *sums) UnmarshalText(text []byte) error {
	raw, err := base64.StdEncoding.AppendDecode(nil, text)
	if err != nil || len(raw)%4 != 0 {
		return errors.Join(errors.New("these are no sums"), err)
	}
	for ; len(raw) > 0; raw = raw[4:] {
		*s = append(*s, binary.LittleEndian.Uint32(raw))
	}
	return nil
}

// who adds what w says, which is not zero, to a sum.
func (s *summer) who(w lockagent.Who) {
	p := w.Process()
	s.pair(uint64(p.PID), 1)
	for _, text := range [...]string{p.Host, p.Program, p.Version, p.User, p.Command} {
		s.text(text)
	}
}

// grace adds what a grace period says to a sum.
func (s *summer) grace(g *lockagent.GracePeriod) {
	s.pair(uint64(g.Began), uint64(g.Ended))
	s.pair(uint64(len(g.Roll)), uint64(g.More)^3)
	s.text(g.Incarnation)
	s.text(g.Reason)
	for _, agent := range g.Roll {
		s.text(string(agent))
	}
}
