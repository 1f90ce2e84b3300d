package natsserver

import (
	"fmt"
	"log/slog"
)

// logger carries what the server logs to slog. What the server calls a notice
// happens at every start, and is nothing that an operator would act on.
type logger struct {
	log   *slog.Logger
	fatal chan string // capacity 1; the first reason why the server cannot go on
}

func (l *logger) Debugf(format string, v ...any) { l.log.Debug("nats: " + fmt.Sprintf(format, v...)) }

func (l *logger) Tracef(format string, v ...any) { l.log.Debug("nats: " + fmt.Sprintf(format, v...)) }

func (l *logger) Noticef(format string, v ...any) { l.log.Debug("nats: " + fmt.Sprintf(format, v...)) }

func (l *logger) Warnf(format string, v ...any) { l.log.Warn("nats: " + fmt.Sprintf(format, v...)) }

func (l *logger) Errorf(format string, v ...any) { l.log.Error("nats: " + fmt.Sprintf(format, v...)) }

// Fatalf does not end the process: the first reason is what Start returns.
func (l *logger) Fatalf(format string, v ...any) {
	select {
	case l.fatal <- fmt.Sprintf(format, v...):
	default:
		l.Errorf(format, v...)
	}
}
