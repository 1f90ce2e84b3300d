package warning

import "testing"

func TestWarning(t *testing.T) {
	closed := func(c <-chan struct{}) bool {
		select {
		case <-c:
			return true
		default:
			return false
		}
	}
	var w Warning
	if w.Given() || w.Asked() {
		t.Error("the zero warning is given, or asked for")
	}
	w.Set(true)
	if !closed(w.Channel()) || !w.Given() || !w.Asked() {
		t.Error("whoever asks late does not learn of the warning")
	}
	before := w.Channel()
	w.Set(true)
	w.Set(false)
	if w.Given() || !closed(before) {
		t.Error("the channel does not stay closed")
	}
	after := w.Channel()
	if closed(after) || w.Channel() != after {
		t.Error("there is no other channel after the withdrawal")
	}
	w.Set(true)
	if !closed(after) {
		t.Error("the other channel is not closed")
	}
}
