// Command lockagent is a distributed lock manager. See lockagent --help.
package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/signal"
	"runtime/debug"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/lockagent/lockagent/cmd/lockagent/internal/cli"
)

func main() {
	// A reader of our output that goes away is an error of a write, so that we end
	// in order and not by a signal.
	signal.Ignore(syscall.SIGPIPE)
	ctx := context.Background()
	if asked := cli.Heeded(os.Interrupt, syscall.SIGTERM); len(asked) > 0 { // none would be all
		var stop context.CancelFunc
		ctx, stop = signal.NotifyContext(ctx, asked...)
		context.AfterFunc(ctx, stop) // a second signal does what it does by default: it kills
	}
	os.Exit(run(ctx, os.Args[1:], os.Stdin, os.Stdout, os.Stderr))
}

// run is the program without its process. It returns the exit code. The end of ctx
// asks it to end in order.
func run(ctx context.Context, args []string, stdin io.Reader, stdout, stderr io.Writer) (code int) {
	defer func() {
		if p := recover(); p != nil {
			code = reportPanic(stderr, p)
		}
	}()
	root := rootFor(args)
	root.SetFlagErrorFunc(func(cmd *cobra.Command, err error) error {
		cli.ReadPlaces(cmd, args)
		return cli.FlagError(cmd, err)
	})
	root.SetArgs(args)
	root.SetIn(stdin)
	root.SetOut(stdout)
	root.SetErr(stderr)
	return cli.ReportError(stderr, root.ExecuteContext(ctx))
}

func reportPanic(stderr io.Writer, p any) int {
	fmt.Fprintf(stderr, "lockagent: bug: %v\n\n%s\nPlease report this.\n", p, debug.Stack())
	return cli.ExitBug
}
