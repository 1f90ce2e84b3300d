package events

import (
	"bufio"
	"errors"
	"fmt"
	"io"
)

// maxLine bounds a line of a file. The longest event is much shorter.
const maxLine = 1 << 20

// WriteLine writes r as one line of JSON.
func WriteLine(w io.Writer, r Record) error {
	_, err := w.Write(append(Append(nil, r), '\n'))
	return err
}

// ReadLines calls visit for each line that [WriteLine] wrote. The Position of a
// record is the number of its line. Empty lines are skipped and not counted.
//
// It returns nil at the end of in, what visit returned, or why in cannot be read. That is a [*FormError] if it is
// compressed or no text in UTF-8.
func ReadLines(in io.Reader, visit Visit) error {
	in, err := textIn(in)
	if err != nil {
		return err
	}
	lines := bufio.NewScanner(in)
	lines.Buffer(nil, maxLine)
	decoder, number, position := newDecoder(), uint64(0), uint64(0)
	var record Record
	for lines.Scan() {
		number++
		if len(lines.Bytes()) == 0 {
			continue
		}
		position++
		err := decoder.decode(lines.Bytes(), &record)
		if err != nil {
			record, err = Record{}, &DecodeError{Position: number, Err: err}
		}
		record.Position = position
		if err := visit(&record, err); err != nil {
			return err
		}
	}
	if err := lines.Err(); errors.Is(err, bufio.ErrTooLong) {
		return fmt.Errorf("events: line %d is longer than %d bytes", number+1, maxLine)
	} else if err != nil {
		return fmt.Errorf("events: %w", err)
	}
	return nil
}
