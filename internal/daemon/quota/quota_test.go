package quota

import (
	"fmt"
	"slices"
	"testing"
)

func TestQuota(t *testing.T) {
	const ann, root = 1000, 0
	for name, c := range map[string]struct {
		each, all int
		uid       uint32
		others    int // that another user has
		most      int
		told      string
	}{
		"of a user":                             {2, 9, ann, 0, 2, "1000 false 2"},
		"of all users":                          {9, 2, ann, 0, 2, "1000 true 2"},
		"beside another user":                   {9, 4, ann, 3, 1, "1000 true 4"},
		"of those who look after it":            {2, 9, root, 0, 5, "0 false 5"},
		"of them, when others have all of them": {0, 4, root, 4, 3, "0 true 7"},
	} {
		t.Run(name, func(t *testing.T) {
			var told []string
			q := New(Bounds{
				Each: func() int { return c.each }, All: c.all, Reserve: 3, Privileged: func(uid uint32) bool { return uid == root },
				Refused: func(uid uint32, all bool, bound int) { told = append(told, fmt.Sprint(uid, all, bound)) },
			})
			take := func(uid uint32) func() {
				leave, ok := q.Take(uid)
				if !ok {
					return nil
				}
				return leave
			}
			for range c.others {
				take(Nobody)
			}
			var taken []func()
			for range c.most {
				leave := take(c.uid)
				if leave == nil {
					t.Fatalf("%d is refused", len(taken)+1)
				}
				taken = append(taken, leave)
			}
			for range 2 {
				if take(c.uid) != nil {
					t.Error("one too many")
				}
			}
			if !slices.Equal(told, []string{c.told, c.told}) {
				t.Errorf("told %q", told)
			}
			taken[0]()
			taken[0]()
			if taken[0] = take(c.uid); taken[0] == nil {
				t.Error("what was left keeps its place")
			}
			if take(c.uid) != nil {
				t.Error("what was left twice leaves two places")
			}
			for _, leave := range taken {
				leave()
			}
			if _, some := q.open[c.uid]; some || q.all != c.others {
				t.Errorf("%d are left", q.all)
			}
		})
	}
}
