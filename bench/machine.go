package main

import (
	"fmt"
	"os"
	"os/exec"
	"regexp"
	"runtime"
	"runtime/debug"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// machine says in words what this runs on.
func machine() string {
	return fmt.Sprintf(
		"%s, %d cores, %s of memory, %s, load average %s at the start. Client and server share the cores, over the "+
			"loopback interface.",
		processor(), runtime.NumCPU(), memory(), kernel(), load1(),
	)
}

func processor() string {
	model := field("/proc/cpuinfo", `(?m)^model name\s*:\s*(.+)$`)
	if model == "" {
		model = "A processor that does not say its name"
	}
	return model
}

func memory() string {
	kb, err := strconv.ParseFloat(field("/proc/meminfo", `(?m)^MemTotal:\s*(\d+) kB$`), 64)
	if err != nil {
		return "an unknown amount"
	}
	return fmt.Sprintf("%.0f GB", kb/1024/1024)
}

func load1() string { return field("/proc/loadavg", `^(\S+)`) }

func field(path, pattern string) string {
	text, err := os.ReadFile(path)
	if err != nil {
		return ""
	}
	if found := regexp.MustCompile(pattern).FindSubmatch(text); found != nil {
		return string(found[1])
	}
	return ""
}

func kernel() string {
	var u unix.Utsname
	if err := unix.Uname(&u); err != nil {
		return runtime.GOOS
	}
	return unix.ByteSliceToString(u.Sysname[:]) + " " + unix.ByteSliceToString(u.Release[:])
}

// versions are those of Go, of the server, and of all contenders.
func versions() map[string]string {
	v := map[string]string{"Go": runtime.Version(), "redis-server": redisVersion(), "lockagent": revision()}
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return v
	}
	for _, m := range info.Deps {
		switch m.Path {
		case "github.com/redis/rueidis", "github.com/go-redsync/redsync/v4", "github.com/redis/go-redis/v9",
			"github.com/bsm/redislock":
			v[m.Path] = m.Version
		}
	}
	v["github.com/redis/rueidis (with rueidislock)"] = v["github.com/redis/rueidis"]
	delete(v, "github.com/redis/rueidis")
	return v
}

func redisVersion() string {
	out, err := exec.Command("redis-server", "--version").Output()
	if err != nil {
		return "unknown"
	}
	if found := regexp.MustCompile(`v=(\S+)`).FindSubmatch(out); found != nil {
		return string(found[1])
	}
	return "unknown"
}

// revision is that of the tree, where there is git.
func revision() string {
	out, err := exec.Command("git", "describe", "--always", "--dirty", "--tags").Output()
	if err != nil {
		return "unknown"
	}
	return strings.TrimSpace(string(out))
}
