package events

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"math"
	"math/big"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json/jsontext"
)

// stretch is a part of a text. One that ends at 0 is none.
type stretch struct{ from, to int }

// tokens reads a JSON text from front to back. The first error ends it: then there is nothing more, so that all loops
// end. A caller looks at err once, at the end. Names that come twice in an object are an error, and so is what is not
// UTF-8: two readers could take different ones.
type tokens struct {
	text []byte
	err  error

	decoder jsontext.Decoder
	buffer  bytes.Buffer // of the text
}

// read begins with another text, which must not change meanwhile.
func (t *tokens) read(text []byte) {
	t.text, t.err = text, nil
	t.buffer = *bytes.NewBuffer(text)
	t.decoder.Reset(&t.buffer)
}

func (t *tokens) fail(format string, args ...any) {
	if t.err == nil {
		t.err = fmt.Errorf(format, args...)
	}
}

// broken fails with an error of the decoder.
func (t *tokens) broken(err error) {
	if errors.Is(err, io.EOF) {
		err = io.ErrUnexpectedEOF
	}
	if t.err == nil {
		t.err = err
	}
}

// open reads the beginning of an object or a list.
func (t *tokens) open(kind jsontext.Kind, wanted string) {
	if t.err != nil {
		return
	}
	if got := t.decoder.PeekKind(); got != kind && got != 0 {
		text := got.String()
		if strings.HasPrefix(text, "<") { // no JSON begins with that
			text = strconv.QuoteRune(rune(got))
		}
		t.fail("byte %d: %s stands where %s is wanted", t.decoder.InputOffset(), text, wanted)
	} else if _, err := t.decoder.ReadToken(); err != nil {
		t.broken(err)
	}
}

// more reports whether the object or the list has another member. Otherwise it reads the end.
func (t *tokens) more() bool {
	if t.err != nil {
		return false
	}
	switch t.decoder.PeekKind() {
	case '}', ']', 0:
		if _, err := t.decoder.ReadToken(); err != nil {
			t.broken(err)
		}
		return false
	}
	return true
}

// value reads the next value, or the name of a member.
func (t *tokens) value() (v jsontext.Value, at stretch) {
	if t.err != nil {
		return nil, stretch{}
	}
	v, err := t.decoder.ReadValue()
	if err != nil {
		t.broken(err)
		return nil, stretch{}
	}
	to := int(t.decoder.InputOffset())
	return v, stretch{to - len(v), to}
}

// end expects the end of the text.
func (t *tokens) end() {
	if t.err != nil {
		return
	}
	if _, err := t.decoder.ReadToken(); err == nil {
		t.fail("byte %d: something stands behind the end", t.decoder.InputOffset())
	} else if !errors.Is(err, io.EOF) {
		t.broken(err)
	}
}

// textOf is the text of a string that is valid JSON. What it returns is valid for as long as v is.
func textOf(v jsontext.Value) ([]byte, error) {
	switch {
	case v.Kind() != '"':
		return nil, fmt.Errorf("%s stands where a string is wanted", v.Kind())
	case bytes.IndexByte(v, '\\') < 0:
		return v[1 : len(v)-1], nil
	}
	return jsontext.AppendUnquote(nil, v)
}

var errRange = errors.New("the number is out of range")

// unsigned is a number from 0 on.
func unsigned(v jsontext.Value) (uint64, error) {
	if n, err := strconv.ParseUint(string(v), 10, 64); err == nil {
		return n, nil
	}
	f, err := integral(v)
	if err != nil {
		return 0, err
	}
	n, accuracy := f.Uint64()
	if accuracy != big.Exact {
		return 0, errRange
	}
	return n, nil
}

// signed is a number of 64 bits. An int is taken to have as many.
func signed(v jsontext.Value) (int64, error) {
	if n, err := strconv.ParseInt(string(v), 10, 64); err == nil {
		return n, nil
	}
	f, err := integral(v)
	if err != nil {
		return 0, err
	}
	n, accuracy := f.Int64()
	if accuracy != big.Exact {
		return 0, errRange
	}
	return n, nil
}

// integral is a number that is an integer, however it is spelled: other programs write 1e18.
func integral(v jsontext.Value) (*big.Float, error) {
	if v.Kind() != '0' {
		return nil, fmt.Errorf("%s stands where a number is wanted", v.Kind())
	}
	f, _, err := big.ParseFloat(string(v), 10, 4*math.MaxUint8, big.ToZero)
	switch {
	case err != nil:
		return nil, errRange
	case !f.IsInt():
		return nil, fmt.Errorf("the number %.40s is no integer", v)
	}
	return f, nil
}
