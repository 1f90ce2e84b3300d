package main

import (
	"encoding/hex"
	"io"
	"net/http"
	"net/http/httptest"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/lockagent/lockagent/cmd/lockagent/internal/cli"
	"github.com/lockagent/lockagent/internal/redistest"
	"github.com/lockagent/lockagent/internal/waittest"
)

// collector takes what OTLP exporters send, which it does not decode: attributes
// are plain text in it.
type collector struct {
	*httptest.Server
	refuse bool

	mu  sync.Mutex          // protects got
	got map[string][]string // the requests to each path
}

func startCollector(t *testing.T, refuse bool) *collector {
	c := &collector{refuse: refuse, got: make(map[string][]string)}
	c.Server = httptest.NewServer(c)
	t.Cleanup(c.Close)
	return c
}

// ServeHTTP implements [http.Handler].
func (c *collector) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	if c.refuse {
		w.WriteHeader(http.StatusForbidden)
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.got[r.URL.Path] = append(c.got[r.URL.Path], string(body))
}

func (c *collector) received(path string) string { return strings.Join(c.requests(path), "") }

func (c *collector) requests(path string) []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Clone(c.got[path])
}

// performed fails the test unless the demo has come to its end, whatever it found.
func (r result) performed(t *testing.T) {
	t.Helper()
	if r.code != cli.ExitOK && r.code != cli.ExitFailed || !strings.Contains(r.stdout, "What was checked") {
		t.Errorf("exit code %d\nstdout:\n%s\nstderr:\n%s", r.code, r.stdout, r.stderr)
	}
}

func TestEnvironmentConfiguresTelemetry(t *testing.T) {
	c := startCollector(t, false)
	t.Setenv("OTEL_EXPORTER_OTLP_ENDPOINT", c.URL)
	t.Setenv("OTEL_RESOURCE_ATTRIBUTES", "deployment.environment.name=testing-ground")
	t.Setenv("OTEL_SERVICE_NAME", "locks-of-orders")
	call(t, "demo", "--duration", "100ms").performed(t)
	for path, want := range map[string][]string{
		"/v1/traces":  {"testing-ground", "locks-of-orders", "lockagent.lock.name", "update", "acquire", "hold", "release"},
		"/v1/metrics": {"testing-ground", "locks-of-orders", "lockagent.lock.hold.duration", "lockagent.events.published"},
	} {
		for _, text := range want {
			if !strings.Contains(c.received(path), text) {
				t.Errorf("%s received no %q", path, text)
			}
		}
	}
}

func TestProcessesExportToo(t *testing.T) {
	c := startCollector(t, false)
	server := redistest.Start(t)
	t.Setenv("OTEL_EXPORTER_OTLP_ENDPOINT", c.URL)
	t.Setenv("OTEL_METRIC_EXPORT_INTERVAL", "100")
	t.Setenv("TRACEPARENT", "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01")
	r := start(
		t, "demo", "--redis", server.URL(), "--processes", "2", "--duration", "1h", "--think", "20ms", "--lease",
		patientLease,
	)
	const holds, published = "lockagent.lock.hold.duration", "lockagent.events.published"
	metrics := func() map[string]string { // of each process, by its number as it is encoded
		all := make(map[string]string)
		for _, request := range c.requests("/v1/metrics") {
			if _, after, ok := strings.Cut(request, "process.pid\x12"); ok {
				pid := after[1 : 1+after[0]]
				all[pid] += request
			}
		}
		return all
	}
	waittest.Until(t, "a hold of each agent has ended", func() bool {
		agents := 0
		for _, told := range metrics() {
			if strings.Contains(told, holds) {
				agents++
			}
		}
		return agents == 2
	})
	r.interrupt(t).performed(t) // and they export when they end
	// The store calls have a parent here: it came with the environment.
	for _, want := range []string{
		"EVALSHA acquire", "server.address", "\x0a\xf7\x65\x19\x16\xcd\x43\xdd\x84\x48\xeb\x21\x1c\x80\x31\x9c",
	} {
		if !strings.Contains(c.received("/v1/traces"), want) {
			t.Errorf("no %q was received", want)
		}
	}
	// Each process tells of its own events, and the one that started them has none.
	for _, told := range metrics() {
		if got, want := strings.Contains(told, published), strings.Contains(told, holds); got != want {
			t.Errorf("a process tells of published events: %t, want %t", got, want)
		}
	}
	if n := len(metrics()); n != 3 {
		t.Errorf("%d processes have sent metrics, want 3", n)
	}
}

func TestTelemetryThatIsOff(t *testing.T) {
	c := startCollector(t, false)
	for name, environment := range map[string]map[string]string{
		"unset":    {},
		"disabled": {"OTEL_EXPORTER_OTLP_ENDPOINT": c.URL, "OTEL_SDK_DISABLED": "true"},
		"none":     {"OTEL_EXPORTER_OTLP_ENDPOINT": c.URL, "OTEL_TRACES_EXPORTER": "none", "OTEL_METRICS_EXPORTER": "none"},
		"unsampled": {
			"OTEL_EXPORTER_OTLP_ENDPOINT": c.URL, "OTEL_TRACES_SAMPLER": "always_off", "OTEL_METRICS_EXPORTER": "none",
		},
	} {
		t.Run(name, func(t *testing.T) {
			for key, value := range environment {
				t.Setenv(key, value)
			}
			r := call(t, "demo", "--duration", "50ms")
			r.performed(t)
			if strings.Contains(r.stderr, "telemetry") {
				t.Errorf("it says %q", r.stderr)
			}
			if got := c.received("/v1/traces") + c.received("/v1/metrics"); got != "" {
				t.Errorf("%d bytes were received", len(got))
			}
		})
	}
}

