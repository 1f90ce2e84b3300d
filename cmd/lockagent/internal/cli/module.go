package cli

import "runtime/debug"

// ModuleVersion is the version of the module that the binary was built from.
func ModuleVersion() string {
	if info, ok := debug.ReadBuildInfo(); ok && info.Main.Version != "" {
		return info.Main.Version
	}
	return "(devel)"
}
