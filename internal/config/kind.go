package config

import (
	"errors"
	"fmt"
	"io/fs"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
)

// kind is what the values of a setting are. A value is reached through a pointer to its field.
type kind interface {
	name() string                 // for the documentation
	text(field any) string        // the value for people, without secrets
	schema(schema map[string]any) // adds what the value must be to its schema
}

// scalar is a kind whose values are one text.
type scalar interface {
	kind
	wants() string
	tag() string                      // in YAML
	set(field any, text string) error // the error goes on from the name of the setting
}

// The tags of scalars in YAML.
const (
	tagText    = "!!str"
	tagNumber  = "!!int"
	tagBoolean = "!!bool"
)

// not says that a kind wants something else than text.
func not(k scalar, text string) error { return fmt.Errorf("wants %s, not %.64q", k.wants(), text) }

// meant is not with what the text may have meant.
func meant(k scalar, text, better string) error {
	return fmt.Errorf("wants %s, not %.64q; did you mean %.64s?", k.wants(), text, better)
}

// boolean is true or false.
type boolean struct{}

func (boolean) name() string                 { return "boolean" }
func (boolean) wants() string                { return "true or false" }
func (boolean) tag() string                  { return tagBoolean }
func (boolean) text(field any) string        { return strconv.FormatBool(*field.(*bool)) }
func (boolean) schema(schema map[string]any) { schema["type"] = "boolean" }

func (k boolean) set(field any, text string) error {
	if text != "true" && text != "false" {
		return not(k, text)
	}
	*field.(*bool) = text == "true"
	return nil
}

// number is a whole number.
type number struct{ min, max int }

func (number) name() string          { return "whole number" }
func (number) wants() string         { return "a whole number" }
func (number) tag() string           { return tagNumber }
func (number) text(field any) string { return strconv.Itoa(*field.(*int)) }

func (k number) schema(schema map[string]any) {
	schema["type"], schema["minimum"], schema["maximum"] = "integer", k.min, k.max
}

func (k number) set(field any, text string) error {
	n, err := strconv.Atoi(text)
	if err != nil {
		return not(k, text)
	}
	if n < k.min || n > k.max {
		return fmt.Errorf("must be between %d and %d, not %d", k.min, k.max, n)
	}
	*field.(*int) = n
	return nil
}

// duration is a number with a unit of time, or several. It may also be 0 if orZero says what that means.
type duration struct {
	min, max time.Duration
	orZero   string
}

const (
	durationPattern = `^([0-9]+(\.[0-9]+)?(ns|us|µs|ms|s|m|h))+$`
	sizePattern     = `^[0-9]+(B|kB|MB|GB|TB|KiB|MiB|GiB|TiB)$`
)

// onDemand compiles an expression when it is used first. Most verbs use none, and all of them would start later.
func onDemand(expression string) func() *regexp.Regexp {
	return sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(expression) })
}

var (
	durations  = onDemand(durationPattern)
	bareNumber = onDemand(`^[0-9]+(\.[0-9]+)?$`)
	days       = onDemand(`^([0-9]{1,4})d$`)
)

func (duration) name() string          { return "duration" }
func (duration) wants() string         { return "a duration such as 500ms, 5s or 2m" }
func (duration) tag() string           { return tagText }
func (duration) text(field any) string { return short(*field.(*time.Duration)) }

func (duration) schema(schema map[string]any) {
	schema["type"], schema["pattern"] = "string", durationPattern
}

func (k duration) set(field any, text string) error {
	if !durations().MatchString(text) {
		switch match := days().FindStringSubmatch(text); {
		case bareNumber().MatchString(text):
			return meant(k, text, text+"s")
		case match != nil:
			n, _ := strconv.Atoi(match[1]) // which is four digits at most
			return meant(k, text, fmt.Sprintf("%dh", 24*n))
		}
		return not(k, text)
	}
	d, err := time.ParseDuration(text)
	if err != nil { // it is too long
		return not(k, text)
	}
	if (d < k.min || d > k.max) && (d != 0 || k.orZero == "") {
		return fmt.Errorf("must be %s, not %s", k.limits(), short(d))
	}
	*field.(*time.Duration) = d
	return nil
}

