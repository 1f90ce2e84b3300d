package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net/url"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/lockagent/lockagent/interop/redisson/driver"
)

// machines are Java virtual machines with Redisson, which take commands.
type machines []*javaMachine

type javaMachine struct {
	child
	in  io.Writer
	out *bufio.Scanner
}

// startMachines builds the driver of Redisson, and starts it several times. The end of ctx kills them.
func startMachines(ctx context.Context, s *server, n int) (all machines, err error) {
	defer func() {
		if err != nil {
			all.end()
		}
	}()
	dir := s.file("driver")
	if err := os.Mkdir(dir, 0o700); err != nil {
		return nil, err
	}
	java, err := driver.Build(ctx, dir, "")
	if err != nil {
		return nil, err
	}
	for range n {
		const watchdog = 30 * time.Second // Redisson's default
		c, in, out, err := startChild(java.Command(ctx, watchdog, "single", []string{s.Addr()}, "-XX:+UseSerialGC"))
		if err != nil {
			return all, err
		}
		all = append(all, &javaMachine{c, in, bufio.NewScanner(out)})
	}
	return all, nil
}

func (all machines) end() {
	for _, m := range all { // first all, so that they end together
		m.dismiss()
	}
	for _, m := range all {
		m.child.end()
	}
}

// say gives the machine a command, which its only thread runs.
func (m *javaMachine) say(command string, arguments ...string) error {
	line := "1 main " + command
	for _, a := range arguments {
		line += " " + url.QueryEscape(a)
	}
	_, err := fmt.Fprintln(m.in, line)
	return err
}

// hear waits for the value of a command.
func (m *javaMachine) hear() (string, error) {
	if !m.out.Scan() {
		return "", errors.Join(errors.New("the driver has ended"), m.out.Err())
	}
	answer, err := url.QueryUnescape(m.out.Text())
	if err != nil {
		return "", err
	}
	value, ok := strings.CutPrefix(answer, "1 ok ")
	if !ok {
		return "", fmt.Errorf("the driver answered %q", answer)
	}
	return value, nil
}

// call gives the machine a command, and returns the value.
func (m *javaMachine) call(command string, arguments ...string) (string, error) {
	if err := m.say(command, arguments...); err != nil {
		return "", err
	}
	return m.hear()
}

// rushed is what the threads of all machines got.
type rushed struct {
	grants  int
	longest time.Duration // wait of any thread
}

// rush has the threads of all machines acquire one lock again and again for a while.
func (all machines) rush(kind string, threads int, window time.Duration) (r rushed, err error) {
	name := fmt.Sprintf("bench/%d", time.Now().UnixNano())
	for _, m := range all {
		if err := m.say(
			kind+".rush", name, strconv.Itoa(threads), strconv.FormatInt(window.Milliseconds(), 10), "0",
		); err != nil {
			return r, err
		}
	}
	for _, m := range all {
		value, err := m.hear()
		if err != nil {
			return r, err
		}
		var grants, ms, refused int
		if _, err := fmt.Sscanf(value, "%d %d %d", &grants, &ms, &refused); err != nil {
			return r, fmt.Errorf("the driver answered %q: %w", value, err)
		}
		r.grants += grants
		r.longest = max(r.longest, time.Duration(ms)*time.Millisecond)
	}
	return r, nil
}
