package natslog

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/lockagent/lockagent/internal/waittest"
)

// TestForwarderNamesTheMissingPermission has a forwarder go on with what another one began, at a hub
// where something else came behind it. So it needs all its permissions.
func TestForwarderNamesTheMissingPermission(t *testing.T) {
	t.Parallel()
	conf := documented(t, "conf")
	for end, user := range map[string]string{SourceEnd: "auditor", HubEnd: "forwarder"} {
		all := without(conf, user)
		// it reads no copies
		all = slices.DeleteFunc(all, func(less lessPermitted) bool { return strings.Contains(less.permission, "_URGENT") })
		if want := map[string]int{SourceEnd: 6, HubEnd: 5}[end]; len(all) != want {
			t.Errorf("%d permissions of the %s tested, want %d", len(all), end, want)
		}
		for _, less := range all {
			t.Run(end+"/"+less.permission, func(t *testing.T) {
				t.Parallel()
				confs := map[string]string{SourceEnd: conf, HubEnd: conf}
				confs[end] = less.conf
				source, hub := documentedServer(t, rooted(confs[SourceEnd])), documentedServer(t, rooted(confs[HubEnd]))
				js := client(t, asUser(t, source, "root"))
				puts(t, js, "agent-1", 1, 2)
				f := forward(t, asUser(t, source, "root"), asUser(t, hub, "root"))
				waittest.Until(t, "the beginning is forwarded", func() bool { return f.Stats().Forwarded == 2 })
				f.stop()
				putForeign(t, asUser(t, hub, "root"), "lockagent.v1.agent-1.lock.x", "")
				puts(t, js, "agent-1", 3, 3)

				var log heard
				f = forwardWith(t, ForwardConfig{
					Source: ReaderConfig{Connection: asUser(t, source, "auditor")},
					Hub:    ReaderConfig{Connection: asUser(t, hub, "forwarder")},
					Logger: log.logger(),
				})
				if strings.Contains(less.permission, "CONSUMER.DELETE") { // the server tidies up by itself
					waittest.Until(t, "the rest is forwarded", func() bool { return f.Stats().Forwarded == 1 })
					return
				}
				waittest.Until(t, "it says what is missing", func() bool {
					at, ok := errors.AsType[*EndError](f.Stats().Err)
					missing, _ := errors.AsType[*PermissionError](f.Stats().Err)
					return ok && at.End == end && missing != nil && strings.HasPrefix(missing.Subject, less.permission) &&
						strings.Contains(log.String(), end+": events: NATS does not permit the user to")
				})
				if got := f.Stats(); got.Forwarded != 0 {
					t.Errorf("got %+v", got)
				}
			})
		}
	}
}
