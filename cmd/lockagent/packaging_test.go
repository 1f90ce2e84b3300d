package main

import (
	"encoding/json"
	"fmt"
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

	"github.com/lockagent/lockagent/internal/natsserver"
	"github.com/lockagent/lockagent/internal/natsserver/natstest"
	"github.com/lockagent/lockagent/internal/redistest"
)

const (
	dashboardFile = "../../packaging/grafana/lockagent.json"
	alertsFile    = "../../packaging/prometheus/alerts.yml"
)

// tool finds a program that comes with Prometheus.
func tool(t *testing.T, name string) string {
	t.Helper()
	path, err := exec.LookPath(name)
	switch {
	case err == nil:
		return path
	case os.Getenv("CI") != "":
		t.Fatalf("%s is missing: make deps", name)
	}
	t.Skipf("this test needs %s: make deps", name)
	return ""
}

// showAllMetrics runs a demo in which everything happens that has a metric, and
// returns where it serves them. Two holds take longer than a third of a lease, so there
// are renewals and hand-offs.
func showAllMetrics(t *testing.T) string {
	t.Helper()
	r := start(t, "demo", "--metrics", "127.0.0.1:0", "--duration", "1h", "--locks", "1", "--agents", "1", "--lease", "60ms", "--think", "15ms")
	address := metricsURL(t, r)
	redistest.Eventually(t, "all kinds of metrics", func() bool {
		text := scrape(t, address)
		for _, metric := range []string{"lockagent_lock_trust_remaining_seconds_count", "lockagent_lock_handoff_duration_seconds_count", "lockagent_lock_hold_duration_seconds_count"} {
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
	r.stderr.await(t, "where the metrics are", func(text string) bool { return metricsAddress.MatchString(text) })
	return metricsAddress.FindStringSubmatch(r.stderr.String())[1]
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

func TestPackagedMetricsExist(t *testing.T) {
	t.Parallel()
	exported := scrape(t, showAllMetrics(t)) + scrape(t, showAuditMetrics(t))
	used := 0
	for _, file := range []string{dashboardFile, alertsFile} {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for _, metric := range regexp.MustCompile(`lockagent_[a-z_]+`).FindAllString(string(text), -1) {
			used++
			if !regexp.MustCompile(`(?m)^` + metric + `[ {]`).MatchString(exported) {
				t.Errorf("%s uses %s, which the program does not export", file, metric)
			}
		}
	}
	if used < 30 {
		t.Errorf("only %d uses were found", used)
	}
}

func TestAlerts(t *testing.T) {
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
	redistest.Eventually(t, "Prometheus to be ready", func() bool {
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
	response, err := http.Get(prometheus + "/api/v1/" + method + "?" + parameter + "=" + url.QueryEscape(expression))
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
		t.Errorf("%s: %s", expression, answer.Error)
		return 0
	}
	var vector struct{ Result []json.RawMessage }
	var list []json.RawMessage
	if json.Unmarshal(answer.Data, &list) != nil {
		if err := json.Unmarshal(answer.Data, &vector); err != nil {
			t.Fatal(err)
		}
	}
	return len(list) + len(vector.Result)
}

func TestPrometheusAnswersTheDashboard(t *testing.T) {
	c := startCollector(t, false)
	t.Setenv("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", c.URL+"/v1/traces")
	prometheus := startPrometheus(t, showAllMetrics(t), showAuditMetrics(t))
	redistest.Eventually(t, "two scrapes after all that has a metric has happened", func() bool {
		return ask(t, prometheus, "query", "query", `count_over_time(lockagent_lock_trust_remaining_seconds_count[1m]) > 3`) > 0 &&
			ask(t, prometheus, "query", "query", `count_over_time(lockagent_audit_events_total[1m]) > 3`) > 0
	})
	for _, expression := range expressions(t) {
		if ask(t, prometheus, "query", "query", expression) == 0 {
			t.Errorf("%s has no result", expression)
		}
	}
	if ask(t, prometheus, "query", "query", `up{job="lockagent"} == 1`) != 2 {
		t.Error("Prometheus does not call both programs up")
	}
	start := "start=0&end=9999999999&query"
	if ask(t, prometheus, "query_exemplars", start, "lockagent_lock_acquire_duration_seconds_bucket") == 0 {
		t.Error("Prometheus has no exemplar of an acquire")
	}
}
