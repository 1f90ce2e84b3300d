package natsserver

import (
	"fmt"
	"log/slog"
	"strings"
)

// logger carries what the server logs to slog. What the server calls a notice
// happens at every start, and is nothing that an operator would act on.
type logger struct {
	log    *slog.Logger
	fatal  chan string   // capacity 1; the first reason why the server cannot go on
	broken chan struct{} // capacity 1: the server has given up writing a stream
}

func newLogger(log *slog.Logger) *logger {
	return &logger{log: log, fatal: make(chan string, 1), broken: make(chan struct{}, 1)}
}

// forget drops what a server said that has ended.
func (l *logger) forget() {
	select {
	case <-l.fatal:
	default:
	}
	select {
	case <-l.broken:
	default:
	}
}

// givenUp is what the server says, in small letters, of a stream or a consumer that it does not write any more after an
// error. It offers no other way to learn of that. TestDiskFull of package events fails if it says something else.
const givenUp = "critical write error"

func (l *logger) Debugf(format string, v ...any) { l.log.Debug("nats: " + fmt.Sprintf(format, v...)) }

func (l *logger) Tracef(format string, v ...any) { l.log.Debug("nats: " + fmt.Sprintf(format, v...)) }

func (l *logger) Noticef(format string, v ...any) { l.log.Debug("nats: " + fmt.Sprintf(format, v...)) }

// caughtUp is what the server says at a start after it was killed, when it looks up how far a stream has copied another
// one. It loses nothing by that, and nobody has anything to do. TestLockOverARestart fails if the server says
// something else.
const caughtUp = "Sourcing state is outdated"

func (l *logger) Warnf(format string, v ...any) {
	if strings.Contains(format, caughtUp) {
		l.Noticef(format, v...)
		return
	}
	l.log.Warn("nats: " + fmt.Sprintf(format, v...))
}

func (l *logger) Errorf(format string, v ...any) {
	l.log.Error("nats: " + fmt.Sprintf(format, v...))
	if strings.Contains(strings.ToLower(format), givenUp) {
		select {
		case l.broken <- struct{}{}:
		default:
		}
	}
}

// Fatalf does not end the process: the first reason is what Start returns.
func (l *logger) Fatalf(format string, v ...any) {
	select {
	case l.fatal <- fmt.Sprintf(format, v...):
	default:
		l.Errorf(format, v...)
	}
}
