package telemetry

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/go-logr/logr"
	"github.com/spf13/cobra"
	"go.opentelemetry.io/contrib/exporters/autoexport"
	"go.opentelemetry.io/contrib/propagators/autoprop"
	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	otelmetric "go.opentelemetry.io/otel/metric"
	"go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/resource"
	"go.opentelemetry.io/otel/sdk/trace"

	"github.com/lockagent/lockagent/cmd/lockagent/internal/cli"
	"github.com/lockagent/lockagent/internal/daemon/access"
	"github.com/lockagent/lockagent/tracing"
)

// SDK is the SDK of OpenTelemetry in this process. The variables OTEL_* of the
// environment configure it, and nothing is exported unless they say so.
type SDK struct {
	tracing.Config
	URL        string // where Prometheus finds the metrics, or empty
	complaints *complaints
	cmd        *cobra.Command // of this process, for what is worth trying
	quotas     *access.Access // of the server of the metrics, or nil
	routes     []func(*http.ServeMux)
	closers    []func(context.Context) error
}

// flushTime bounds how long the last spans and metrics may take at the end.
const flushTime = 5 * time.Second

// Export starts what --metrics and the environment ask for. measure makes the metrics of the verb. Call
// stop in the end.
func Export(
	cmd *cobra.Command, logger *slog.Logger, address string, measure func(otelmetric.MeterProvider) error,
) (stop func(), err error) {
	_, sdk, err := Start(cmd, logger, address, nil)
	if err == nil && sdk.MeterProvider != nil {
		err = measure(sdk.MeterProvider)
	}
	if err != nil {
		sdk.Close()
		return nil, err
	}
	if sdk.URL != "" {
		fmt.Fprintln(cmd.ErrOrStderr(), "Metrics:", sdk.URL)
	}
	return sdk.Close, nil
}

// Start starts what the environment asks for. If metrics is an address, it
// serves metrics to Prometheus there, and what routes add. Go on with the context that it returns: this process
// may be part of a trace. quotas are those of a daemon, or nil. Close the telemetry also if there is an error.
func Start(cmd *cobra.Command, logger *slog.Logger, metrics string, quotas *access.Access,
	routes ...func(*http.ServeMux),
) (context.Context, *SDK, error) {
	ctx := cmd.Context()
	t := &SDK{quotas: quotas, routes: routes, complaints: &complaints{logger: logger}, cmd: cmd}
	disabled := strings.EqualFold(os.Getenv("OTEL_SDK_DISABLED"), "true")
	if metrics == "" && (disabled || !asked("TRACES") && !asked("METRICS")) {
		return ctx, t, nil
	}
	otel.SetLogger(logr.FromSlogHandler(logger.Handler()))
	otel.SetErrorHandler(t.complaints)
	program, err := describeProgram(ctx)
	if err != nil {
		t.complaints.Handle(err) // what could be found out is there all the same
	}
	if !disabled {
		err = t.startTraces(ctx, program)
		ctx = autoprop.NewTextMapPropagator().Extract(ctx, environment{})
	}
	if err == nil {
		err = t.startMetrics(ctx, program, metrics, disabled)
	}
	return ctx, t, err
}

// asked reports whether the environment wants a signal to be exported: TRACES or
// METRICS. By its own rules OpenTelemetry would export to this machine otherwise.
func asked(signal string) bool {
	for _, name := range []string{
		"OTEL_" + signal + "_EXPORTER", "OTEL_EXPORTER_OTLP_ENDPOINT", "OTEL_EXPORTER_OTLP_" + signal + "_ENDPOINT",
	} {
		if os.Getenv(name) != "" {
			return true
		}
	}
	return false
}

func describeProgram(ctx context.Context) (*resource.Resource, error) {
	return resource.New(ctx,
		resource.WithTelemetrySDK(), resource.WithHost(), resource.WithProcessPID(), resource.WithService(),
		resource.WithAttributes(
			attribute.String("service.name", "lockagent"), attribute.String("service.version", cli.ModuleVersion()),
		),
		resource.WithFromEnv(), // which has the last word
	)
}

