package main

import (
	"crypto/sha1"
	"encoding/hex"
	"fmt"
	"regexp"
	"strings"

	lua "github.com/yuin/gopher-lua"
)

// The scripts need little room. Each run of one makes it anew, and most of the time of a simulation would go there.
func init() { lua.RegistrySize, lua.CallStackSize = 1024, 64 }

// structLibrary is the one function of Redis's library struct that the scripts use. Miniredis lacks the library.
const structLibrary = `local struct = {pack = function(format, ...)
  assert(format == '>I4I4I4I4')
  local bytes = ''
  for _, n in ipairs({...}) do
    bytes = bytes .. string.char(
      math.floor(n / 2^24) % 256, math.floor(n / 2^16) % 256, math.floor(n / 2^8) % 256, n % 256)
  end
  return bytes
end}
`

// formatLibrary has string.format take a text for a number, as Lua does. In gopher-lua that gives another text.
const formatLibrary = `do
  local format = string.format
  string.format = function(pattern, ...)
    local args, i = {...}, 0
    for kind in string.gmatch(pattern, '%%[-+ #0-9.]*(%a)') do
      i = i + 1
      if string.find('dfgex', kind, 1, true) then
        args[i] = tonumber(args[i])
      end
    end
    return format(pattern, unpack(args))
  end
end
`

// swap is a line with an assignment of two values. If they are those of the same two variables, gopher-lua gets it
// wrong: afterwards both have the value of the second.
var swap = regexp.MustCompile(`(?m)^( *)(\w+), (\w+) = (\w+), (\w+)$`)

// complete returns a script as miniredis can run it.
func complete(source string) string {
	if strings.Contains(source, "struct.") {
		source = structLibrary + source
	}
	if strings.Contains(source, "string.format(") {
		source = formatLibrary + source
	}
	return swap.ReplaceAllStringFunc(source, func(line string) string {
		part := swap.FindStringSubmatch(line)
		a, b := part[2], part[3]
		if part[4] != b || part[5] != a {
			return line
		}
		return fmt.Sprintf("%slocal former = %s; %s = %s; %s = former", part[1], a, a, b, b)
	})
}

// complete puts a script in place of the one of an EVAL or an EVALSHA.
func (r *redis) complete(command string, args []string) {
	if command == "EVALSHA" {
		if digest, ok := r.digests[args[0]]; ok {
			args[0] = digest
		}
		return
	}
	source := args[0]
	args[0] = complete(source)
	r.digests[digestOf(source)] = digestOf(args[0])
}

func digestOf(source string) string {
	sum := sha1.Sum([]byte(source)) // the protocol names scripts by it
	return hex.EncodeToString(sum[:])
}
