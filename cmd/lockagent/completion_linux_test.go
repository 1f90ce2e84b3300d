package main

import (
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"

	"github.com/lockagent/lockagent/internal/redistest"
)

// The scripts work in the shells themselves. A shell that is not there is left out.
func TestShellsComplete(t *testing.T) {
	t.Parallel()
	d := runDaemon(t)
	for _, name := range []string{"orders/41", "orders/42", "other"} {
		call(t, "acquire", "--socket", d.path, "--ttl", "1h", name).expect(t, exitOK, nil, nil)
	}
	bin := newBin(t)
	// In bash the script wants functions of a package that need not be installed. These are as much of them as it uses.
	const bash = `
_get_comp_words_by_ref() { words=("${COMP_WORDS[@]}"); cword=$COMP_CWORD; cur=${COMP_WORDS[COMP_CWORD]}; prev=${COMP_WORDS[COMP_CWORD-1]}; }
__ltrim_colon_completions() { :; }
compopt() { :; }
source <(lockagent completion bash)
complete_line() {
	COMP_WORDS=($1); [[ $1 == *" " ]] && COMP_WORDS+=("")
	COMP_CWORD=$((${#COMP_WORDS[@]} - 1)); COMP_LINE=$1; COMP_POINT=${#1}; COMP_TYPE=9; COMPREPLY=()
	__start_lockagent
	printf '%s\n' "${COMPREPLY[@]}"
}
`
	const fish = "lockagent completion fish | source\nfunction complete_line; complete -C $argv[1]; end\n"
	for shell, script := range map[string]string{"bash": bash, "fish": fish} {
		path, err := exec.LookPath(shell)
		if err != nil {
			continue
		}
		completed := func(line string) string {
			cmd := exec.CommandContext(t.Context(), path, "-c", script+"complete_line '"+line+"'")
			cmd.Env = append(os.Environ(), "PATH="+bin+":"+os.Getenv("PATH"), "LOCKAGENT_SOCKET="+d.path, "HOME="+bin, "GORACE=atexit_sleep_ms=0")
			out, err := cmd.CombinedOutput()
			if err != nil {
				t.Fatalf("%s: %v\n%s", shell, err, out)
			}
			return string(out)
		}
		for line, want := range map[string][]string{
			"lockagent relea":           {"release"},
			"lockagent lock orders/":    {"orders/41", "orders/42"},
			"lockagent show oth":        {"other"},
			"lockagent ls --format js":  {"json", "jsonl"},
			"lockagent lock --also oth": {"other"},
		} {
			var got string
			redistest.Eventually(t, fmt.Sprintf("%s completes %q to %q", shell, line, want), func() bool { // nobody waits for a daemon that is slow
				got = completed(line)
				return !slices.ContainsFunc(want, func(w string) bool { return !strings.Contains(got, w) })
			})
			if strings.Contains(line, "orders") && strings.Contains(got, "other") {
				t.Errorf("%s completes %q to %q", shell, line, got)
			}
		}
	}
	if zsh, err := exec.LookPath("zsh"); err == nil {
		cmd := exec.CommandContext(t.Context(), zsh, "-f", "-c", "compdef() { :; }; source <(lockagent completion zsh) && whence -w _lockagent")
		cmd.Env = append(os.Environ(), "PATH="+bin+":"+os.Getenv("PATH"))
		if out, err := cmd.CombinedOutput(); err != nil || !strings.Contains(string(out), "_lockagent: function") {
			t.Errorf("zsh: %v\n%s", err, out)
		}
	}
	call(t, "completion", "csh").expect(t, exitUsage, nil, []string{"Try: lockagent completion bash"})
}
