package events

import (
	"reflect"
	"slices"
	"testing"
	"time"

	"github.com/lockagent/lockagent"
)

// TestSumSeesEachField clears each field of a record: its sum must change, but for the fields
// that are the identity of the record or are not in the log.
func TestSumSeesEachField(t *testing.T) {
	r := fullRecord(lockagent.EventGranted)
	r.Position, r.Stored, r.Link, r.OtherVersion, r.Raw = 1, r.Time, "link", true, "{}"
	was := sum(&r)
	var check func(name string, v reflect.Value)
	check = func(name string, v reflect.Value) {
		if v.Kind() == reflect.Struct && v.Type() != reflect.TypeFor[time.Time]() {
			for i := range v.NumField() {
				check(name+"."+v.Type().Field(i).Name, v.Field(i))
			}
			return
		}
		before := reflect.New(v.Type()).Elem()
		before.Set(v)
		v.SetZero()
		same := slices.Contains([]string{".Event.Agent", ".Event.Link", ".Epoch", ".Seq", ".Position", ".Stored", ".OtherVersion"}, name) // Raw says the last one, too
		if (sum(&r) == was) != same {
			t.Errorf("%s: the sum is the same: %v", name, !same)
		}
		v.Set(before)
	}
	check("", reflect.ValueOf(&r).Elem())
	if sum(&r) != was {
		t.Error("the record has changed")
	}
}
