package slot

import (
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"weak"
)

// The value is received, or taken back, or was never put.
func TestSlot(t *testing.T) {
	for _, c := range []struct {
		name           string
		do             func(*Slot[int])
		received, back bool
	}{
		{"put", func(s *Slot[int]) { s.Put(7, nil) }, false, true},
		{"nothing", func(*Slot[int]) {}, false, true},
		{"received", func(s *Slot[int]) { s.Put(7, nil); <-s.C() }, true, false},
		{"taken back, then put", func(s *Slot[int]) { s.TakeBack(); s.Put(7, nil) }, false, true},
		{"not valid", func(s *Slot[int]) { s.Put(7, func() bool { return false }) }, false, true},
	} {
		for kind, s := range map[string]*Slot[int]{"New": New[int](), "In": In(make(chan int, 1))} {
			t.Run(c.name+"/"+kind, func(t *testing.T) {
				c.do(s)
				if n := len(s.C()); (n == 1) != (c.name == "put") {
					t.Errorf("%d values are in the channel", n)
				}
				for range 2 {
					if got := s.Received(); got != c.received {
						t.Errorf("received: %v", got)
					}
					if got := s.TakeBack(); got != c.back {
						t.Errorf("taken back: %v", got)
					}
				}
				select {
				case v, ok := <-s.C():
					if v != 0 || ok || kind == "In" || c.name == "nothing" {
						t.Errorf("the channel delivers %v, %v", v, ok)
					}
				default:
					if kind == "New" && c.name != "nothing" {
						t.Error("the channel is open")
					}
				}
			})
		}
	}
}

// A value that is valid no more leaves the channel when the slot learns of it.
func TestSlotChecksItsValue(t *testing.T) {
	valid := true
	s := New[int]()
	s.Check() // nothing was put: this takes nothing back
	s.Put(7, func() bool { return valid })
	s.Check()
	if len(s.C()) != 1 {
		t.Fatal("a valid value was taken back")
	}
	valid = false
	s.Check()
	if v, ok := <-s.C(); ok || s.Received() || !s.TakeBack() {
		t.Errorf("received %v", v)
	}
	without := New[int]()
	without.Put(7, nil)
	without.Check()
	if <-without.C() != 7 {
		t.Error("a value that depends on nothing was taken back")
	}
}

// The caller receives the value while the giver takes it back: one of them has it, and never both.
func TestSlotIsReceivedOrTakenBack(t *testing.T) {
	mine := 0
	for i := range 10_000 {
		s := In(make(chan int, 1))
		if i%2 == 0 {
			s = New[int]()
		}
		s.Put(7, nil)
		var back bool
		var there atomic.Int32
		meet := func() {
			for there.Add(1); there.Load() < 2; {
				runtime.Gosched()
			}
		}
		var got int
		var both sync.WaitGroup
		both.Go(func() {
			meet()
			select {
			case got = <-s.C():
			default:
			}
		})
		both.Go(func() { meet(); back = s.TakeBack() })
		both.Wait()
		if (got == 7) == back || s.Received() == back {
			t.Fatalf("received %d, taken back %v", got, back)
		}
		if !back {
			mine++
		}
	}
	t.Logf("%d were received", mine)
}

// The giver looks at the channel, and then the caller receives the value: the giver does not have it.
func TestSlotTakesNothingFromAnEmptyChannel(t *testing.T) {
	for kind, s := range map[string]*Slot[int]{"New": New[int](), "In": In(make(chan int, 1))} {
		s.Put(7, nil)
		<-s.C()
		if s.take(); s.stage != received {
			t.Errorf("%s: stage %d", kind, s.stage)
		}
	}
}

// A slot that has told of its end leaves the next value in the channel alone.
func TestSlotIsOverOnce(t *testing.T) {
	for what, end := range map[string]func(*Slot[int]){
		"received":   func(s *Slot[int]) { <-s.C(); s.Received() },
		"taken back": func(s *Slot[int]) { s.TakeBack() },
	} {
		c := make(chan int, 1)
		s := In(c)
		s.Put(7, nil)
		end(s)
		back := s.TakeBack()
		next := In(c)
		next.Put(8, nil)
		s.Check()
		if again := s.TakeBack(); again != back || <-c != 8 {
			t.Errorf("%s: taken back %v, then %v", what, back, again)
		}
	}
}

// When the value was received or taken back, the slot does not keep alive what the value depends on.
func TestSlotForgetsWhatItsValueDependsOn(t *testing.T) {
	for what, end := range map[string]func(*Slot[int]) bool{
		"received":        func(s *Slot[int]) bool { <-s.C(); return s.Received() },
		"received, check": func(s *Slot[int]) bool { <-s.C(); s.Check(); return true },
		"received, kept":  func(s *Slot[int]) bool { <-s.C(); return !s.TakeBack() },
		"taken back":      func(s *Slot[int]) bool { return s.TakeBack() },
	} {
		s := New[int]()
		gone := func() weak.Pointer[[]byte] {
			on := make([]byte, 100)
			s.Put(7, func() bool { return len(on) > 0 })
			return weak.Make(&on)
		}()
		if !end(s) {
			t.Errorf("%s: not so", what)
		}
		runtime.GC()
		if gone.Value() != nil {
			t.Errorf("%s: the slot keeps it", what)
		}
		runtime.KeepAlive(s)
	}
}
