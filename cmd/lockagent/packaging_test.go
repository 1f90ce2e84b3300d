package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/spf13/cobra"

	"github.com/lockagent/lockagent"
	"github.com/lockagent/lockagent/channelapi"
	"github.com/lockagent/lockagent/cmd/lockagent/internal/telemetry"
	"github.com/lockagent/lockagent/internal/machinetest"
	"github.com/lockagent/lockagent/internal/natsserver"
	"github.com/lockagent/lockagent/internal/natsserver/natstest"
	"github.com/lockagent/lockagent/internal/waittest"
	"github.com/lockagent/lockagent/memstore"
	"github.com/lockagent/lockagent/tracing"
)

const (
	dashboardFile = "../../packaging/grafana/lockagent.json"
	alertsFile    = "../../packaging/prometheus/alerts.yml"
)

// tool finds a program that comes with Prometheus.
func tool(t *testing.T, name string) string {
	t.Helper()
	path, err := exec.LookPath(name)
	if err != nil {
		err = fmt.Errorf("%w; make deps installs it", err)
	}
	machinetest.Needs(t, err)
	return path
}

// showAllMetrics runs a demo in which everything happens that has a metric, and
// returns where it serves them. Two holds take longer than a third of a lease, so there
// are renewals and hand-offs.
func showAllMetrics(t *testing.T) string {
	t.Helper()
	cmd := exec.Command(
		program(t), "demo", "--metrics", "127.0.0.1:0", "--duration", "1h", "--locks", "1", "--agents", "1", "--lease",
		"60ms", "--think", "15ms",
	)
	// Exemplars are of traces.
	cmd.Env = append(os.Environ(), "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT="+startCollector(t, false).URL+"/v1/traces")
	var stdout output
	cmd.Stdout = &stdout
	launch(t, cmd)
	address := metricsURL(t, &stdout)
	waittest.Until(t, "all kinds of metrics", func() bool {
		text := scrape(t, address)
		for _, metric := range []string{
			"lockagent_lock_trust_remaining_seconds_count", "lockagent_lock_handoff_duration_seconds_count",
			"lockagent_lock_hold_duration_seconds_count",
		} {
			if !strings.Contains(text, metric) {
				return false
			}
		}
		return true
	})
	return address
}

// showAuditMetrics runs an audit that goes on, and returns where it serves its metrics.
func showAuditMetrics(t *testing.T) string {
	t.Helper()
	server := natstest.Start(t, natsserver.Config{Listen: "127.0.0.1:0"})
	r := start(t, "events", "audit", "--follow", "--nats", server.URL(), "--metrics", "127.0.0.1:0")
	return metricsOf(t, r)
}

// showForwardMetrics runs a forwarder, and returns where it serves its metrics.
func showForwardMetrics(t *testing.T) string {
	t.Helper()
	source := natstest.Start(t, natsserver.Config{Listen: "127.0.0.1:0"})
	hub := natstest.Start(t, natsserver.Config{Listen: "127.0.0.1:0"})
	return metricsOf(
		t, start(t, "events", "forward", "--nats", source.URL(), "--hub", hub.URL(), "--metrics", "127.0.0.1:0"),
	)
}

// metricsOf waits until a verb says where it serves its metrics.
func metricsOf(t *testing.T, r *running) string {
	t.Helper()
	r.stderr.await(t, "where the metrics are", func(text string) bool { return metricsAddress.MatchString(text) })
	return metricsAddress.FindStringSubmatch(r.stderr.String())[1]
}

// showTrouble has locks on which all goes wrong that an alert looks for, and returns where their
// metrics are served.
func showTrouble(t *testing.T) string {
	t.Helper()
	cmd := new(cobra.Command)
	cmd.SetContext(t.Context())
	_, sdk, err := telemetry.Start(cmd, slog.New(slog.DiscardHandler), "127.0.0.1:0", nil)
	t.Cleanup(sdk.Close)
	if err != nil {
		t.Fatal(err)
	}
	cfg := sdk.Config
	store := memstore.New()
	locks, err := channelapi.New(channelapi.Config{Store: tracing.Store(store, cfg), Recorder: tracing.Recorder(nil, cfg)})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := errors.Join(locks.Close(), store.Close()); err != nil {
			t.Error(err)
		}
	})
	lock := locks.Lock("orders/1", channelapi.Wait(time.Millisecond))
	if _, err := lock.Acquire(t.Context()); err != nil {
		t.Fatal(err)
	}
	if _, err := lock.Acquire(t.Context()); !errors.Is(err, channelapi.ErrTimeout) {
		t.Fatalf("a lock that is held: %v", err)
	}
	for _, err := range []error{
		lockagent.ErrStoreUnavailable, lockagent.ErrNotPermitted, lockagent.ErrWrongType, errors.New("out of paper"),
	} {
		tracing.Store(failing{store, err}, cfg).Acquire(
			t.Context(), lockagent.AcquireRequest{}, func(lockagent.AcquireReply, error) {},
		)
	}
	return sdk.URL
}

// failing is a store from which no lock can be got.
type failing struct {
	lockagent.Store
	err error
}

