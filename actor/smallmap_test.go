package actor

import (
	"maps"
	"slices"
	"testing"

	"pgregory.net/rapid"
)

// A smallMap is a map.
func TestFew(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var f smallMap[int, string]
		model := make(map[int]*string)
		key := rapid.IntRange(0, 4)
		t.Repeat(map[string]func(*rapid.T){
			"put": func(t *rapid.T) {
				k := key.Draw(t, "key")
				if model[k] == nil {
					model[k] = new(string)
					f.put(k, model[k])
				}
			},
			"take": func(t *rapid.T) {
				k := key.Draw(t, "key")
				if got := f.take(k); got != model[k] {
					t.Fatalf("take(%d) = %p, want %p", k, got, model[k])
				}
				delete(model, k)
			},
			"": func(t *rapid.T) {
				keys := f.keys()
				slices.Sort(keys)
				if want := slices.Sorted(maps.Keys(model)); !slices.Equal(keys, want) || f.len() != len(want) {
					t.Fatalf("%d keys %v, want %v", f.len(), keys, want)
				}
				values := make(map[*string]bool)
				for v := range f.all {
					values[v] = true
				}
				for _, v := range model {
					if !values[v] || len(values) != len(model) {
						t.Fatalf("%d values without %p, want %d", len(values), v, len(model))
					}
				}
				for k := range 5 {
					if got := f.get(k); got != model[k] {
						t.Fatalf("get(%d) = %p, want %p", k, got, model[k])
					}
				}
			},
		})
	})
}
