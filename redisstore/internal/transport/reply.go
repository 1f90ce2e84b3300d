package transport

import (
	"bufio"
	"bytes"
	"errors"
	"io"
	"strconv"
	"strings"
)

// Reply is what a server answered to a command, or why it did not. The zero Reply is an answer that cannot be
// understood.
type Reply struct {
	kind  byte   // the letter of RESP3; 0 if there is no answer
	text  string // of what is text or an error
	items []Reply
	err   error // why there is no answer
}

// Refusal is an error reply, in the words of the server.
type Refusal string

func (r Refusal) Error() string { return string(r) }

// ErrNull is the error of a reply that says that there is nothing.
var ErrNull = errors.New("the server answers that there is nothing")

// errStrange is the error of a reply of another type than the command has.
var errStrange = errors.New("the server answers otherwise than Redis")

// Err is nil if the server answered with a value. It is a [Refusal] if the server answered with an error. Any other
// error says why there is no answer.
func (r Reply) Err() error {
	switch r.kind {
	case 0:
		if r.err == nil {
			return errStrange
		}
		return r.err
	case '-':
		return Refusal(r.text)
	}
	return nil
}

// Text is the value of a reply that is text or a number.
func (r Reply) Text() (string, error) {
	switch r.kind {
	case '$', ':':
		return r.text, nil
	case '_':
		return "", ErrNull
	}
	return "", r.strange()
}

// Number is the value of a reply that is a number, or says one.
func (r Reply) Number() (int64, error) {
	text, err := r.Text()
	if err != nil {
		return 0, err
	}
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil {
		return 0, errStrange
	}
	return n, nil
}

// Items are the values of a reply that is a list. Those of a map are its keys, each with its value behind it.
func (r Reply) Items() ([]Reply, error) {
	switch r.kind {
	case '*':
		return r.items, nil
	case '_':
		return nil, ErrNull
	}
	return nil, r.strange()
}

// Texts is the value of a reply that is a map, less what is not text or a number.
func (r Reply) Texts() (map[string]string, error) {
	items, err := r.Items()
	if err != nil {
		return nil, err
	}
	texts := make(map[string]string, len(items)/2)
	for i := 1; i < len(items); i += 2 {
		key, err := items[i-1].Text()
		value, err2 := items[i].Text()
		if err == nil && err2 == nil {
			texts[key] = value
		}
	}
	return texts, nil
}

// strange is the error of a reply that has another type than is asked for.
func (r Reply) strange() error {
	if err := r.Err(); err != nil {
		return err
	}
	return errStrange
}

// A server may send anything, by mistake or on purpose. A reply ends the connection if it is larger than every reply
// that the transport asks for.
const (
	maxReply  = 64 << 20 // bytes of memory
	maxNested = 16       // lists in lists
	eachReply = 64       // what the memory of a reply is counted as, beside its text
)

// errGarbage is the error of bytes that are no reply.
var errGarbage = errors.New("what the server sent is no reply of Redis")

// decoder reads replies. It uses no more memory than the server has sent bytes for.
type decoder struct {
	r    *bufio.Reader
	room int // of the reply that is read, in bytes
}

// reply reads the next reply, or message.
func (d *decoder) reply() (Reply, error) {
	d.room = maxReply
	return d.value(maxNested)
}

func (d *decoder) value(nested int) (Reply, error) {
	for {
		kind, line, err := d.line()
		if err != nil {
			return Reply{}, err
		}
		d.room -= eachReply + len(line)
		if d.room < 0 || nested == 0 {
			return Reply{}, errGarbage
		}
		switch kind {
		case '+', ',', '(':
			return Reply{kind: '$', text: string(line)}, nil
		case '-', ':':
			return Reply{kind: kind, text: string(line)}, nil
		case '#':
			return Reply{kind: ':', text: strconv.Itoa(bytes.Count(line, []byte("t")))}, nil
		case '_':
			return Reply{kind: '_'}, nil
		}
		n, err := strconv.Atoi(string(line))
		switch {
		case err != nil || n < -1 || n > d.room:
			return Reply{}, errGarbage
		case n < 0:
			return Reply{kind: '_'}, nil
		}
		switch kind {
		case '$', '!', '=':
			return d.blob(kind, n)
		case '*', '~', '>':
			return d.list(kind, n, nested)
		case '%':
			return d.list(kind, 2*n, nested)
		case '|': // says something about the reply behind it
			if _, err := d.list(kind, 2*n, nested); err != nil {
				return Reply{}, err
			}
		default:
			return Reply{}, errGarbage
		}
	}
}

// line reads a line. It is good until the next read.
func (d *decoder) line() (kind byte, rest []byte, err error) {
	line, err := d.r.ReadSlice('\n')
	if err != nil {
		return 0, nil, err
	}
	if len(line) < 3 || line[len(line)-2] != '\r' {
		return 0, nil, errGarbage
	}
	return line[0], line[1 : len(line)-2], nil
}

// blob reads a text of n bytes, and the end of its line.
func (d *decoder) blob(kind byte, n int) (Reply, error) {
	d.room -= n
	var text string
	if all := n + 2; all <= d.r.Size() {
		b, err := d.r.Peek(all)
		if err != nil {
			return Reply{}, err
		}
		text = string(b[:n])
		_, _ = d.r.Discard(all)
	} else {
		var b strings.Builder
		if _, err := io.CopyN(&b, d.r, int64(all)); err != nil {
			return Reply{}, err
		}
		text = b.String()[:n]
	}
	switch kind {
	case '!':
		return Reply{kind: '-', text: text}, nil
	case '=': // the first four bytes tell the format
		return Reply{kind: '$', text: text[min(4, n):]}, nil
	}
	return Reply{kind: '$', text: text}, nil
}

// list reads n values.
func (d *decoder) list(kind byte, n, nested int) (Reply, error) {
	if kind != '>' {
		kind = '*'
	}
	list := Reply{kind: kind, items: make([]Reply, 0, min(n, eachReply))}
	for range n {
		item, err := d.value(nested - 1)
		if err != nil {
			return Reply{}, err
		}
		list.items = append(list.items, item)
	}
	return list, nil
}

// appendCommand writes a command.
func appendCommand(b []byte, words ...string) []byte {
	b = appendWords(b, len(words))
	for _, w := range words {
		b = appendWord(b, w)
	}
	return b
}

// appendWords begins a command of n words.
func appendWords(b []byte, n int) []byte {
	b = append(b, '*')
	b = strconv.AppendInt(b, int64(n), 10)
	return append(b, "\r\n"...)
}

func appendWord(b []byte, word string) []byte {
	b = append(b, '$')
	b = strconv.AppendInt(b, int64(len(word)), 10)
	b = append(b, "\r\n"...)
	b = append(b, word...)
	return append(b, "\r\n"...)
}

// push is a message of a server that is no reply: its kind, and what it says.
func (r Reply) push() (kind string, words []string) {
	for _, item := range r.items {
		text, _ := item.Text()
		words = append(words, text)
	}
	if r.kind != '>' || len(words) == 0 {
		return "", nil
	}
	return words[0], words[1:]
}
