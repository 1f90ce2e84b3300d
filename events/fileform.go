package events

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
)

// FormError is returned by [ReadLines] for a file that is no text in UTF-8, and so has no lines of JSON.
type FormError struct {
	Form  string // what the file is, as a part of a sentence: "compressed by gzip"
	Lines string // the command that makes lines of it, and takes the file as its last argument: "gzip -dc"
}

func (e *FormError) Error() string {
	return fmt.Sprintf("events: the file is %s; %s makes lines of it", e.Form, e.Lines)
}

// forms are the first bytes of files that may have a log in them. A line of a log begins with none of them.
var forms = []struct{ begins, form, lines string }{
	{"\x1f\x8b", "compressed by gzip", "gzip -dc"},
	{"\x28\xb5\x2f\xfd", "compressed by zstd", "zstd -dc"},
	{"\xfd7zXZ\x00", "compressed by xz", "xz -dc"},
	{"BZh", "compressed by bzip2", "bzip2 -dc"},
	{"\x04\x22\x4d\x18", "compressed by lz4", "lz4 -dc"},
	{"PK\x03\x04", "a zip archive", "unzip -p"},
	{"\xff\xfe", "in UTF-16", "iconv -f UTF-16 -t UTF-8"},
	{"\xfe\xff", "in UTF-16", "iconv -f UTF-16 -t UTF-8"},
	{"{\x00", "in UTF-16", "iconv -f UTF-16LE -t UTF-8"},
	{"\x00{", "in UTF-16", "iconv -f UTF-16BE -t UTF-8"},
}

// longestForm is at least as long as what each of them begins with.
const longestForm = 16

// byteOrderMark is in front of what some programs write in UTF-8, above all on Windows. It is no part of the text.
var byteOrderMark = []byte("\xef\xbb\xbf")

// textIn returns the text of a file, or a [*FormError] if it is no text.
func textIn(file io.Reader) (io.Reader, error) {
	text := bufio.NewReaderSize(file, longestForm)
	begins, _ := text.Peek(longestForm) // whoever reads on meets the error, too
	for _, f := range forms {
		if bytes.HasPrefix(begins, []byte(f.begins)) {
			return nil, &FormError{f.form, f.lines}
		}
	}
	if bytes.HasPrefix(begins, byteOrderMark) {
		_, _ = text.Discard(len(byteOrderMark)) // they are there
	}
	return text, nil
}
