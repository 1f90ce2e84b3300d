package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	exporter "go.opentelemetry.io/otel/exporters/prometheus"
	"go.opentelemetry.io/otel/sdk/metric"
)

// metricsServer serves the metrics of this process to Prometheus.
type metricsServer struct {
	reader metric.Reader // what it reads is what is served
	url    string
	server *http.Server
	served chan error // capacity 1: why the server has ended
}

// serveMetrics starts a server on a host and port. It speaks OpenMetrics to those who
// ask for it, for only that format has exemplars: the traces behind the numbers.
func serveMetrics(address string) (*metricsServer, error) {
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
	m := &metricsServer{
		reader: reader,
		url:    fmt.Sprintf("http://%s/metrics", listener.Addr()),
		server: &http.Server{Handler: mux, ReadHeaderTimeout: 10 * time.Second},
		served: make(chan error, 1),
	}
	go func() { m.served <- m.server.Serve(listener) }()
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

// wantsPrometheus reports whether the environment wants metrics to be served. The
// server of package autoexport does not know OpenMetrics, so it is ours that serves.
func wantsPrometheus() bool { return os.Getenv("OTEL_METRICS_EXPORTER") == "prometheus" }

// prometheusAddress is where the environment wants them.
func prometheusAddress() string {
	return net.JoinHostPort(
		cmp.Or(os.Getenv("OTEL_EXPORTER_PROMETHEUS_HOST"), "localhost"),
		cmp.Or(os.Getenv("OTEL_EXPORTER_PROMETHEUS_PORT"), "9464"))
}