// limits says between what the duration must be.
func (k duration) limits() string {
	text := fmt.Sprintf("between %s and %s", short(k.min), short(k.max))
	if k.orZero != "" {
		text = "0s or " + text
	}
	return text
}

// short is a duration without the units of which it has none: 1h rather than 1h0m0s.
func short(d time.Duration) string {
	text := d.String()
	if d >= time.Minute && strings.HasSuffix(text, "m0s") {
		text = strings.TrimSuffix(text, "0s")
	}
	if d >= time.Hour && strings.HasSuffix(text, "h0m") {
		text = strings.TrimSuffix(text, "0m")
	}
	return text
}

// size is a number of bytes with a unit. It may also be 0 if orZero says what that means.
type size struct {
	min, max Size
	orZero   string
}

func (size) name() string          { return "size" }
func (size) wants() string         { return "a size such as 512KiB, 64MiB or 1GiB" }
func (size) tag() string           { return tagText }
func (size) text(field any) string { return field.(*Size).String() }

func (size) schema(schema map[string]any) {
	schema["type"], schema["pattern"] = "string", sizePattern
}

func (k size) set(field any, text string) error {
	n, err := parseSize(text)
	if err != nil {
		for _, better := range []string{text + "iB", strings.ToUpper(strings.TrimSuffix(text, "b")) + "iB", text + "B"} {
			better = strings.ReplaceAll(better, " ", "")
			if _, err := parseSize(strings.Replace(better, "k", "K", 1)); err == nil {
				return meant(k, text, strings.Replace(better, "k", "K", 1))
			}
		}
		return not(k, text)
	}
	if (n < k.min || n > k.max) && (n != 0 || k.orZero == "") {
		return fmt.Errorf("must be %s, not %s", k.limits(), n)
	}
	*field.(*Size) = n
	return nil
}

// limits says between what the size must be.
func (k size) limits() string {
	text := fmt.Sprintf("between %s and %s", k.min, k.max)
	if k.orZero != "" {
		text = "0B or " + text
	}
	return text
}

// choice is one of some words.
type choice []string

func (choice) name() string          { return "choice" }
func (k choice) wants() string       { return strings.Join(k[:len(k)-1], ", ") + " or " + k[len(k)-1] }
func (choice) tag() string           { return tagText }
func (choice) text(field any) string { return *field.(*string) }

func (k choice) schema(schema map[string]any) {
	schema["type"], schema["enum"] = "string", []string(k)
}

func (k choice) set(field any, text string) error {
	if !slices.Contains(k, text) {
		return not(k, text)
	}
	*field.(*string) = text
	return nil
}

// mode is who may use a file, as chmod takes it.
type mode struct{}

const modePattern = `^0[0-7]{3}$`

var modes = onDemand(modePattern)

func (mode) name() string          { return "mode" }
func (mode) wants() string         { return `a mode of four octal digits in quotes, such as "0660"` }
func (mode) tag() string           { return tagText }
func (mode) text(field any) string { return fmt.Sprintf("%04o", *field.(*fs.FileMode)) }

func (mode) schema(schema map[string]any) {
	schema["type"], schema["pattern"] = "string", modePattern
}

func (k mode) set(field any, text string) error {
	if !modes().MatchString(text) {
		return not(k, text)
	}
	n, _ := strconv.ParseUint(text, 8, 32) // which is three octal digits
	*field.(*fs.FileMode) = fs.FileMode(n)
	return nil
}

// word is a text of a certain form.
type word struct {
	what    string // for wants
	pattern string
}

func (word) name() string          { return "text" }
func (k word) wants() string       { return k.what }
func (word) tag() string           { return tagText }
func (word) text(field any) string { return *field.(*string) }

func (k word) schema(schema map[string]any) {
	schema["type"], schema["pattern"] = "string", k.pattern
}

func (k word) set(field any, text string) error {
	if !k.fits(text) {
		return not(k, text)
	}
	*field.(*string) = text
	return nil
}

func (k word) fits(text string) bool { return regexp.MustCompile(k.pattern).MatchString(text) }

var errEmpty = errors.New("is set to nothing; leave it out, or give it a value")