// Unwrap is for [lockagent.Layer].
func (f failing) Unwrap() lockagent.Store { return f.Store }

// Acquire implements [lockagent.Store].
func (f failing) Acquire(_ context.Context, _ lockagent.AcquireRequest, done func(lockagent.AcquireReply, error)) {
	done(lockagent.AcquireReply{}, f.err)
}

var metricsAddress = regexp.MustCompile(`Metrics: (http://\S+)\n`)

// expressions are those of the dashboard, as Grafana sends them.
func expressions(t *testing.T) []string {
	t.Helper()
	text, err := os.ReadFile(dashboardFile)
	if err != nil {
		t.Fatal(err)
	}
	var dashboard struct {
		Panels []struct {
			Targets []struct{ Expr string }
		}
	}
	if err := json.Unmarshal(text, &dashboard); err != nil {
		t.Fatal(err)
	}
	var all []string
	for _, panel := range dashboard.Panels {
		for _, target := range panel.Targets {
			all = append(all, strings.NewReplacer("$__rate_interval", "1m", "$instance", ".*").Replace(target.Expr))
		}
	}
	if len(all) < 12 {
		t.Fatalf("only %d expressions were found", len(all))
	}
	return all
}

func TestPackagedMetrics(t *testing.T) {
	t.Parallel()
	addresses := []string{showAllMetrics(t), showAuditMetrics(t), showForwardMetrics(t), showTrouble(t)}
	var exported strings.Builder
	for _, address := range addresses {
		exported.WriteString(scrape(t, address))
	}
	t.Run("exist", func(t *testing.T) { metricsExist(t, exported.String()) })
	t.Run("give Prometheus answers", func(t *testing.T) { prometheusAnswers(t, addresses) })
}

// metricsExist fails the test if the dashboard or an alert uses what is not exported.
func metricsExist(t *testing.T, exported string) {
	used, values := 0, 0
	for _, file := range []string{dashboardFile, alertsFile} {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for _, use := range metricUse.FindAllStringSubmatch(strings.ReplaceAll(string(text), `\"`, `"`), -1) {
			used++
			metric := use[1]
			if !regexp.MustCompile(`(?m)^` + metric + `[ {]`).MatchString(exported) {
				t.Errorf("%s uses %s, which the program does not export", file, metric)
			}
			for _, matcher := range labelMatcher.FindAllStringSubmatch(use[2], -1) {
				if matcher[1] == "instance" { // Prometheus adds it
					continue
				}
				for value := range strings.SplitSeq(matcher[2], "|") {
					values++
					if !regexp.MustCompile(fmt.Sprintf(`(?m)^%s\{[^}]*\b%s="%s"`, metric, matcher[1], value)).MatchString(exported) {
						t.Errorf("%s asks for %s with %s=%q, which the program does not export", file, metric, matcher[1], value)
					}
				}
			}
		}
	}
	if used < 30 || values < 20 {
		t.Errorf("only %d uses and %d values of labels were found", used, values)
	}
}

var (
	metricUse    = regexp.MustCompile(`\b(lockagent_[a-z_]+)(\{[^}]*\})?`)
	labelMatcher = regexp.MustCompile(`(\w+)=~?"([^"]*)"`)
)

func TestAlerts(t *testing.T) {
	t.Parallel()
	promtool := tool(t, "promtool")
	tests := strings.TrimSuffix(alertsFile, ".yml") + "_test.yml"
	for _, args := range [][]string{{"check", "rules", alertsFile}, {"test", "rules", tests}} {
		if out, err := exec.Command(promtool, args...).CombinedOutput(); err != nil {
			t.Errorf("promtool %s: %v\n%s", strings.Join(args, " "), err, out)
		}
	}
	rules, err := os.ReadFile(alertsFile)
	if err != nil {
		t.Fatal(err)
	}
	tested, err := os.ReadFile(tests)
	if err != nil {
		t.Fatal(err)
	}
	alerts := regexp.MustCompile(`(?m)- alert: (\w+)$`).FindAllStringSubmatch(string(rules), -1)
	if len(alerts) == 0 {
		t.Error("no alerts were found")
	}
	for _, alert := range alerts {
		if !strings.Contains(string(tested), `alertname="`+alert[1]+`"`) {
			t.Errorf("no test has %s fire", alert[1])
		}
	}
}

// startPrometheus starts one that scrapes some programs, and returns its address.
func startPrometheus(t *testing.T, programs ...string) string {
	t.Helper()
	prometheus := tool(t, "prometheus")
	var targets []string
	for _, program := range programs {
		target, err := url.Parse(program)
		if err != nil {
			t.Fatal(err)
		}
		targets = append(targets, strconv.Quote(target.Host))
	}
	alerts, err := filepath.Abs(alertsFile)
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	config := fmt.Sprintf(`
global: {scrape_interval: 200ms, evaluation_interval: 200ms}
rule_files: [%q]
scrape_configs:
  - job_name: lockagent
    static_configs: [{targets: [%s]}]
`, alerts, strings.Join(targets, ", "))
	file := filepath.Join(dir, "prometheus.yml")
	if err := os.WriteFile(file, []byte(config), 0o600); err != nil {
		t.Fatal(err)
	}
	address := freeAddress(t)
	server := exec.Command(prometheus, "--config.file="+file, "--storage.tsdb.path="+dir, "--web.listen-address="+address,
		"--enable-feature=exemplar-storage", "--log.level=warn")
	server.Stdout, server.Stderr = t.Output(), t.Output()
	if err := server.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = server.Process.Kill()
		_ = server.Wait()
		http.DefaultClient.CloseIdleConnections()
	})
	waittest.Until(t, "Prometheus to be ready", func() bool {
		response, err := http.Get("http://" + address + "/-/ready")
		if err != nil {
			return false
		}
		_ = response.Body.Close()
		return response.StatusCode == http.StatusOK
	})
	return "http://" + address
}

