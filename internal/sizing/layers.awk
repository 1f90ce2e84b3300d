# layers.awk makes a table out of `go tool pprof -traces`: how much of the processor
# time was spent in each layer, with what that had the runtime do for it. A sample
# belongs to the innermost of our layers on its stack.

function layer(frame) {
	if (frame ~ /internal\/poll\.|syscall\.(Read|Write|read|write)/) return "sockets (system calls)"
	if (frame ~ /redis\/rueidis/) return "rueidis"
	if (frame ~ /lockagent\/redisstore\./) return "redisstore"
	if (frame ~ /lockagent\/internal\/lockstate\./) return "state machine"
	if (frame ~ /asynkron\/protoactor/) return "actor library"
	if (frame ~ /lockagent\/actor\.\(\*(registry|entry|shard|mailbox)\)|lockagent\/actor\.send/) return "registry and mailbox"
	if (frame ~ /lockagent\/actor\./) return "actor"
	if (frame ~ /lockagent\/channelapi\.|lockagent\/lockagent\./) return "API and grants"
	if (frame ~ /lockagent\/internal\/sizing\./) return "the caller"
	if (frame ~ /runtime\.(gcBgMarkWorker|bgsweep|bgscavenge|gcStart)/) return "garbage collection"
	return ""
}

function milliseconds(text) {
	if (text ~ /ms$/) return text + 0
	if (text ~ /us$|µs$/) return text / 1000
	return text * 1000 # seconds; longer profiles are not made
}

function finish() {
	if (value > 0) {
		spent[found == "" ? "scheduler" : found] += value
		total += value
	}
	value = 0
	found = ""
}

/^-----------\+/ { finish(); started = 1; next }
!started || /bytes:|^ *$/ { next }
{
	frame = $0
	if (value == 0 && $1 ~ /^[0-9.]+(ms|s|us|µs)$/) value = milliseconds($1)
	if (found == "") found = layer(frame)
}
END {
	finish()
	for (name in spent) printf "%5.1f %%  %6.2f µs  %s\n", 100 * spent[name] / total, 1000 * spent[name] / n, name | "sort -rn"
	close("sort -rn")
	printf "         %6.2f µs  in all, for each\n", 1000 * total / n
}
