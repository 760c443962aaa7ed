package bucket

import (
	"io"
	"net/http"
	"strconv"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/penstock-ml/penstock/internal/cache"
	"github.com/penstock-ml/penstock/internal/telemetry"
)

// metrics are what this node did for each bucket.
type metrics struct {
	requests       *prometheus.CounterVec
	seconds        *prometheus.HistogramVec
	sent, received *prometheus.CounterVec
}

func newMetrics() *metrics {
	counter := func(name, help string, labels ...string) *prometheus.CounterVec {
		return prometheus.NewCounterVec(prometheus.CounterOpts{Name: "penstock_bucket_" + name, Help: help}, labels)
	}
	return &metrics{
		requests: counter("requests_total", "Requests by what they came to.", "bucket", "method", "code"),
		seconds: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name:    "penstock_bucket_request_seconds",
			Help:    "How long requests took, from their headers to the last byte of the answer.",
			Buckets: prometheus.ExponentialBuckets(0.00025, 2, 16), // to 8 s
		}, []string{"bucket", "method"}),
		sent:     counter("sent_bytes_total", "Bytes of blobs that were sent.", "bucket"),
		received: counter("received_bytes_total", "Bytes of blobs that came.", "bucket"),
	}
}

// Metrics are what this node did for each bucket, and what its caches have.
func (s *Server) Metrics() []prometheus.Collector {
	m := s.metrics
	return []prometheus.Collector{m.requests, m.seconds, m.sent, m.received, s.caches()}
}

// caches reads each bucket's cache.
func (s *Server) caches() prometheus.Collector {
	gauge := func(name, help string) telemetry.Metric { return telemetry.Gauge("bucket_"+name, help, "bucket") }
	counter := func(name, help string) telemetry.Metric { return telemetry.Counter("bucket_"+name, help, "bucket") }
	var (
		bytes   = gauge("bytes", "Bytes of the disk that a bucket takes on this node.")
		quota   = gauge("quota_bytes", "Bytes of the disk that a bucket may take on this node.")
		blobs   = gauge("blobs", "Blobs that a bucket has on this node.")
		off     = gauge("off", "1 while a bucket's disk is not written to, since it failed.")
		hits    = counter("hits_total", "Blobs that were asked for and there.")
		misses  = counter("misses_total", "Blobs that were asked for and not there.")
		spoiled = counter("spoiled_total", "Blobs that could not be read, and were removed.")
		least   = gauge("eviction_age_min_seconds",
			"The least time of late since an evicted blob was last wanted; absent if none was evicted.")
		ages = prometheus.NewDesc("penstock_bucket_eviction_age_seconds",
			"How long ago what was evicted had last been wanted.", []string{"bucket"}, nil)
	)
	return telemetry.Func(func(ch chan<- prometheus.Metric) {
		for name, b := range s.buckets {
			stats := b.Cache.Stats()
			bytes.Write(ch, float64(stats.Bytes), name)
			quota.Write(ch, float64(stats.MaxBytes), name)
			blobs.Write(ch, float64(stats.Entries), name)
			off.Write(ch, telemetry.Bool(stats.Off), name)
			hits.Write(ch, float64(stats.Hits), name)
			misses.Write(ch, float64(stats.Misses), name)
			spoiled.Write(ch, float64(stats.Spoiled), name)
			if age, ok := stats.Evicted.Min(); ok {
				least.Write(ch, age.Seconds(), name)
			}
			ch <- histogram(ages, stats.Evicted, name)
		}
	})
}

func histogram(desc *prometheus.Desc, ages cache.Ages, bucket string) prometheus.Metric {
	upTo := map[float64]uint64{}
	var sum uint64
	for i, bound := range cache.AgeBounds() {
		sum += ages.Counts[i]
		upTo[bound.Seconds()] = sum
	}
	return prometheus.MustNewConstHistogram(desc, ages.Total(), ages.Sum.Seconds(), upTo, bucket)
}

// meter measures one request. It hands files on, which the kernel then sends.
type meter struct {
	http.ResponseWriter
	of     *metrics
	bucket string
	method string
	body   *counted
	began  time.Time
	code   int
	sent   int64
}

func (m *metrics) begin(bucket string, w http.ResponseWriter, r *http.Request) *meter {
	method := "other" // there are any number of those
	switch r.Method {
	case http.MethodGet, http.MethodHead, http.MethodPut, http.MethodDelete:
		method = r.Method
	}
	body := &counted{ReadCloser: r.Body}
	r.Body = body
	return &meter{w, m, bucket, method, body, time.Now(), http.StatusOK, 0}
}

func (m *meter) end() {
	m.of.requests.WithLabelValues(m.bucket, m.method, strconv.Itoa(m.code)).Inc()
	m.of.seconds.WithLabelValues(m.bucket, m.method).Observe(time.Since(m.began).Seconds())
	m.of.received.WithLabelValues(m.bucket).Add(float64(m.body.bytes))
	if m.method == http.MethodGet && m.code < http.StatusBadRequest {
		m.of.sent.WithLabelValues(m.bucket).Add(float64(m.sent))
	}
}

// WriteHeader implements http.ResponseWriter.
func (m *meter) WriteHeader(code int) {
	m.code = code
	m.ResponseWriter.WriteHeader(code)
}

// Write implements io.Writer.
func (m *meter) Write(p []byte) (int, error) {
	n, err := m.ResponseWriter.Write(p)
	m.sent += int64(n)
	return n, err
}

// ReadFrom implements io.ReaderFrom, by which a file is sent.
func (m *meter) ReadFrom(r io.Reader) (int64, error) {
	n, err := io.Copy(m.ResponseWriter, r)
	m.sent += n
	return n, err
}

// Unwrap is for http.ResponseController.
func (m *meter) Unwrap() http.ResponseWriter { return m.ResponseWriter }

// counted is a body whose bytes are counted.
type counted struct {
	io.ReadCloser
	bytes int64
}

// Read implements io.Reader.
func (c *counted) Read(p []byte) (int, error) {
	n, err := c.ReadCloser.Read(p)
	c.bytes += int64(n)
	return n, err
}
