package tracing

import (
	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/metric"
	"go.opentelemetry.io/otel/trace"
)

// scope names this package in what it emits.
const scope = "github.com/lockagent/lockagent/tracing"

// Config says where telemetry goes. The zero Config is usable.
type Config struct {
	// TracerProvider makes the spans. Defaults to the global one at the time of
	// each span.
	TracerProvider trace.TracerProvider

	// MeterProvider takes the metrics. Defaults to the global one at the time when
	// the decorator is made; a first SDK that is installed later is found, too.
	MeterProvider metric.MeterProvider

	// System is what the spans of store calls have as db.system.name, such as
	// "redis". Defaults to none, which suits a store in memory.
	System string

	// Address is what the spans of store calls, or of sendings, have as server.address
	// and server.port: a host, a host and port, or the path of a socket. Defaults to
	// none.
	Address string
}

func (c Config) meter() metric.Meter {
	if c.MeterProvider != nil {
		return c.MeterProvider.Meter(scope)
	}
	return otel.Meter(scope)
}
