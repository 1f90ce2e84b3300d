package config

import "reflect"

// Change is a setting that another Config has otherwise.
type Change struct {
	Setting  *Setting
	Old, New string // without secrets, so they may be the same
	// Restart says that the change needs a restart. Until then the old value counts.
	Restart bool
}

// Reload reads the settings again, with the same flags and the same environment. It returns what counts from now on,
// and what has changed. A change that needs a restart is told, and does not count. If Reload returns an error, c goes
// on counting.
func (c *Config) Reload() (*Config, []Change, error) {
	next, err := Load(c.in)
	if err != nil {
		return nil, nil, err
	}
	var changes []Change
	for _, s := range table {
		old, new := s.field(&c.Settings), s.field(&next.Settings)
		if reflect.DeepEqual(old, new) {
			continue
		}
		changes = append(changes, Change{s, s.kind.text(old), s.kind.text(new), !s.Live})
		if s.Live {
			continue
		}
		reflect.ValueOf(new).Elem().Set(reflect.ValueOf(old).Elem())
		delete(next.origins, s.Key)
		if from, given := c.origins[s.Key]; given {
			next.origins[s.Key] = from
		}
	}
	return next, changes, nil
}