// Whoever collects telemetry is not needed for the locks, nor to end.
func TestCollectorsThatFail(t *testing.T) {
	refusing := startCollector(t, true)
	gone := startCollector(t, false)
	gone.Close()
	for name, url := range map[string]string{"refuses": refusing.URL, "is gone": gone.URL} {
		t.Run(name, func(t *testing.T) {
			t.Setenv("OTEL_EXPORTER_OTLP_ENDPOINT", url)
			t.Setenv("OTEL_EXPORTER_OTLP_TIMEOUT", "100")
			t.Setenv("OTEL_BSP_SCHEDULE_DELAY", "1")
			r := call(t, "demo", "--duration", "300ms")
			r.performed(t)
			if !strings.Contains(r.stderr, "telemetry is not exported as it should") {
				t.Errorf("it does not say so: %s", r.stderr)
			}
			if n := strings.Count(r.stderr, "\n"); n > 3 {
				t.Errorf("it says it in %d lines:\n%s", n, r.stderr)
			}
		})
	}
}

func TestAWrongEnvironmentIsToldAtOnce(t *testing.T) {
	for variable, value := range map[string]string{
		"OTEL_TRACES_EXPORTER":  "carrier-pigeon",
		"OTEL_METRICS_EXPORTER": "carrier-pigeon",
	} {
		t.Run(variable, func(t *testing.T) {
			t.Setenv(variable, value)
			call(t, "demo").expect(t, cli.ExitUsage, nil, []string{
				"carrier-pigeon", "Try: " + variable + "=otlp lockagent demo",
			})
		})
	}
	t.Run("processes", func(t *testing.T) {
		t.Setenv("OTEL_METRICS_EXPORTER", "prometheus")
		call(t, "demo", "--redis", cli.ExampleRedis, "--processes", "2").expect(
			t, cli.ExitUsage, nil, []string{"leave --processes out"},
		)
	})
}

// scrape reads metrics as Prometheus does.
func scrape(t *testing.T, url string) string {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, nil)
	if err != nil {
		t.Fatal(err)
	}
	request.Header.Set("Accept", "application/openmetrics-text; version=1.0.0")
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer http.DefaultClient.CloseIdleConnections()
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	return string(body)
}

// metricsURL waits until the demo works, and returns where its metrics are.
func metricsURL(t *testing.T, demo *output) string {
	t.Helper()
	demo.await(t, "it works", working)
	url := regexp.MustCompile(`Metrics: (http://\S+)`).FindStringSubmatch(demo.String())
	if url == nil {
		t.Fatalf("it does not say where the metrics are:\n%s", demo)
	}
	return url[1]
}

func unhex(digits string) []byte {
	raw, _ := hex.DecodeString(digits) // the expression that found them lets nothing else pass
	return raw
}

// The numbers lead to the traces behind them: only OpenMetrics can say it.
func TestMetricsHaveExemplars(t *testing.T) {
	c := startCollector(t, false)
	t.Setenv("OTEL_TRACES_EXPORTER", "otlp")
	t.Setenv("OTEL_TRACES_SAMPLER", "parentbased_traceidratio")
	t.Setenv("OTEL_TRACES_SAMPLER_ARG", "0.2")
	t.Setenv("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", c.URL+"/v1/traces")
	t.Setenv("OTEL_METRICS_EXPORTER", "prometheus")
	t.Setenv("OTEL_EXPORTER_PROMETHEUS_HOST", "127.0.0.1")
	t.Setenv("OTEL_EXPORTER_PROMETHEUS_PORT", "0")
	r := start(t, "demo", "--duration", "1h")
	text := scrape(t, metricsURL(t, &r.output))
	r.interrupt(t).performed(t)
	found := regexp.MustCompile(
		`(?m)^lockagent_lock_acquire_duration_seconds_bucket\{.*outcome="granted".*# \{.*trace_id="([0-9a-f]{32})"`,
	).FindAllStringSubmatch(text, -1)
	if len(found) == 0 {
		t.Fatalf("no grant has an exemplar:\n%s", text)
	}
	exported := c.received("/v1/traces")
	if !slices.ContainsFunc(found, func(of []string) bool { return strings.Contains(exported, string(unhex(of[1]))) }) {
		t.Errorf("none of the traces %q was exported", found)
	}
	if strings.Contains(text, "lockagent/demo/1") {
		t.Error("the metrics have the name of a lock")
	}
}

// An address on the command line counts, and not that of the environment.
func TestMetricsOnTheCommandLineTakePrecedence(t *testing.T) {
	t.Setenv("OTEL_METRICS_EXPORTER", "prometheus")
	t.Setenv("OTEL_EXPORTER_PROMETHEUS_HOST", "no.such.host.invalid")
	r := start(t, "demo", "--duration", "1h", "--think", "20ms", "--metrics", "127.0.0.1:0")
	if text := scrape(t, metricsURL(t, &r.output)); !strings.Contains(text, "lockagent_events_published_total") {
		t.Errorf("it serves no metrics:\n%s", text)
	}
	r.interrupt(t).performed(t)
}
