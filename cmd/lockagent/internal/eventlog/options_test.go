package eventlog

import (
	"os"
	"reflect"
	"regexp"
	"testing"

	"github.com/lockagent/lockagent/cmd/lockagent/internal/cli"
	"github.com/lockagent/lockagent/events/natslog"
)

// ofMakers are the options of those who may make the stream.
var ofMakers = map[string]bool{"Replicas": true, "MaxBytes": true, "MaxAge": true}

// TestDocumentedOptions holds the table in docs/nats.md against the fields and the flags.
func TestDocumentedOptions(t *testing.T) {
	page, err := os.ReadFile("../../../../docs/nats.md")
	if err != nil {
		t.Fatal(err)
	}
	documented := make(map[string]string)
	for _, row := range regexp.MustCompile(
		"(?m)^\\| `(\\w+)` \\| `--nats([a-z-]*)` \\| `(\\w+)` \\|",
	).FindAllStringSubmatch(string(page), -1) {
		field, flag := row[1], "nats"+row[2]
		documented[field] = row[2]
		if row[3] != cli.Variable(flag) {
			t.Errorf("the row of %s is wrong: --%s, %s", field, flag, row[3])
		}
		for _, config := range []reflect.Type{reflect.TypeFor[natslog.Config](), reflect.TypeFor[natslog.ReaderConfig]()} {
			if _, ok := config.FieldByName(field); !ok && !ofMakers[field] {
				t.Errorf("%v has no field %s", config, field)
			}
		}
	}
	if !reflect.DeepEqual(documented, natsOptions) {
		t.Errorf("the page has %v, the program %v", documented, natsOptions)
	}
}
