package telemetry

import (
	"runtime"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
)

// NewRegistry has what each process tells of itself: its build, Go's runtime, the process.
func NewRegistry(version string, also ...prometheus.Collector) *prometheus.Registry {
	r := prometheus.NewRegistry()
	build := prometheus.NewGauge(prometheus.GaugeOpts{
		Name: "penstock_build_info", Help: "1; the labels say what is running.",
		ConstLabels: prometheus.Labels{"version": version, "goversion": runtime.Version()},
	})
	build.Set(1)
	r.MustRegister(build, collectors.NewGoCollector(),
		collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	r.MustRegister(also...)
	return r
}

// Metric is one number with the name, help and labels that it always has.
type Metric struct {
	desc *prometheus.Desc
	kind prometheus.ValueType
}

// Gauge describes a number that goes up and down.
func Gauge(name, help string, labels ...string) Metric {
	return Metric{prometheus.NewDesc("penstock_"+name, help, labels, nil), prometheus.GaugeValue}
}

// Counter describes a number that only grows; its name ends with _total.
func Counter(name, help string, labels ...string) Metric {
	return Metric{prometheus.NewDesc("penstock_"+name, help, labels, nil), prometheus.CounterValue}
}

// Write sends the metric with a value and the values of its labels.
func (m Metric) Write(ch chan<- prometheus.Metric, value float64, labels ...string) {
	ch <- prometheus.MustNewConstMetric(m.desc, m.kind, value, labels...)
}

// Func is a collector that reads everything at once when it is scraped, so that the numbers of one scrape fit together.
type Func func(ch chan<- prometheus.Metric)

// Describe leaves the description to the metrics.
func (f Func) Describe(chan<- *prometheus.Desc) {}

// Collect implements prometheus.Collector.
func (f Func) Collect(ch chan<- prometheus.Metric) { f(ch) }

// Bool is 1 or 0.
func Bool(is bool) float64 {
	if is {
		return 1
	}
	return 0
}
