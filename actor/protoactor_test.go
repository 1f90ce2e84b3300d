package actor

import (
	"go/parser"
	"go/token"
	"path/filepath"
	"strings"
	"testing"

	protoactor "github.com/asynkron/protoactor-go/actor"

	"github.com/lockagent/lockagent"
)

// What is used of the actor library can be read in one file.
func TestOneFileKnowsTheLibrary(t *testing.T) {
	files, err := filepath.Glob("*.go")
	if err != nil || len(files) == 0 {
		t.Fatal(len(files), err)
	}
	knows := 0
	for _, name := range files {
		file, err := parser.ParseFile(token.NewFileSet(), name, nil, parser.ImportsOnly)
		if err != nil {
			t.Fatal(err)
		}
		for _, i := range file.Imports {
			if !strings.Contains(i.Path.Value, "protoactor") {
				continue
			}
			knows++
			if strings.TrimSuffix(name, "_test.go") != "protoactor" && name != "protoactor.go" {
				t.Errorf("%s imports the actor library; use protoactor.go", name)
			}
		}
	}
	if knows == 0 {
		t.Error("no file imports the actor library, so this test checks nothing")
	}
}

func TestSuspendedMailbox(t *testing.T) {
	c := new(clerk)
	m := newMailbox(c)
	m.PostSystemMessage(new(protoactor.SuspendMailbox))
	m.post(1)
	m.postSystem("a")
	m.post(2)
	expectMessages(t, c, "a")
	m.PostSystemMessage(new(protoactor.ResumeMailbox))
	expectMessages(t, c, "a", 1, 2)
}

// actorOf is the actor of a lock that the agent uses. Nobody may run the actor meanwhile.
func (a *Agent) actorOf(name lockagent.Name) *lock {
	e := a.registry.present(name, "")
	defer e.unpin()
	return e.mailbox.invoker.(interface{ Actor() protoactor.Actor }).Actor().(*lock)
}
