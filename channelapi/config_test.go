package channelapi

import (
	"log/slog"
	"reflect"
	"testing"

	"github.com/lockagent/lockagent"
	"github.com/lockagent/lockagent/memstore"
)

// The agent gets every setting.
func TestConfigOfTheAgent(t *testing.T) {
	c := Config{
		Store: memstore.New(), Label: "a", ID: "b", Process: Process{PID: 7}, Recorder: struct{ lockagent.Recorder }{},
		Logger: slog.Default(), Lease: 1, Margin: 2, Claim: 3, HandOffGrants: 4, HandOffTime: 5, NoRest: true, Idle: 6,
	}
	from, to := reflect.ValueOf(c), reflect.ValueOf(c.agent())
	for field, value := range from.Fields() {
		if value.IsZero() {
			t.Errorf("the test does not set %s", field.Name)
		}
		if got := to.FieldByName(field.Name); !got.Equal(value) {
			t.Errorf("%s is %v, want %v", field.Name, got, value)
		}
	}
}
