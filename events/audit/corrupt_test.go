package audit

import (
	"math/rand/v2"
	"reflect"
	"slices"
	"testing"

	"github.com/lockagent/lockagent"
	"github.com/lockagent/lockagent/events"
	"github.com/lockagent/lockagent/events/internal/logtest"
)

// unaltered are the fields that no alteration has to change.
var unaltered = map[string]string{
	"Link":     "it is not in the log",
	"Position": "it is not of the record: the reader of a stream sets it",
	"Stored":   "it is not of the record: the stream sets it",
	"Origin":   "it is not of the record: the forwarder sets it on the message",
	"Raw":      "it is what the record was read from",
}

// A new field of a record needs an alteration, or a reason for none.
func TestEachFieldIsAltered(t *testing.T) {
	for _, typ := range []reflect.Type{reflect.TypeFor[events.Record](), reflect.TypeFor[lockagent.Event]()} {
		for i := range typ.NumField() {
			name := typ.Field(i).Name
			changes := slices.ContainsFunc(lockagent.EventKinds(), func(k lockagent.EventKind) bool {
				return slices.ContainsFunc(logtest.Alterations, func(a logtest.Alteration) bool {
					before := logtest.FullRecord(k)
					after := before
					a.Do(rand.New(rand.NewPCG(1, 1)), &after)
					v, w := reflect.ValueOf(before), reflect.ValueOf(after)
					return !reflect.DeepEqual(v.FieldByName(name).Interface(), w.FieldByName(name).Interface())
				})
			})
			if _, exempt := unaltered[name]; !changes && !exempt {
				t.Errorf("no alteration changes %s.%s", typ.Name(), name)
			}
		}
	}
}
