package autoscale

// Past is what Decide has to remember beyond its window: give each call what the one before returned. The zero value is a
// scaler that has just started.
type Past struct{}

// Decide says how many workers there should be after a window of samples, of which there is at least one. cfg comes from
// WithDefaults.
func Decide(cfg Config, past Past, window Window) (Decision, Past) {
	now := window[len(window)-1]
	return Decision{At: now.At, From: now.Wanted, To: min(max(now.Wanted, cfg.MinWorkers), cfg.MaxWorkers)}, past
}
