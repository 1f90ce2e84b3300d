package webui

import (
	"errors"
	"html"
	"reflect"
	"regexp"
	"strings"
	"testing"
	"time"

	g "maragu.dev/gomponents"
)

// filled returns a value in which all that is a text, also deep inside, is this text. What can be there is there, and
// once. Then it is changed.
func filled[T any](text string, changes ...func(*T)) *T {
	v := new(T)
	fill(reflect.ValueOf(v).Elem(), text)
	for _, change := range changes {
		change(v)
	}
	return v
}

func fill(v reflect.Value, text string) {
	switch {
	case v.Kind() == reflect.Struct && v.Type() != reflect.TypeFor[time.Time]():
		for i := range v.NumField() {
			fill(v.Field(i), text)
		}
	case !v.CanSet(): // what is inside of another package
	case v.Type() == reflect.TypeFor[time.Time]():
		v.Set(reflect.ValueOf(time.Now()))
	case v.Type() == reflect.TypeFor[error]():
		v.Set(reflect.ValueOf(errors.New(text)))
	case v.Kind() == reflect.String:
		v.SetString(text)
	case v.Kind() == reflect.Bool:
		v.SetBool(true)
	case v.CanInt():
		v.SetInt(2)
	case v.CanUint():
		v.SetUint(2)
	case v.Kind() == reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		fill(v.Elem(), text)
	case v.Kind() == reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), 1, 1))
		fill(v.Index(0), text)
	case v.Kind() == reflect.Map:
		key, value := reflect.New(v.Type().Key()).Elem(), reflect.New(v.Type().Elem()).Elem()
		fill(key, text)
		fill(value, text)
		v.Set(reflect.MakeMap(v.Type()))
		v.SetMapIndex(key, value)
	}
}

// screensOf returns all screens, where each text is one that a user has written.
func screensOf(text string) map[string]g.Node {
	locks := func(l *lockList) { // some of its texts are addresses
		l.Path, l.Next, l.Back, l.Sort, l.Match = "/locks", "", "", byPrefix, text+"/**"
		one := l.Rows[0]
		one.Locks = 0
		l.Rows = append(l.Rows, one)
	}
	known := func(l *oneLock) { l.Break.Off, l.Break.No, l.History.Err = false, false, nil }
	events := func(l *eventList) { l.Rows[0].Record = "/event.json" }
	frameOf := func(f *frame) { f.Body = filled[Problem](text).html() }
	return map[string]g.Node{
		"overview":               filled[overview](text).html(),
		"overview with its log":  filled(text, func(o *overview) { o.LostErr = nil }).html(),
		"locks":                  filled(text, locks, func(l *lockList) { l.Fleet = nil }).html(),
		"fleet":                  filled(text, locks, func(l *lockList) { l.Fleet.Off = false }).html(),
		"lock":                   filled(text, known).html(),
		"lock of another host":   filled(text, known, func(l *oneLock) { l.Holder, l.StoreErr = nil, "" }).html(),
		"lock without a history": filled[oneLock](text).html(),
		"events":                 filled(text, events).html(),
		"problem":                filled(text, frameOf).html(),
	}
}

// Whatever a user has written is text on each screen: no element, no attribute and no address comes of it.
func TestTextsOfUsersStayTexts(t *testing.T) {
	tag, value := regexp.MustCompile(`<[^<>]*>`), regexp.MustCompile(`"[^"]*"`)
	address := regexp.MustCompile(` (?:href|src|action)="([^"]*)"`)
	shape := func(page string) string {
		return value.ReplaceAllString(strings.Join(tag.FindAllString(page, -1), "\n"), `""`)
	}
	plain := screensOf("plain")
	for _, text := range []string{
		`"><script>alert(1)<\script>`, `' onload='alert(1)`, `" onload="alert(1)`, "javascript:alert(1)", "<!--", "&lt;",
	} {
		for name, screen := range screensOf(text) {
			page := string(markup(screen))
			if got, want := shape(page), shape(string(markup(plain[name]))); got != want {
				t.Errorf("%s: %s makes it %s", name, text, page)
			}
			if !strings.Contains(page, html.EscapeString(text)) {
				t.Errorf("%s: %s is not in %s", name, text, page)
			}
			for _, to := range address.FindAllStringSubmatch(page, -1) {
				if to[1] != "" && to[1][0] != '/' && to[1][0] != '#' {
					t.Errorf("%s: it leads to %s", name, to[1])
				}
			}
		}
	}
}
