package redisson

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/lockagent/lockagent/internal/redistest"
	"github.com/lockagent/lockagent/internal/waittest"
)

// playAll has Java play the transcripts. They specify what each primitive of Redisson leaves in Redis; README.md says
// how to read them.
func playAll(t *testing.T, redis *redistest.Server, java *process) {
	files, err := filepath.Glob("testdata/*.txt")
	must(t, err)
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txt"), func(t *testing.T) {
			text, err := os.ReadFile(file)
			must(t, err)
			if since, _, _ := strings.Cut(string(text), "\n"); strings.HasPrefix(since, "# since Redisson 4") &&
				os.Getenv(profileVariable) != "" {
				t.Skip("this Redisson is older: " + since)
			}
			redis.Do("FLUSHALL") // what the transcript before has left
			if got := play(t, redis, java, string(text)); got != string(text) {
				t.Errorf("%s says\n%s\nbut this is what happened:\n%s", file, text, got)
			}
		})
	}
}

// transcript is one that is being played.
type transcript struct {
	*testing.T
	redis   *redistest.Server
	process *process
	sub     *redistest.Conn // to all channels
	names   []string        // of what the commands so far were about
	nick    *nicknames
	waiting map[string]waiter // by the worker that waits
}

type waiter struct {
	answer  <-chan answer
	channel string // that nobody else listens to
}

// play has a process carry out the commands of a transcript. It returns the transcript, but with what
// has happened after each command.
func play(t *testing.T, redis *redistest.Server, p *process, text string) string {
	t.Helper()
	s := &transcript{
		T: t, redis: redis, process: p, sub: redis.Dial(),
		nick: &nicknames{of: make(map[string]string)}, waiting: make(map[string]waiter),
	}
	_, err := s.sub.Do("PSUBSCRIBE", "*")
	must(t, err)
	var played strings.Builder
	for line := range strings.Lines(text) {
		if strings.HasPrefix(line, "  ") {
			continue
		}
		played.WriteString(line)
		if words := strings.Fields(line); len(words) > 0 && words[0] != "#" {
			for _, happened := range s.step(words) {
				played.WriteString("  " + happened + "\n")
			}
		}
	}
	return played.String()
}

// step carries out one command, and says what happened.
func (s *transcript) step(words []string) (happened []string) {
	s.Helper()
	var woken []string
	if i := slices.Index(words, "wakes"); i >= 0 {
		words, woken = words[:i], words[i+1:]
	}
	waits := words[len(words)-1] == "waits"
	if waits {
		words = words[:len(words)-1]
	}
	worker, command, args := words[0], words[1], s.arguments(words[2:])
	s.nick.worker = worker
	heard, asked := s.channels(), s.asked()
	answer := s.process.send(worker, command, args...)
	if waits {
		s.waiting[worker] = waiter{answer, s.awaitWaiter(heard, asked)}
		if strings.HasPrefix(command, "read.") || strings.HasPrefix(command, "write.") {
			s.process.awaitSleep(s.T, worker)
		}
		pending(s.T, answer)
	} else {
		happened = append(happened, s.outcome(worker, answer)...)
	}
	for _, worker := range woken {
		s.nick.worker = worker
		w := s.waiting[worker]
		delete(s.waiting, worker)
		happened = append(happened, s.outcome(worker, w.answer)...)
		waittest.Until(s.T, "no subscriber of "+w.channel, func() bool { return !slices.Contains(s.channels(), w.channel) })
	}
	happened = append(happened, s.messages()...)
	for _, name := range s.names {
		happened = append(happened, wireOf(s.T, s.redis, name, s.nick)...)
	}
	return happened
}

var (
	inMinutes = regexp.MustCompile(`^[0-9]+m$`)
	ofAPermit = regexp.MustCompile(`p([0-9]+)`)
)

// arguments are those of a command: lengths of time in ms, and permits by their ids.
func (s *transcript) arguments(words []string) (args []any) {
	s.Helper()
	for i, word := range words {
		if i == 0 {
			for name := range strings.SplitSeq(word, ",") {
				if !slices.Contains(s.names, name) {
					s.names = append(s.names, name)
				}
			}
		} else if inMinutes.MatchString(word) {
			d, err := time.ParseDuration(word)
			must(s.T, err)
			word = strconv.FormatInt(d.Milliseconds(), 10)
		} else {
			word = ofAPermit.ReplaceAllStringFunc(word, func(nick string) string {
				n, err := strconv.Atoi(nick[1:])
				must(s.T, err)
				return s.nick.ids[n-1]
			})
		}
		args = append(args, word)
	}
	return args
}

// outcome waits for an answer, and tells it if there is one.
func (s *transcript) outcome(worker string, from <-chan answer) []string {
	s.Helper()
	switch a := receive(s.T, from); {
	case a.err != nil:
		class, _, _ := strings.Cut(a.err.Error(), ":")
		return []string{worker + " fails: " + class}
	case a.value != "":
		return []string{worker + " answers " + s.nick.replace(a.value)}
	}
	return nil
}

// channels are those of the names that somebody listens to.
func (s *transcript) channels() (channels []string) {
	for _, reply := range s.redis.Do("PUBSUB", "CHANNELS").([]any) {
		channel := reply.(string)
		if slices.ContainsFunc(s.names, func(name string) bool { return isOf(channel, name) }) {
			channels = append(channels, channel)
		}
	}
	return channels
}

// asked is how often Redis ran some commands. Whoever asks in vain for a lock, permits or a latch has it run one of
// them.
func (s *transcript) asked() (calls [3]int) {
	for i, command := range []string{"pttl", "hexists", "get"} {
		calls[i] = s.redis.Calls(command)
	}
	return calls
}

// awaitWaiter waits until somebody listens to one more channel, and has asked in vain before and after.
func (s *transcript) awaitWaiter(heard []string, asked [3]int) (channel string) {
	s.Helper()
	waittest.Until(s.T, "a waiter", func() bool {
		now := s.channels()
		i := slices.IndexFunc(now, func(channel string) bool { return !slices.Contains(heard, channel) })
		if i >= 0 {
			channel = now[i]
		}
		calls := s.asked()
		return channel != "" && (calls[0] >= asked[0]+2 || calls[1] >= asked[1]+2 || calls[2] >= asked[2]+2)
	})
	return channel
}

// messages are those that were published since the last call. Ours to our own channels are none of Redisson's business.
func (s *transcript) messages() (messages []string) {
	s.Helper()
	const fence = "lockagent_fence" // whatever comes before it was published before
	s.redis.Do("PUBLISH", fence, "")
	for {
		reply, err := s.sub.Receive()
		must(s.T, err)
		parts := reply.([]any) // "pmessage", the pattern, the channel, the message
		switch channel := parts[2].(string); {
		case channel == fence:
			return messages
		case !strings.HasPrefix(channel, "lockagent_"):
			messages = append(messages, fmt.Sprintf("message %s on %s", parts[3], s.nick.replace(channel)))
		}
	}
}
