package redisstore

import (
	_ "embed"

	"github.com/lockagent/lockagent/redisstore/internal/transport"
)

// The contract of each script stands on top of it.
var (
	//go:embed acquire.lua
	acquireSource string
	//go:embed renew.lua
	renewSource string
	//go:embed release.lua
	releaseSource string
	//go:embed break.lua
	breakSource string
	//go:embed inspect.lua
	inspectSource string
	//go:embed incarnation.lua
	incarnationSource string
	//go:embed rehearse.lua
	rehearseSource string
)

var (
	acquireScript     = transport.NewScript(acquireSource)
	renewScript       = transport.NewScript(renewSource)
	releaseScript     = transport.NewScript(releaseSource)
	breakScript       = transport.NewScript(breakSource)
	inspectScript     = transport.NewScript(inspectSource)
	incarnationScript = transport.NewScript(incarnationSource)
	rehearseScript    = transport.NewScript(rehearseSource)
)
