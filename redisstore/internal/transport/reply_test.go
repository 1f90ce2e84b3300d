package transport

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/redis/rueidis"

	"github.com/lockagent/lockagent/internal/waittest"
)

// decoded are the replies in what a server sends, and why there are no more.
func decoded(sent string) (replies []Reply, err error) {
	d := decoder{r: bufio.NewReaderSize(strings.NewReader(sent), 64)}
	for {
		r, err := d.reply()
		if err != nil {
			return replies, err
		}
		replies = append(replies, r)
	}
}

func TestReplies(t *testing.T) {
	long := strings.Repeat("x", 1000)
	for sent, want := range map[string]string{
		"+OK\r\n":                        "OK",
		"$5\r\na\r\nbc\r\n":              "a\r\nbc",
		"$0\r\n\r\n":                     "",
		"$1000\r\n" + long + "\r\n":      long,
		":-7\r\n":                        "-7",
		"#t\r\n":                         "1",
		"#f\r\n":                         "0",
		",1.5\r\n":                       "1.5",
		"(12345678901234567890\r\n":      "12345678901234567890",
		"=7\r\ntxt:abc\r\n":              "abc",
		"=2\r\nab\r\n":                   "",
		"|1\r\n+a\r\n+b\r\n+OK\r\n":      "OK",
		"_\r\n":                          ErrNull.Error(),
		"$-1\r\n":                        ErrNull.Error(),
		"*-1\r\n":                        ErrNull.Error(),
		"-ERR no\r\n":                    "ERR no",
		"!6\r\nERR no\r\n":               "ERR no",
		"*0\r\n":                         errStrange.Error(),
		"*2\r\n:1\r\n*1\r\n+a\r\n":       errStrange.Error(),
		">2\r\n+message\r\n+a\r\n":       errStrange.Error(),
		"%1\r\n+a\r\n:1\r\n":             errStrange.Error(),
		"~3\r\n+a\r\n-ERR no\r\n_\r\n":   errStrange.Error(),
		"*3\r\n$1\r\na\r\n$-1\r\n:1\r\n": errStrange.Error(),
	} {
		replies, err := decoded(sent)
		if len(replies) != 1 || !errors.Is(err, io.EOF) {
			t.Errorf("%.40q is %d replies, and then %v", sent, len(replies), err)
			continue
		}
		got, err := replies[0].Text()
		if err != nil {
			got = err.Error()
		}
		if got != want {
			t.Errorf("%.40q is %.40q, want %.40q", sent, got, want)
		}
	}
	replies, _ := decoded("%3\r\n+a\r\n:1\r\n+b\r\n*0\r\n+c\r\n$1\r\nd\r\n")
	if texts, err := replies[0].Texts(); err != nil || fmt.Sprint(texts) != "map[a:1 c:d]" {
		t.Errorf("a map is %v, %v", texts, err)
	}
	for _, sent := range []string{
		"\r\n", "\n", "OK\r\n", "$\r\n", "$x\r\n", "$-2\r\n", "*-2\r\n", "%-9\r\n", "$99999999999999999999\r\n",
		"$9223372036854775807\r\n",
		"*9223372036854775807\r\n", "%4611686018427387904\r\n", "*67108864\r\n", "$67108865\r\n",
		"$?\r\n;1\r\na\r\n;0\r\n", "*?\r\n.\r\n",
		strings.Repeat("*1\r\n", 1_000_000), strings.Repeat("|1\r\n", 1_000_000), "+a\n", ";4\r\nabcd\r\n",
	} {
		if replies, err := decoded(sent); len(replies) > 0 || !errors.Is(err, errGarbage) {
			t.Errorf("%.40q is %d replies, and then %v", sent, len(replies), err)
		}
	}
}

// What a server sends is replies or errors, within the memory that it is worth, and the program asks for every type of
// value without harm.
func FuzzReplies(f *testing.F) {
	for _, sent := range []string{
		"+OK\r\n", "$1\r\na\r\n", "*2\r\n:1\r\n_\r\n", "%1\r\n+a\r\n#t\r\n", ">3\r\n+message\r\n+a\r\n+b\r\n",
		"=5\r\ntxt:a\r\n", "-ERR\r\n", "$-5\r\n",
	} {
		f.Add(sent)
	}
	n := &Node{addr: "127.0.0.1:1"}
	f.Fuzz(func(t *testing.T, sent string) {
		replies, err := decoded(sent)
		if err == nil {
			t.Error("it never ends")
		}
		for _, r := range replies {
			_, err := r.Text()
			_, _ = r.Number()
			_, _ = r.Items()
			_, _ = r.Texts()
			_, _ = r.push()
			_, _ = n.slotRange(r)
			if r.Err() != nil && err == nil {
				t.Errorf("%q is text and an error", sent)
			}
		}
	})
}