// freeAddress is one that nobody listened on a moment ago. Prometheus does not tell
// which port it was given, so it cannot choose one.
func freeAddress(t *testing.T) string {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	return listener.Addr().String()
}

// ask calls the API of Prometheus, and returns how many results there are.
func ask(t *testing.T, prometheus, method, parameter, expression string) int {
	t.Helper()
	data, err := callPrometheus(t, prometheus+"/api/v1/"+method+"?"+parameter+"="+url.QueryEscape(expression))
	if err != nil {
		t.Errorf("%s: %v", expression, err)
		return 0
	}
	var vector struct{ Result []json.RawMessage }
	var list []json.RawMessage
	if json.Unmarshal(data, &list) != nil {
		if err := json.Unmarshal(data, &vector); err != nil {
			t.Fatal(err)
		}
	}
	return len(list) + len(vector.Result)
}

// callPrometheus returns the data of an answer.
func callPrometheus(t *testing.T, address string) (json.RawMessage, error) {
	t.Helper()
	response, err := http.Get(address)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	var answer struct {
		Status, Error string
		Data          json.RawMessage
	}
	if err := json.NewDecoder(response.Body).Decode(&answer); err != nil {
		t.Fatal(err)
	}
	if answer.Status != "success" {
		return nil, errors.New(answer.Error)
	}
	return answer.Data, nil
}

// alert is one as Prometheus has understood it.
type alert struct{ Name, Query, LastError string }

// alerts are those that Prometheus has.
func alerts(t *testing.T, prometheus string) []alert {
	t.Helper()
	data, err := callPrometheus(t, prometheus+"/api/v1/rules")
	if err != nil {
		t.Fatal(err)
	}
	var answer struct{ Groups []struct{ Rules []alert } }
	if err := json.Unmarshal(data, &answer); err != nil {
		t.Fatal(err)
	}
	if len(answer.Groups) != 1 || len(answer.Groups[0].Rules) < 17 {
		t.Fatalf("Prometheus has these rules: %s", data)
	}
	return answer.Groups[0].Rules
}

// limit is a comparison in the expression of an alert.
var limit = regexp.MustCompile(` (==|[<>]) [0-9.]+`)

// prometheusAnswers fails the test if Prometheus has no answer for the dashboard, or for an alert.
func prometheusAnswers(t *testing.T, addresses []string) {
	prometheus := startPrometheus(t, addresses...)
	waittest.Until(t, "two scrapes after all that has a metric has happened", func() bool {
		return ask(
			t, prometheus, "query", "query", `count_over_time(lockagent_lock_trust_remaining_seconds_count[1m]) > 3`,
		) > 0 &&
			ask(t, prometheus, "query", "query", `count_over_time(lockagent_audit_events_total[1m]) > 3`) > 0 &&
			ask(t, prometheus, "query", "query", `count_over_time(lockagent_forward_stalled[1m]) > 3`) > 0 &&
			ask(t, prometheus, "query", "query", `count_over_time(lockagent_store_refusals_total[1m]) > 3`) > 2
	})
	// What happens late has its two scrapes later.
	hasResult := func(what, expression string) {
		t.Helper()
		waittest.Until(
			t, what+": a result of "+expression, func() bool { return ask(t, prometheus, "query", "query", expression) > 0 },
		)
	}
	for _, expression := range expressions(t) {
		hasResult("the dashboard", expression)
	}
	for _, alert := range alerts(t, prometheus) {
		// Without its limits an alert has something to look at.
		expression := limit.ReplaceAllString(alert.Query, "")
		if strings.HasPrefix(expression, "absent(") {
			waittest.Until(t, alert.Name+": no result of "+expression, func() bool { // a scrape that fails has one
				return ask(t, prometheus, "query", "query", expression) == 0
			})
		} else {
			hasResult(alert.Name, expression)
		}
		if alert.LastError != "" {
			t.Errorf("%s: %s", alert.Name, alert.LastError)
		}
	}
	waittest.Until(t, "Prometheus calls all programs up", func() bool { // one scrape may come too late
		return ask(t, prometheus, "query", "query", `up{job="lockagent"} == 1`) == 4
	})
	start := "start=0&end=9999999999&query"
	if ask(t, prometheus, "query_exemplars", start, "lockagent_lock_acquire_duration_seconds_bucket") == 0 {
		t.Error("Prometheus has no exemplar of an acquire")
	}
}
