package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	exporter "go.opentelemetry.io/otel/exporters/prometheus"
	"go.opentelemetry.io/otel/sdk/metric"
)

// metricsServer serves the metrics of this process to Prometheus.
type metricsServer struct {
	provider *metric.MeterProvider
	url      string
	server   *http.Server
	served   chan error // capacity 1: why the server has ended
}

// serveMetrics starts a server on a host and port.
func serveMetrics(address string) (*metricsServer, error) {
	registry := prometheus.NewRegistry()
	reader, err := exporter.New(exporter.WithRegisterer(registry))
	if err != nil {
		return nil, err
	}
	listener, err := net.Listen("tcp", address)
	if err != nil {
		return nil, err
	}
	mux := http.NewServeMux()
	mux.Handle("/metrics", promhttp.HandlerFor(registry, promhttp.HandlerOpts{}))
	m := &metricsServer{
		provider: metric.NewMeterProvider(metric.WithReader(reader)),
		url:      fmt.Sprintf("http://%s/metrics", listener.Addr()),
		server:   &http.Server{Handler: mux, ReadHeaderTimeout: 10 * time.Second},
		served:   make(chan error, 1),
	}
	go func() { m.served <- m.server.Serve(listener) }()
	return m, nil
}

// close ends the server and all its conversations.
func (m *metricsServer) close() error {
	err := m.server.Close()
	if served := <-m.served; !errors.Is(served, http.ErrServerClosed) {
		err = errors.Join(err, served)
	}
	return errors.Join(err, m.provider.Shutdown(context.Background()))
}