// A session is given up when nobody knows any more what a server answers to. Everybody who asked hears of it.
func TestASessionThatIsToldWhatNobodyAsked(t *testing.T) {
	for _, sent := range []string{"+OK\r\n+OK\r\n", "+OK\r\n-ERR\r\n", "garbage\r\n", "+OK\r\n$-7\r\n"} {
		server := scripted(t, sent)
		n := connect(t, config(server)).Master(0)
		s, err := n.open(t.Context(), func(string, []string) {})
		if err != nil {
			t.Fatal(err)
		}
		_ = s.do(t.Context(), []string{"TIME"})
		waittest.Receive(t, "the session to end", s.lost)
		if err := s.do(t.Context(), []string{"TIME"})[0].Err(); !errors.Is(err, errUnasked) &&
			!errors.Is(err, errGarbage) {
			t.Errorf("after %q: %v", sent, err)
		}
		s.close()
	}
}

// A line that was sent more than was asked for makes another connection: what came would be taken for the next reply.
// So it does after bytes that are no reply, whatever length they tell.
func TestALineThatWasSentTooMuch(t *testing.T) {
	m := new(moody)
	n := connect(t, config(m.start(t))).Master(0)
	ask := func() (string, error) {
		replies := make([]Reply, 1)
		n.direct[0](t.Context(), time.Now().Add(patience), rueidis.Commands{n.builder.Time().Build()}, replies)
		return replies[0].Text()
	}
	m.say("+mine\r\n+of nobody")
	for range 3 {
		if text, err := ask(); text != "mine" {
			t.Fatalf("answered %q, %v", text, err)
		}
	}
	for _, sent := range []string{
		"$-5", "*-2", "$1099511627776", "*9999999999", "%-1", "=-1", "_x", "#true", strings.Repeat("*1\r\n", 1_000_000),
		"?",
	} {
		m.say(sent)
		if text, err := ask(); !errors.Is(err, errGarbage) {
			t.Errorf("answered %q, %v", text, err)
		}
		m.say("+well")
		if text, err := ask(); text != "well" {
			t.Errorf("answered %q, %v", text, err)
		}
	}
	m.say("$-1")
	if _, err := ask(); !errors.Is(err, ErrNull) {
		t.Errorf("answered %v", err)
	}
}

// A session that hears nothing asks whether the server is there.
func TestASessionThatIsQuiet(t *testing.T) {
	ours, theirs := net.Pipe()
	defer func() { _ = theirs.Close() }()
	d := newDialer(t.Context(), &Config{Silence: patience}, func() {})
	c := &conn{Conn: quiet{ours}, dialer: d, made: time.Now(), forget: func() bool { return true }}
	s := &session{wire: &wire{conn: c, decoder: decoder{r: bufio.NewReader(c)}}, lost: make(chan struct{})}
	go s.run()
	defer s.close()
	r := bufio.NewReader(theirs)
	for range 2 {
		for _, want := range []string{"*1", "$4", "PING"} {
			if line, err := r.ReadString('\n'); err != nil || strings.TrimSpace(line) != want {
				t.Fatalf("it sent %q, %v; want %q", line, err, want)
			}
		}
		if _, err := io.WriteString(theirs, "-MISCONF no disk\r\n"); err != nil {
			t.Fatal(err)
		}
	}
}

// quiet is a connection whose deadlines come at once.
type quiet struct{ net.Conn }

func (q quiet) SetReadDeadline(time.Time) error {
	return q.Conn.SetReadDeadline(time.Now().Add(time.Millisecond))
}

// scripted is a server that answers each command but HELLO, and what the transport asks while it connects, with the
// same bytes.
func scripted(t *testing.T, sent string) (addr string) {
	t.Helper()
	m := new(moody)
	m.say(strings.TrimSuffix(sent, "\r\n"))
	return m.start(t)
}
