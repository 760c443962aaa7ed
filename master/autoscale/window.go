package autoscale

// Window is the newest samples, the oldest first. They reach back for as long as Decide looks.
type Window []Sample

// Add appends a sample, and forgets those that are too old. Samples must come in the order of their times. Windows that were
// returned before stay as they are for as long as only the newest is added to.
func (w Window) Add(cfg Config, s Sample) Window {
	oldest := s.At.Add(-cfg.TrimAfter - cfg.UpAfter)
	i := 0
	for i < len(w) && w[i].At.Before(oldest) {
		i++
	}
	return append(w[i:], s)
}
