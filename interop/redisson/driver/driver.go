// Package driver builds and starts the driver: the Java process that uses Redisson's locks on command. The README of
// the folder above describes the commands.
package driver

import (
	"context"
	"embed"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"time"
)

// source is the driver's own code. So it can be built by a program that is far from the tree.
//
//go:embed pom.xml src
var source embed.FS

// ErrNoJava says that the driver cannot be built on this machine.
var ErrNoJava = errors.New("install a JDK, 17 or newer, and Maven (Debian: apt-get install default-jdk-headless maven)")

// Available returns [ErrNoJava] unless this machine has what Build needs.
func Available() error {
	for _, tool := range []string{"javac", "mvn"} {
		if _, err := exec.LookPath(tool); err != nil {
			return ErrNoJava
		}
	}
	return nil
}

// Driver is a driver that was built.
type Driver struct {
	// Classpath is that of java: the driver and the jars of Redisson.
	Classpath string
}

// Build builds the driver in an empty directory. The profile is one of pom.xml: another version of Redisson. It may
// be empty. Maven needs the network unless it has everything from an earlier run.
func Build(ctx context.Context, dir, profile string) (*Driver, error) {
	if err := os.CopyFS(dir, source); err != nil {
		return nil, err
	}
	output := filepath.Join(dir, "built")
	args := []string{"-q", "-B", "-f", filepath.Join(dir, "pom.xml"), "-Doutput=" + output}
	if profile != "" {
		args = append(args, "-P", profile)
	}
	args = append(args, "package")
	maven := func(args []string) *exec.Cmd {
		cmd := exec.CommandContext(ctx, "mvn", args...)
		// These options halve the work.
		cmd.Env = append(os.Environ(), "MAVEN_OPTS="+os.Getenv("MAVEN_OPTS")+" -XX:TieredStopAtLevel=1 -XX:+UseSerialGC")
		return cmd
	}
	if maven(append([]string{"-o"}, args...)).Run() != nil {
		if out, err := maven(args).CombinedOutput(); err != nil {
			return nil, fmt.Errorf("build the driver: %w\n%s", err, out)
		}
	}
	jars, err := os.ReadFile(filepath.Join(output, "classpath"))
	if err != nil {
		return nil, err
	}
	return &Driver{filepath.Join(output, "driver.jar") + string(os.PathListSeparator) + string(jars)}, nil
}

// Command is a process of the driver that has not been started, with one client of Redisson. The end of ctx kills it.
// The watchdog is the lease of locks that Redisson renews. The mode is "single", "cluster" or "sentinel". Flags are of
// the virtual machine.
func (d *Driver) Command(
	ctx context.Context, watchdog time.Duration, mode string, addrs []string, flags ...string,
) *exec.Cmd {
	cmd := d.Machine(ctx, flags...)
	cmd.Args = append(cmd.Args, strconv.FormatInt(watchdog.Milliseconds(), 10), mode)
	for _, addr := range addrs {
		cmd.Args = append(cmd.Args, "redis://"+addr)
	}
	return cmd
}

// Machine is as Command, without a client. The command connect makes clients.
func (d *Driver) Machine(ctx context.Context, flags ...string) *exec.Cmd {
	// Without a file that a killed process would leave behind.
	args := append([]string{"-XX:-UsePerfData"}, flags...)
	return exec.CommandContext(ctx, "java", append(args, "-cp", d.Classpath, "driver.Main")...)
}
