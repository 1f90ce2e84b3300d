package transport

import (
	"context"
	"errors"
	"os"
	"strings"
	"sync"
	"time"
)

// session is a connection that is read all the time. So messages can come, and the loss of the connection is noticed at
// once, even while nobody asks. Several goroutines may ask at the same time. A session has to be closed.
type session struct {
	wire  *wire
	heard func(kind string, words []string) // is told of each message that answers no command; must not block
	lost  chan struct{}                     // closed when the connection was lost, and everybody who asked was answered

	mu      sync.Mutex // guards what follows, and the order in which is written
	waiting []*asked   // the oldest first
	err     error      // why the connection was lost; nil before
}

// asked are commands that wait for replies.
type asked struct {
	commands [][]string
	replies  []Reply
	answered chan struct{} // closed when there is a reply to each command
}

// errUnasked ends a session: nobody knows any more which command a reply is to.
var errUnasked = errors.New("the server answers what nobody asked")

// open makes a session.
func (n *Node) open(ctx context.Context, heard func(kind string, words []string)) (*session, error) {
	w, err := n.connect(ctx)
	if err != nil {
		return nil, err
	}
	s := &session{wire: w, heard: heard, lost: make(chan struct{})}
	go s.run()
	return s, nil
}

// close gives up the connection.
func (s *session) close() {
	_ = s.wire.Close()
	<-s.lost
}

// do sends commands, and waits for the replies. There is one to each, even if it is an error of the connection or of
// ctx.
func (s *session) do(ctx context.Context, commands ...[]string) []Reply {
	a := s.send(commands)
	select {
	case <-a.answered:
		return a.replies
	case <-ctx.Done():
		return unanswered(nil, len(commands), ctx.Err())
	}
}

// unanswered adds replies up to n, which say why there are none.
func unanswered(replies []Reply, n int, err error) []Reply {
	for len(replies) < n {
		replies = append(replies, Reply{err: err})
	}
	return replies
}

// send sends commands.
func (s *session) send(commands [][]string) *asked {
	a := &asked{commands: commands, answered: make(chan struct{})}
	var out []byte
	for _, c := range commands {
		out = appendCommand(out, c...)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.err != nil {
		a.end(s.err)
		return a
	}
	s.waiting = append(s.waiting, a)
	_ = s.wire.SetWriteDeadline(time.Now().Add(s.wire.dialer.silence))
	if _, err := s.wire.Write(out); err != nil {
		s.err = err
		_ = s.wire.Conn.Close() // so the reader answers
	}
	return a
}

func (a *asked) end(err error) {
	a.replies = unanswered(a.replies, len(a.commands), err)
	close(a.answered)
}

// run reads until the connection is lost.
func (s *session) run() {
	defer close(s.lost)
	err := s.read()
	_ = s.wire.Close()
	s.mu.Lock()
	if s.err == nil {
		s.err = err
	}
	waiting := s.waiting
	s.waiting = nil
	s.mu.Unlock()
	for _, a := range waiting {
		a.end(s.err)
	}
}

func (s *session) read() error {
	for {
		_ = s.wire.SetReadDeadline(time.Now().Add(keepAlive))
		if _, err := s.wire.r.Peek(1); errors.Is(err, os.ErrDeadlineExceeded) {
			s.send([][]string{{"PING"}}) // the dialer cuts the connection if there is no answer
			continue
		}
		r, err := s.wire.reply()
		if err != nil {
			return err
		}
		kind, words := r.push()
		if s.answers(r, kind, words) {
			continue
		}
		if r.kind != '>' {
			return errUnasked
		}
		s.heard(kind, words)
	}
}

// answers gives a reply to who waits for it. It reports false if nobody does. A server confirms that it subscribed a
// channel by a message.
func (s *session) answers(r Reply, kind string, words []string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.waiting) == 0 {
		return false
	}
	a := s.waiting[0]
	command := a.commands[len(a.replies)]
	confirms := len(command) == 2 && len(words) > 1 && strings.EqualFold(command[0], kind) && command[1] == words[0]
	if r.kind == '>' && !confirms {
		return false
	}
	a.replies = append(a.replies, r)
	if len(a.replies) == len(a.commands) {
		s.waiting = s.waiting[1:]
		close(a.answered)
	}
	return true
}

// Ask asks the node one question.
func (n *Node) Ask(ctx context.Context, command ...string) Reply { return n.AskAll(ctx, command)[0] }

// AskAll asks the node questions, in one go. There is a reply to each. The connection for that is none of the lane's.
// Its loss is noticed at once, even while nobody asks.
func (n *Node) AskAll(ctx context.Context, commands ...[]string) []Reply {
	s, err := n.session(ctx)
	if err != nil {
		return unanswered(nil, len(commands), err)
	}
	return s.do(ctx, commands...)
}

// session returns the session for questions. It makes one if there is none, or it was lost.
func (n *Node) session(ctx context.Context) (*session, error) {
	select {
	case n.asking <- struct{}{}:
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	defer func() { <-n.asking }()
	if n.questions != nil {
		select {
		case <-n.questions.lost:
		default:
			return n.questions, nil
		}
	}
	s, err := n.open(ctx, func(string, []string) {})
	if err != nil {
		return nil, err
	}
	n.questions = s
	return s, nil
}
