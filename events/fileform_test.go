package events

import (
	"bytes"
	"compress/gzip"
	"encoding/binary"
	"errors"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"unicode/utf16"

	"github.com/lockagent/lockagent"
	"github.com/lockagent/lockagent/events/internal/eventstest"
)

// someLines are a log of three lines, with characters that are no ASCII.
func someLines(t *testing.T) []byte {
	t.Helper()
	var log bytes.Buffer
	for i := range 3 {
		r := Record{
			Event: lockagent.Event{Kind: lockagent.EventRequested, Lock: "orders/42", Request: uint64(i), Owner: "w"},
			Epoch: 1, Seq: uint64(i + 1),
		}
		r.Agent, r.Lock = eventstest.Agent, "Aufträge/Öl"
		if err := WriteLine(&log, r); err != nil {
			t.Fatal(err)
		}
	}
	return log.Bytes()
}

// numbersIn returns the numbers of the records, and why a file cannot be read. Each line must be an event.
func numbersIn(t *testing.T, file []byte) (numbers []uint64, err error) {
	t.Helper()
	err = ReadLines(bytes.NewReader(file), func(r *Record, err error) error {
		numbers = append(numbers, r.Seq)
		return err
	})
	return numbers, err
}

// inUTF16 is a text as Windows writes it.
func inUTF16(order binary.AppendByteOrder, text []byte) (file []byte) {
	for _, unit := range utf16.Encode([]rune(string(text))) {
		file = order.AppendUint16(file, unit)
	}
	return file
}

// TestReadLinesOfAnotherForm: a log that is compressed or in UTF-16 is refused once, with what it is and the command
// that makes lines of it. The command does so.
func TestReadLinesOfAnotherForm(t *testing.T) {
	t.Parallel()
	log := someLines(t)
	var zipped bytes.Buffer
	z := gzip.NewWriter(&zipped)
	if _, err := z.Write(log); err != nil || z.Close() != nil {
		t.Fatal(err)
	}
	packed := func(command ...string) []byte {
		cmd := exec.Command(command[0], command[1:]...)
		cmd.Stdin = bytes.NewReader(log)
		out, err := cmd.Output()
		if errors.Is(err, exec.ErrNotFound) {
			return nil
		}
		if err != nil {
			t.Fatal(err)
		}
		return out
	}
	for form, file := range map[string][]byte{
		"compressed by gzip":      zipped.Bytes(),
		"compressed by zstd":      packed("zstd", "-c"),
		"compressed by xz":        packed("xz", "-c"),
		"compressed by bzip2":     packed("bzip2", "-c"),
		"compressed by lz4":       packed("lz4", "-c"),
		"in UTF-16, little":       append([]byte("\xff\xfe"), inUTF16(binary.LittleEndian, log)...),
		"in UTF-16, big":          append([]byte("\xfe\xff"), inUTF16(binary.BigEndian, log)...),
		"in UTF-16, little, bare": inUTF16(binary.LittleEndian, log),
		"in UTF-16, big, bare":    inUTF16(binary.BigEndian, log),
	} {
		if file == nil {
			t.Logf("there is no program that makes files %s", form)
			continue
		}
		numbers, err := numbersIn(t, file)
		bad, ok := errors.AsType[*FormError](err)
		if len(numbers) > 0 || !ok || !strings.HasPrefix(form, bad.Form) {
			t.Errorf("%s: read %v, %v", form, numbers, err)
			continue
		}
		words := strings.Fields(bad.Lines)
		cmd := exec.Command(words[0], words[1:]...)
		cmd.Stdin = bytes.NewReader(file)
		if text, err := cmd.Output(); err != nil || !bytes.Equal(bytes.TrimPrefix(text, byteOrderMark), log) {
			t.Errorf("%s makes %q of it, %v", bad.Lines, text, err)
		}
	}
	for _, f := range forms {
		if len(f.begins) > longestForm {
			t.Errorf("%s begins with more than %d bytes", f.form, longestForm)
		}
	}
}

// TestReadLinesWithAMark: a mark in front of the text, and ends of lines as on Windows, change nothing.
func TestReadLinesWithAMark(t *testing.T) {
	t.Parallel()
	log := someLines(t)
	for name, file := range map[string][]byte{
		"AsItIs":     log,
		"Mark":       append(slices.Clone(byteOrderMark), log...),
		"Windows":    append(slices.Clone(byteOrderMark), bytes.ReplaceAll(log, []byte("\n"), []byte("\r\n"))...),
		"NoLastLine": bytes.TrimSpace(log),
	} {
		if numbers, err := numbersIn(t, file); err != nil || !slices.Equal(numbers, []uint64{1, 2, 3}) {
			t.Errorf("%s: read %v, %v", name, numbers, err)
		}
	}
	for _, empty := range []string{"", "\n", "\r\n", string(byteOrderMark)} {
		if numbers, err := numbersIn(t, []byte(empty)); err != nil || len(numbers) > 0 {
			t.Errorf("%q: read %v, %v", empty, numbers, err)
		}
	}
}
