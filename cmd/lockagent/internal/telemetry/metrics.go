package telemetry

import (
	"cmp"
	"context"
	"errors"
	"net"
	"net/http"
	"os"
	"strconv"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"github.com/spf13/cobra"
	exporter "go.opentelemetry.io/otel/exporters/prometheus"
	"go.opentelemetry.io/otel/sdk/metric"

	"github.com/lockagent/lockagent/cmd/lockagent/internal/cli"
	"github.com/lockagent/lockagent/internal/daemon/access"
)

// metricsServer serves the metrics of this process to Prometheus.
type metricsServer struct {
	reader metric.Reader // what it reads is what is served
	url    string
	server *http.Server
	served chan error // capacity 1: why the server has ended
}

// serveMetrics starts a server on a host and port. It speaks OpenMetrics to those who
// ask for it, for only that format has exemplars: the traces behind the numbers. routes add what else it serves.
// quotas are those of a daemon, or nil.
func serveMetrics(address string, quotas *access.Access, routes ...func(*http.ServeMux)) (*metricsServer, error) {
	registry := prometheus.NewRegistry()
	reader, err := exporter.New(exporter.WithRegisterer(registry), exporter.WithoutScopeInfo())
	if err != nil {
		return nil, err
	}
	listener, err := net.Listen("tcp", address)
	if err != nil {
		return nil, err
	}
	mux := http.NewServeMux()
	mux.Handle("/metrics", promhttp.HandlerFor(registry, promhttp.HandlerOpts{EnableOpenMetrics: true}))
	for _, add := range routes {
		add(mux)
	}
	m := &metricsServer{
		reader: reader,
		url:    URLOf(listener) + "/metrics",
		server: &http.Server{
			Handler: mux, ReadTimeout: 10 * time.Second, WriteTimeout: 30 * time.Second, IdleTimeout: 2 * time.Minute,
		},
		served: make(chan error, 1),
	}
	go func() { m.served <- m.server.Serve(fewConnections(listener, quotas)) }()
	return m, nil
}

// close ends the server and all its conversations.
func (m *metricsServer) close(context.Context) error {
	err := m.server.Close()
	if served := <-m.served; !errors.Is(served, http.ErrServerClosed) {
		err = errors.Join(err, served)
	}
	return err
}

// CheckAddress checks the value of --metrics, which may be empty.
func CheckAddress(cmd *cobra.Command, address string) error {
	if address == "" {
		return nil
	}
	_, port, err := net.SplitHostPort(address)
	if err == nil {
		_, err = net.LookupPort("tcp", port)
	}
	if err != nil {
		return cli.Usage(metricsExample(cmd), "--metrics wants an address such as 127.0.0.1:9464, not %q: %w", address, err)
	}
	return nil
}

// metricsExample is a verb with an address for its metrics that nobody else has.
func metricsExample(cmd *cobra.Command) string {
	flags := "--metrics 127.0.0.1:0"
	if cmd.Name() == "audit" {
		flags = "--follow " + flags
	}
	return cli.WithFlag(cmd, flags)
}

// WantsPrometheus reports whether the environment wants metrics to be served. The
// server of package autoexport does not know OpenMetrics, so it is ours that serves.
func WantsPrometheus() bool { return os.Getenv("OTEL_METRICS_EXPORTER") == "prometheus" }

// prometheusAddress is where the environment wants them.
func prometheusAddress() string {
	return net.JoinHostPort(
		cmp.Or(os.Getenv("OTEL_EXPORTER_PROMETHEUS_HOST"), "localhost"),
		cmp.Or(os.Getenv("OTEL_EXPORTER_PROMETHEUS_PORT"), "9464"))
}

// URLOf is where a browser of this host finds what a listener serves, without the path.
func URLOf(l net.Listener) string {
	at := l.Addr().(*net.TCPAddr)
	if at.IP.IsUnspecified() { // it listens on all addresses, and this is none
		return "http://" + net.JoinHostPort("localhost", strconv.Itoa(at.Port))
	}
	return "http://" + at.String()
}
