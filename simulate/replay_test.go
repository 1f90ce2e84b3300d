package main

import (
	"fmt"
	"strconv"
	"strings"
	"testing"

	"github.com/alicebob/miniredis/v2/proto"

	"github.com/lockagent/lockagent/internal/redistest"
	"github.com/lockagent/lockagent/simulate/plan"
)

// rehearsed is put in front of a script. The script then sees the time of the run, and what other clients and the run
// of the server decide is as in the run. The real server keeps the ends of keys as microseconds of that time, where it
// means milliseconds: so no key ends by itself, and the script removes those that are over.
const rehearsed = `local redis = (function(real, at, asked)
  local function whole(n) return string.format('%%.0f', n) end
  for _, key in ipairs(real.call('KEYS', '*')) do
    local ends = real.call('PEXPIRETIME', key)
    if ends >= 0 and ends <= at then real.call('DEL', key) end
  end
  local next = 0
  local function does(call, word, key, value, ...)
    local name = string.upper(word)
    if name == 'TIME' then
      return {whole(math.floor(at / 1000000)), whole(at %% 1000000)}
    elseif name == 'PEXPIRE' then
      return call('PEXPIREAT', key, whole(at + value * 1000))
    elseif name == 'PTTL' then
      local ends = call('PEXPIRETIME', key)
      return ends < 0 and ends or math.floor((ends - at) / 1000)
    elseif name == 'SET' and select('#', ...) == 2 and select(1, ...) == 'PX' then
      return call('SET', key, value, 'PXAT', whole(at + select(2, ...) * 1000))
    elseif name == 'INFO' or name == 'PUBLISH' or name == 'SPUBLISH' or name == 'PUBSUB' or name == 'CLUSTER' then
      next = next + 1
      local words = table.concat({word, key, value, ...}, ' ')
      if not asked[next] or asked[next][1] ~= words then
        error('the script asks ' .. words .. ' and not ' .. (asked[next] and asked[next][1] or 'nothing'))
      end
      return asked[next][2]
    end
    if value ~= nil then return call(word, key, value, ...) end
    if key ~= nil then return call(word, key) end
    return call(word)
  end
  return setmetatable({
    call = function(...) return does(real.call, ...) end,
    pcall = function(...) return does(real.pcall, ...) end,
  }, {__index = real})
end)(redis, %d, %s)
`

// A real server gives the same answers as miniredis to all scripts of a run, and its scripts tell other clients the
// same.
func TestReplay(t *testing.T) {
	redistest.NeedsSharded(t) // that is Redis 7, as the ends of keys
	for seed, change := range map[uint64]string{
		1: "locks=plain,fenced,fair outsiders=2",
		2: "locks=readwrite,spin",
		3: "locks=semaphore,permits",
	} {
		t.Run(change, func(t *testing.T) {
			faults := "2s cut agent=0, 4s kill agent=1 for=200ms, 5s flush, 6s deaf agent=2 for=500ms, 8s resume agent=0 " +
				"for=100ms, 9s step lag=-1s"
			p, err := (&settings{seed: seed, change: change, faults: &faults}).plan()
			if err != nil {
				t.Fatal(err)
			}
			p.Commands = true
			o := runOf(t, p)
			if v := judge(o); len(v.wrong) > 0 || len(o.commands) < 300 {
				t.Errorf("%d commands, and wrong: %q", len(o.commands), v.wrong)
			}
			replay(t, o.commands)
		})
	}
}

// replay has a real server do the commands, and compares the answers.
func replay(t *testing.T, commands []plan.Command) {
	client, err := proto.Dial(redistest.Start(t).Addr())
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	sources := make(map[string]string)
	differ := 0
	for _, c := range commands {
		words := []string{"FLUSHALL"}
		want := "+OK\r\n"
		if c.Digest != "" {
			if c.Source != "" {
				sources[c.Digest] = c.Source
			}
			words = []string{"EVAL", fmt.Sprintf(rehearsed, c.At, askedInLua(t, c.Asked)) + sources[c.Digest]}
			for _, arg := range c.Args {
				words = append(words, string(arg))
			}
			want = strings.ReplaceAll(string(c.Answer), "_\r\n", "$-1\r\n")
		}
		got, err := client.Do(words...)
		if err != nil {
			t.Fatal(err)
		}
		if got != want {
			if differ++; differ < 5 {
				t.Errorf("at %d: %q gives %q, and miniredis gave %q, of\n%s", c.At, c.Args, got, want, sources[c.Digest])
			}
		}
	}
	if differ > 0 {
		t.Errorf("%d of %d answers differ", differ, len(commands))
	}
}

// askedInLua is what a script asks, with the answers, as an array in Lua.
func askedInLua(t *testing.T, asked []plan.Asked) string {
	var text strings.Builder
	text.WriteByte('{')
	for _, a := range asked {
		answer, err := proto.Parse(string(a.Answer))
		if err != nil {
			t.Fatal(err)
		}
		fmt.Fprintf(&text, "{%s,%s},", quoted(string(a.Command)), inLua(answer))
	}
	return text.String() + "}"
}

func inLua(answer any) string {
	switch answer := answer.(type) {
	case int:
		return strconv.Itoa(answer)
	case string:
		return quoted(answer)
	case error:
		return "{err=" + quoted(answer.Error()) + "}"
	case []any:
		text := "{"
		for _, part := range answer {
			text += inLua(part) + ","
		}
		return text + "}"
	}
	return "false"
}

// quoted is a text as a literal in Lua.
func quoted(text string) string {
	var b strings.Builder
	for i := range len(text) {
		fmt.Fprintf(&b, `\%03d`, text[i])
	}
	return `"` + b.String() + `"`
}
