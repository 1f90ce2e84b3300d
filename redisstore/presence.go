package redisstore

import (
	"crypto/rand"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/lockagent/lockagent"
	"github.com/lockagent/lockagent/redisstore/internal/script"
)

// presence finds out whether another process listens as the same agent. listener.mu guards it.
//
// Whenever the agent's channel stands, the store publishes "here" with a new word on that channel. All who listen as
// the agent hear it, in one order. Whoever has heard its own word, and then hears one that it has not made, was there
// first and answers "taken" with that word. Whoever hears "taken" with its own word came later, and its agent is
// told.
//
// The words are new each time that the channel stands. So a machine that was copied while it ran is found out, too:
// its copy has to connect anew, and says a word that the original has not made.
//
// Messages go to all databases of a server. A word begins with the number of its database, and whoever listens in
// another one does not mind the word: a quorum may have several databases of one server.
type presence struct {
	words []string // the latest ones that this store has made; the last is the present one
	back  bool     // the present word was heard
	only  bool     // the server says that nobody but this store has got it
	late  bool     // whoever has got it had time to answer
	elder []string // the words of others that were heard before the present one: they may come again
	told  bool     // that the agent is alone, since the channel stands
	twin  bool     // the agent was told of a twin, and ends: from now on it answers nobody
}

const (
	// answerTime is how long others have to answer. It passes only where others may listen: in a Cluster, whose nodes
	// count only their own clients, or while the connection of a process that is gone still stands.
	answerTime = 300 * time.Millisecond
	// sayAgain is the pause before a message is published again after a failure.
	sayAgain = 250 * time.Millisecond
	// wordsKept is more than can be on their way.
	wordsKept = 64
)

// is reports whether a word is the present one.
func (p *presence) is(word string) bool { return len(p.words) > 0 && p.words[len(p.words)-1] == word }

// announce says that the agent is here. It is called when the agent's channel stands.
func (l *listener) announce() {
	word := l.database() + rand.Text()
	l.mu.Lock()
	words := append(l.presence.words, word)
	l.presence = presence{words: words[max(0, len(words)-wordsKept):], twin: l.presence.twin}
	l.mu.Unlock()
	l.publish(script.Here(word), word, func(received int, err error) {
		l.mark(word, func(p *presence) { p.only = err == nil && received == 1 && !l.store.room.Cluster() })
		time.AfterFunc(answerTime, func() {
			l.mark(word, func(p *presence) {
				// Whoever may not publish cannot find out, and many servers behind one address may keep messages from
				// each other.
				p.late = true
				p.back = p.back || err != nil || l.store.room == script.Unqueued
			})
		})
	})
}

// unheard is called when the user may not subscribe to the agent's channel: nobody can tell whether the agent is alone.
func (l *listener) unheard() {
	l.mu.Lock()
	p := &l.presence
	alone := !l.closed && !p.told && !p.twin
	p.told = p.told || alone
	l.mu.Unlock()
	if alone {
		l.hear(lockagent.Message{Kind: lockagent.MessageAlone})
	}
}

// mark changes what is known of the present word, and tells the agent if it is alone.
func (l *listener) mark(word string, change func(*presence)) {
	l.mu.Lock()
	p := &l.presence
	alone := false
	if p.is(word) && !l.closed {
		change(p)
		alone = p.back && (p.only || p.late) && !p.told && !p.twin
		p.told = p.told || alone
	}
	l.mu.Unlock()
	if alone {
		l.hear(lockagent.Message{Kind: lockagent.MessageAlone})
	}
}

// database is what the words of the database begin with.
func (l *listener) database() string { return strconv.Itoa(l.store.database) + "." }

// present takes a "here", or a "taken" that answers one.
func (l *listener) present(word string, answers bool) {
	if !strings.HasPrefix(word, l.database()) {
		return
	}
	l.mu.Lock()
	p := &l.presence
	own := slices.Contains(p.words, word)
	first := p.back && !p.twin && !l.closed && !slices.Contains(p.elder, word)
	switch {
	case own && answers:
		p.twin = true
	case !own && !answers && !p.back:
		p.elder = append(p.elder, word)
	}
	l.mu.Unlock()
	switch {
	case own && answers:
		l.hear(lockagent.Message{Kind: lockagent.MessageTwin})
	case own:
		l.mark(word, func(p *presence) { p.back = true })
	case first && !answers:
		l.store.logger.Warn("lockagent: another process has the identity of this agent, and is told to end; "+
			"see which state of a daemon or Config.ID is a copy", "agent", l.agent)
		l.publish(script.Taken(word), "", func(int, error) {})
	}
}

// publish publishes a message to the agent, until that has succeeded or cannot, or the word is not the present one any
// more, if there is one. It tells how many clients of the server have got the message.
func (l *listener) publish(message, word string, done func(received int, err error)) {
	var c script.Call
	l.store.room.Publish(&c, l.agent, message)
	// All messages go by way of one node of a Cluster. So all hear them in one order.
	l.store.send(&c, l.store.slot(script.IdentityKey), func(text string, err error) {
		if err == nil || lockagent.Definite(err) {
			received, _ := strconv.Atoi(text)
			done(received, err)
			return
		}
		time.AfterFunc(sayAgain, func() {
			l.mu.Lock()
			due := !l.closed && (word == "" || l.presence.is(word))
			l.mu.Unlock()
			if due {
				l.publish(message, word, done)
			}
		})
	})
}
