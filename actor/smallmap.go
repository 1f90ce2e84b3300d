package actor

// smallMap is a map for few values. Most locks have one request and one call at a time, so a smallMap
// has room for one value, and makes a real map only for more. The zero smallMap is empty.
type smallMap[K comparable, V any] struct {
	key   K
	value *V // nil if there is no value outside of more
	more  map[K]*V
}

func (f *smallMap[K, V]) len() int {
	n := len(f.more)
	if f.value != nil {
		n++
	}
	return n
}

// get returns the value of a key, or nil.
func (f *smallMap[K, V]) get(key K) *V {
	if f.value != nil && f.key == key {
		return f.value
	}
	return f.more[key]
}

// put adds a value. Its key must be new.
func (f *smallMap[K, V]) put(key K, value *V) {
	switch {
	case f.value == nil:
		f.key, f.value = key, value
	case f.more == nil:
		f.more = map[K]*V{key: value}
	default:
		f.more[key] = value
	}
}

// take removes the value of a key and returns it, or nil.
func (f *smallMap[K, V]) take(key K) *V {
	if f.value != nil && f.key == key {
		value := f.value
		f.value = nil
		return value
	}
	value := f.more[key]
	delete(f.more, key)
	return value
}

// all iterates over the values. yield may take the one that it gets.
func (f *smallMap[K, V]) all(yield func(*V) bool) {
	if f.value != nil && !yield(f.value) {
		return
	}
	for _, value := range f.more {
		if !yield(value) {
			return
		}
	}
}

// keys returns the present keys.
func (f *smallMap[K, V]) keys() []K {
	keys := make([]K, 0, f.len())
	if f.value != nil {
		keys = append(keys, f.key)
	}
	for key := range f.more {
		keys = append(keys, key)
	}
	return keys
}
