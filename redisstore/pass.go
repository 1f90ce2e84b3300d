package redisstore

import (
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/lockagent/lockagent"
)

// passChannel is where a store hears of what is passed on to it.
func passChannel(id string) string { return reserved + "pass:" + id }

// parsePass reads the message that release.lua publishes: the tenure, the first token,
// how many there are, the time, the incarnation and the lock, with spaces between.
func parsePass(message string) (lockagent.Name, *lockagent.Pass, error) {
	fields := strings.SplitN(message, " ", 6)
	if len(fields) < 6 {
		return "", nil, fmt.Errorf("a pass of %d fields", len(fields))
	}
	agent, number, _ := strings.Cut(fields[0], ":")
	n, err := strconv.ParseUint(number, 10, 63)
	token, err2 := strconv.ParseUint(fields[1], 10, 64)
	tokens, err3 := strconv.Atoi(fields[2])
	at, err4 := strconv.ParseInt(fields[3], 10, 64)
	return lockagent.Name(fields[5]), &lockagent.Pass{
		Tenure:      lockagent.Tenure{Agent: lockagent.AgentID(agent), Number: n},
		Lease:       lockagent.PassLease,
		Token:       lockagent.Token(token),
		Tokens:      tokens,
		At:          lockagent.StoreTime(at),
		Incarnation: fields[4],
	}, errors.Join(err, err2, err3, err4)
}