func (t *SDK) startTraces(ctx context.Context, program *resource.Resource) error {
	if !asked("TRACES") {
		return nil
	}
	exporter, err := autoexport.NewSpanExporter(ctx)
	if err != nil {
		return t.badEnvironment("OTEL_TRACES_EXPORTER", err)
	}
	if autoexport.IsNoneSpanExporter(exporter) {
		return nil
	}
	provider := trace.NewTracerProvider(trace.WithBatcher(exporter), trace.WithResource(program))
	t.closers = append(t.closers, provider.Shutdown)
	t.TracerProvider = provider
	return nil
}

func (t *SDK) startMetrics(ctx context.Context, program *resource.Resource, address string, disabled bool) error {
	options := []metric.Option{metric.WithResource(program)}
	if address == "" && WantsPrometheus() {
		address = prometheusAddress()
	} else if !disabled && asked("METRICS") && !WantsPrometheus() {
		reader, err := autoexport.NewMetricReader(ctx)
		if err != nil {
			return t.badEnvironment("OTEL_METRICS_EXPORTER", err)
		}
		if !autoexport.IsNoneMetricReader(reader) {
			options = append(options, metric.WithReader(reader))
		}
	}
	if address != "" {
		server, err := serveMetrics(address, t.quotas, t.routes...)
		if err != nil {
			return &cli.Failure{Code: cli.ExitFailed, Err: err, Try: metricsExample(t.cmd)}
		}
		t.URL = server.url
		t.closers = append(t.closers, server.close)
		options = append(options, metric.WithReader(server.reader))
	}
	if len(options) == 1 {
		return nil
	}
	provider := metric.NewMeterProvider(options...)
	t.closers = append(t.closers, provider.Shutdown)
	t.MeterProvider = provider
	return nil
}

func (t *SDK) badEnvironment(variable string, err error) error {
	return &cli.Failure{
		Code: cli.ExitUsage, Err: fmt.Errorf("the environment has %s=%s: %w", variable, os.Getenv(variable), err),
		Try: variable + "=otlp " + cli.Again(t.cmd),
	}
}

// Close sends what has not been sent yet. Trouble with that is no failure of the
// program.
func (t *SDK) Close() {
	ctx, cancel := context.WithTimeout(context.Background(), flushTime)
	defer cancel()
	var closing sync.WaitGroup
	for _, end := range t.closers {
		closing.Go(func() {
			if err := end(ctx); err != nil {
				t.complaints.Handle(err)
			}
		})
	}
	closing.Wait()
	t.complaints.conclude()
}

// environment is where another program leaves the trace that this one belongs to, as
// in TRACEPARENT.
type environment struct{}

// Get implements [propagation.TextMapCarrier].
func (environment) Get(key string) string {
	return os.Getenv(strings.ToUpper(strings.ReplaceAll(key, "-", "_")))
}

// Set implements [propagation.TextMapCarrier]. Nobody injects.
func (environment) Set(string, string) {}

// Keys implements [propagation.TextMapCarrier]. The propagators ask for theirs.
func (environment) Keys() []string { return nil }

// complaints logs the errors of exporters: the first, and then one in a while.
type complaints struct {
	logger *slog.Logger

	mu     sync.Mutex // protects the fields below
	last   time.Time  // when one was logged
	silent int        // how many were not, since then
	over   bool       // an exporter that was given up may go on for a while
}

// complainEvery is how much time there is between two complaints. An exporter that
// cannot reach its collector fails with every batch.
const complainEvery = time.Minute

// Handle implements [otel.ErrorHandler].
func (c *complaints) Handle(err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.over {
		return
	}
	if !c.last.IsZero() && time.Since(c.last) < complainEvery {
		c.silent++
		return
	}
	c.logger.Warn("telemetry is not exported as it should", "error", err, "unsaid", c.silent)
	c.last, c.silent = time.Now(), 0
}

// conclude says how many errors were not logged. After that nothing is logged.
func (c *complaints) conclude() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.silent > 0 {
		c.logger.Warn("telemetry was not exported as it should", "unsaid", c.silent)
		c.silent = 0
	}
	c.over = true
}
