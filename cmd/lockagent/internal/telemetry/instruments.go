package telemetry

import "go.opentelemetry.io/otel/metric"

// instruments makes those of a verb, and keeps the first error.
type instruments struct {
	metric.Meter
	Err error
}

// NewInstruments makes the instruments of a verb with a provider.
func NewInstruments(provider metric.MeterProvider) instruments {
	return instruments{Meter: provider.Meter("github.com/lockagent/lockagent/cmd/lockagent")}
}

func (m *instruments) note(err error) {
	if m.Err == nil {
		m.Err = err
	}
}

func (m *instruments) Number(name, unit, description string) metric.Int64ObservableGauge {
	g, err := m.Int64ObservableGauge(name, metric.WithUnit(unit), metric.WithDescription(description))
	m.note(err)
	return g
}

func (m *instruments) Counter(name, unit, description string) metric.Int64ObservableCounter {
	c, err := m.Int64ObservableCounter(name, metric.WithUnit(unit), metric.WithDescription(description))
	m.note(err)
	return c
}

func (m *instruments) Seconds(name, description string) metric.Float64ObservableGauge {
	g, err := m.Float64ObservableGauge(name, metric.WithUnit("s"), metric.WithDescription(description))
	m.note(err)
	return g
}
