package actor

import (
	"os"
	"path/filepath"
	"runtime/debug"
	"sync"

	"github.com/lockagent/lockagent"
)

// thisProcess describes the process of the agent. What the system does not tell stays empty.
var thisProcess = sync.OnceValue(func() lockagent.Process {
	p := lockagent.Process{PID: os.Getpid()}
	p.Host, _ = os.Hostname()
	if path, err := os.Executable(); err == nil {
		p.Program = filepath.Base(path)
	}
	if build, ok := debug.ReadBuildInfo(); ok {
		p.Version = build.Main.Version
	}
	return p
})
