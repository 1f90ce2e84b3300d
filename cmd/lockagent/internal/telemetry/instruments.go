package telemetry

import "go.opentelemetry.io/otel/metric"

// Instruments makes those of a verb, and keeps the first error.
type Instruments struct {
	metric.Meter
	Err error
}

// NewInstruments makes the instruments of a verb with a provider.
func NewInstruments(provider metric.MeterProvider) Instruments {
	return Instruments{Meter: provider.Meter("github.com/lockagent/lockagent/cmd/lockagent")}
}

func (m *Instruments) note(err error) {
	if m.Err == nil {
		m.Err = err
	}
}

// Number makes an instrument for what goes up and down.
func (m *Instruments) Number(name, unit, description string) metric.Int64ObservableGauge {
	g, err := m.Int64ObservableGauge(name, metric.WithUnit(unit), metric.WithDescription(description))
	m.note(err)
	return g
}

// Counter makes an instrument for what only grows.
func (m *Instruments) Counter(name, unit, description string) metric.Int64ObservableCounter {
	c, err := m.Int64ObservableCounter(name, metric.WithUnit(unit), metric.WithDescription(description))
	m.note(err)
	return c
}

// Seconds makes an instrument for a time.
func (m *Instruments) Seconds(name, description string) metric.Float64ObservableGauge {
	g, err := m.Float64ObservableGauge(name, metric.WithUnit("s"), metric.WithDescription(description))
	m.note(err)
	return g
}
