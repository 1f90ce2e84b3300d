package cli

import (
	"os"
	"os/signal"
	"slices"
)

// Heeded leaves out the signals that whoever started this process had it ignore. A script has the programs ignore
// interrupts that it runs in the background, and nohup has them ignore a hang-up. If we waited for such a signal, we
// would not ignore it any more, nor would our children.
func Heeded(signals ...os.Signal) []os.Signal {
	return slices.DeleteFunc(slices.Clone(signals), signal.Ignored)
}
