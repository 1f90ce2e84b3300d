package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/lockagent/lockagent/cmd/lockagent/internal/cli"
	"github.com/lockagent/lockagent/internal/machinetest"
	"github.com/lockagent/lockagent/internal/waittest"
)

// The scripts work in the shells themselves.
func TestShellsComplete(t *testing.T) {
	t.Parallel()
	d := runDaemon(t)
	for _, name := range []string{"orders/41", "orders/42", "other"} {
		call(t, "acquire", "--socket", d.Path, "--ttl", "1h", name).expect(t, cli.ExitOK, nil, nil)
	}
	bin := newBin(t)
	// In bash the script wants functions of a package that need not be installed. These are as much of them as it uses.
	const bash = `
_get_comp_words_by_ref() {
	words=("${COMP_WORDS[@]}"); cword=$COMP_CWORD
	cur=${COMP_WORDS[COMP_CWORD]}; prev=${COMP_WORDS[COMP_CWORD-1]}
}
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
	// zsh completes only at a terminal. So another zsh has one, gets the line and two tabs, and shows its list. The
	// last key has it show the line.
	const zshrc = `
autoload -Uz compinit && compinit -u -D
source <(lockagent completion zsh)
show_line() { zle -I; print -r -- "<$BUFFER>"; exit }
zle -N show_line
bindkey '^T' show_line
PS1='ready> '
`
	const zsh = `
zmodload zsh/zpty
complete_line() {
	zpty inner zsh -d -i
	zpty -r inner REPLY '*ready> *'
	zpty -w -n inner "$1"$'\t\t\x14'
	zpty -r inner REPLY '*<*>*'
	print -r -- $REPLY
	zpty -d inner
}
`
	if err := os.WriteFile(filepath.Join(bin, ".zshrc"), []byte(zshrc), 0o600); err != nil {
		t.Fatal(err)
	}
	shells := map[string][]string{"bash": {"-c", bash}, "fish": {"-c", fish}, "zsh": {"-f", "-c", zsh}}
	for shell, args := range shells {
		t.Run(shell, func(t *testing.T) {
			path, err := exec.LookPath(shell)
			machinetest.Needs(t, err)
			completed := func(line string) string {
				args := slices.Clone(args)
				args[len(args)-1] += "complete_line '" + line + "'"
				cmd := exec.CommandContext(t.Context(), path, args...)
				cmd.Env = append(
					os.Environ(), "PATH="+bin+":"+os.Getenv("PATH"), "LOCKAGENT_SOCKET="+d.Path, "HOME="+bin, "ZDOTDIR="+bin,
					"TERM=xterm",
				)
				out, err := cmd.CombinedOutput()
				if err != nil {
					t.Fatalf("%v\n%s", err, out)
				}
				return string(out)
			}
			for line, want := range map[string][]string{
				"lockagent relea":           {"release"},
				"lockagent watch --sin":     {"--since"},
				"lockagent lock orders/":    {"orders/41", "orders/42"},
				"lockagent show oth":        {"other"},
				"lockagent ls --format js":  {"json", "jsonl"},
				"lockagent lock --also oth": {"other"},
			} {
				var got string
				waittest.Until(t, fmt.Sprintf("%s completes %q to %q", shell, line, want), func() bool {
					// Nobody waits for a daemon that is slow.
					got = completed(line)
					return !slices.ContainsFunc(want, func(w string) bool { return !strings.Contains(got, w) })
				})
				if strings.Contains(line, "orders") && strings.Contains(got, "other") {
					t.Errorf("%q is completed to %q", line, got)
				}
			}
		})
	}
	call(t, "completion", "csh").expect(t, cli.ExitUsage, nil, []string{"Try: lockagent completion bash"})
}
