package audit

import (
	"cmp"
	"fmt"
	"slices"
)

// most is how many of each thing a report names for each cause.
const most = 20

// List is the first of what there is of one kind, in the order of time, and how many there are. So that one cause
// does not hide another, it has the first of each cause.
type List[T Listed[T]] struct {
	Count int `json:"count"`
	First []T `json:"first,omitempty"`
}

// Listed is something that reports list. Other packages have no such types.
type Listed[T any] interface {
	fmt.Stringer
	compare(other T) int
	cause() string // of which there are few
}

// joining is something that can stand for more of its kind.
type joining[T any] interface {
	join(other T) (both T, joined bool)
	likewise() int // for how many more it stands
}

func (l *List[T]) add(x T) {
	l.Count++
	if one, ok := any(x).(joining[T]); ok {
		for i := range l.First {
			if both, joined := one.join(l.First[i]); joined {
				l.First = slices.Delete(l.First, i, i+1)
				x = both
				break
			}
		}
	}
	l.insert(x)
}

// named is for how many the first stand.
func (l *List[T]) named() (n int) {
	for i := range l.First {
		n++
		if one, ok := any(l.First[i]).(joining[T]); ok {
			n += one.likewise()
		}
	}
	return n
}

// insert puts x among the first, if it is one of them.
func (l *List[T]) insert(x T) {
	if len(l.First) >= most {
		n, last, cause := 0, 0, x.cause()
		for i := range l.First {
			if l.First[i].cause() == cause {
				n, last = n+1, i
			}
		}
		if n >= most {
			if x.compare(l.First[last]) >= 0 {
				return
			}
			l.First = slices.Delete(l.First, last, last+1)
		}
	}
	i, _ := slices.BinarySearchFunc(l.First, x, T.compare)
	l.First = slices.Insert(l.First, i, x)
}

// remove takes back something that was added, and perhaps is not among the first.
func (l *List[T]) remove(it func(T) bool) {
	l.Count--
	if l.First = slices.DeleteFunc(l.First, it); len(l.First) == 0 {
		l.First = nil // as in a new checkpoint
	}
}

// UnprovenList is the first of them, and how many there are for each reason.
type UnprovenList struct {
	List[Unproven]
	Reasons []Reason `json:"reasons,omitempty"`
}

// Reason is why holds are not proven, and of how many it is the first reason.
type Reason struct {
	Why   string `json:"why"`
	Count int    `json:"count"`
}

// mostReasons bounds how many reasons are counted. Those of the fewest holds are forgotten: some reasons
// name their hold.
const mostReasons = 64

func (l *UnprovenList) add(u Unproven) {
	l.List.add(u)
	l.because(Reason{u.Why, 1})
}

func (l *UnprovenList) because(r Reason) {
	i, found := slices.BinarySearchFunc(l.Reasons, r, Reason.compare)
	if found {
		l.Reasons[i].Count += r.Count
		return
	}
	l.Reasons = slices.Insert(l.Reasons, i, r)
	if len(l.Reasons) > mostReasons {
		least := slices.MinFunc(l.Reasons, func(x, y Reason) int { return cmp.Compare(x.Count, y.Count) })
		l.Reasons = slices.DeleteFunc(l.Reasons, func(x Reason) bool { return x == least })
	}
}

func (r Reason) compare(other Reason) int {
	return cmp.Compare(r.Why, other.Why)
}

func (l *UnprovenList) reset() { *l = UnprovenList{} }

func (l *UnprovenList) detach() {
	l.List.detach()
	l.Reasons = slices.Clone(l.Reasons)
}

func (l *UnprovenList) lines(all []string, title string) []string { return unproven(all, title, *l) }
