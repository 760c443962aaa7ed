package reads

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/penstock-ml/penstock/internal/cache"
	"github.com/penstock-ml/penstock/internal/telemetry"
)

// Stats says what a Reads did.
type Stats struct {
	// Hits are units that were there, Misses ones that were read, those that are not kept, too.
	Hits, HitBytes, Misses, MissBytes uint64
	// Waits counts units that another reader was reading already.
	Waits uint64
	// Dropped counts units that were read and not kept: the disk is slower than the storage, or fails.
	Dropped uint64
}

// Stats returns what there is to tell.
func (r *Reads) Stats() Stats {
	return Stats{
		Hits: r.hits.Load(), HitBytes: r.hitBytes.Load(), Misses: r.misses.Load(), MissBytes: r.missBytes.Load(),
		Waits: r.waits.Load(), Dropped: r.dropped.Load(),
	}
}

// Metrics collects what a process tells of its cache.
func (r *Reads) Metrics() prometheus.Collector {
	const name = "cache_"
	var (
		units = telemetry.Counter(name+"reads_total",
			"Ranges of files that streams asked for: hits were in the cache, misses were read from storage.", "result")
		bytes   = telemetry.Counter(name+"read_bytes_total", "Bytes of these ranges.", "result")
		waits   = telemetry.Counter(name+"waits_total", "Ranges that another stream was reading already.")
		dropped = telemetry.Counter(name+"dropped_total",
			"Ranges that were not kept: the disk is slower than the storage, or fails.")
		held    = telemetry.Gauge(name+"bytes", "Bytes of the cache's files.")
		limit   = telemetry.Gauge(name+"limit_bytes", "Bytes that they may have.")
		entries = telemetry.Gauge(name+"entries", "Values in the cache.")
		spoiled = telemetry.Counter(name+"spoiled_total", "Values that could not be read, and were removed.")
		off     = telemetry.Gauge(name+"off", "1 while the cache is not written to, since its disk failed.")
		evicted = telemetry.Gauge(name+"eviction_age_min_seconds",
			"How long ago the youngest of what was evicted in the last minutes had last been wanted; absent: nothing.")
		ages = prometheus.NewDesc("penstock_"+name+"eviction_age_seconds",
			"How long ago what was evicted had last been wanted. Young ages say that the cache is too small.", nil, nil)
	)
	return telemetry.Func(func(ch chan<- prometheus.Metric) {
		s, c := r.Stats(), r.units.Stats()
		units.Write(ch, float64(s.Hits), "hit")
		units.Write(ch, float64(s.Misses), "miss")
		bytes.Write(ch, float64(s.HitBytes), "hit")
		bytes.Write(ch, float64(s.MissBytes), "miss")
		waits.Write(ch, float64(s.Waits))
		dropped.Write(ch, float64(s.Dropped))
		held.Write(ch, float64(c.Bytes))
		limit.Write(ch, float64(c.MaxBytes))
		entries.Write(ch, float64(c.Entries))
		spoiled.Write(ch, float64(c.Spoiled))
		off.Write(ch, telemetry.Bool(c.Off))
		if least, ok := c.Evicted.Min(); ok {
			evicted.Write(ch, least.Seconds())
		}
		counts, below := map[float64]uint64{}, uint64(0)
		for i, bound := range cache.AgeBounds() {
			below += c.Evicted.Counts[i]
			counts[bound.Seconds()] = below
		}
		ch <- prometheus.MustNewConstHistogram(ages, c.Evicted.Total(), c.Evicted.Sum.Seconds(), counts)
	})
}
