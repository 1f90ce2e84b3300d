// Package telemetry has the SDK of OpenTelemetry for the verbs that run for long, and serves their metrics to
// Prometheus.
package telemetry
