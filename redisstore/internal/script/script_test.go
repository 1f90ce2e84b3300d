package script

import "testing"

// A function stays if code names it, also in a function that stays. A comment that names a function does not count.
func TestAScriptHasTheFunctionsThatItUses(t *testing.T) {
	const source = `local function last() return 2 end
local function first()
  return last() -- not as unused
end
-- See unused.
local function unused()
  return missing()
end
local function missing() return 1 end
return first()
`
	const want = `local function last() return 2 end
local function first()
  return last() -- not as unused
end
return first()
`
	if got := include(source); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}
