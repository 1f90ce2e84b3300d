package lockagent

// Layer returns a layer of a store: one of [Messages], [Queue], [Rests], [Operator], [Counters], [History] and
// [Grace]. It reports false if the store does not have the layer. A store has the layers that its type implements.
//
// A store that decorates another one has a method Unwrap, which returns the other. It has exactly the layers of that
// one: those that its type implements itself, and the other's own in place of the rest. So a decorator neither hides a
// layer nor invents one. A decorator that implements one method of a layer has to implement all of them.
func Layer[L any](s Store) (layer L, ok bool) {
	decorator, decorates := s.(interface{ Unwrap() Store })
	if !decorates {
		layer, ok = s.(L)
		return layer, ok
	}
	if layer, ok = Layer[L](decorator.Unwrap()); !ok {
		return layer, false
	}
	if own, implements := s.(L); implements {
		return own, true
	}
	return layer, true
}
