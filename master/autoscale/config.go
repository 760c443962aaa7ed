package autoscale

import (
	"errors"
	"fmt"
	"time"
)

// Utilisation is the share of their time for which workers should be busy, unless a Config says otherwise.
const Utilisation = 0.8

// Config is how a fleet is scaled. Its zero value is filled in by WithDefaults.
type Config struct {
	MinWorkers, MaxWorkers int // of the pool; MaxWorkers 0 means 1,000
	// Utilisation is the share of their time for which workers should be busy.
	Utilisation float64
	// StartUp is how long a worker may take from being asked for until it serves. More workers are not found to be of
	// no help before.
	StartUp time.Duration
	// UpAfter is over how long the demand for more workers is measured, MinUpAfter or more, and DownAfter for how
	// long fewer must have been enough.
	UpAfter, DownAfter time.Duration
	// TrimAfter is for how long fewer must have been enough if the difference is small.
	TrimAfter time.Duration
	// BrakeFor is how long a session that more workers did not help is not given more. It doubles each time.
	BrakeFor time.Duration
}

// MinUpAfter is the shortest UpAfter: demand is measured four times within it.
const MinUpAfter = 100 * time.Millisecond

// WithDefaults fills in what is not set, and checks the rest.
func (c Config) WithDefaults() (Config, error) {
	for _, d := range []struct {
		field   *time.Duration
		name    string
		without time.Duration
	}{
		{&c.StartUp, "start-up time", time.Minute},
		{&c.UpAfter, "time before it grows", 10 * time.Second},
		{&c.DownAfter, "time before it shrinks", 2 * time.Minute},
		{&c.TrimAfter, "time before it shrinks by little", 30 * time.Minute},
		{&c.BrakeFor, "time of the brake", 10 * time.Minute},
	} {
		if *d.field == 0 {
			*d.field = d.without
		}
		if *d.field < 0 {
			return c, fmt.Errorf("autoscale: the %s is %s; it must be more than 0", d.name, *d.field)
		}
	}
	if c.MaxWorkers == 0 {
		c.MaxWorkers = 1000
	}
	if c.Utilisation == 0 {
		c.Utilisation = Utilisation
	}
	switch {
	case c.MinWorkers < 0 || c.MaxWorkers < c.MinWorkers:
		return c, fmt.Errorf(
			"autoscale: from %d to %d workers is no range; set a minimum of 0 or more, and a maximum that is not "+
				"below it", c.MinWorkers, c.MaxWorkers)
	case c.Utilisation < 0 || c.Utilisation > 1:
		return c, fmt.Errorf("autoscale: a utilisation of %g is not between 0 and 1", c.Utilisation)
	case c.UpAfter < MinUpAfter:
		return c, fmt.Errorf("autoscale: the time before it grows is %s; it must be %s or more",
			c.UpAfter, MinUpAfter)
	case c.TrimAfter < c.DownAfter || c.DownAfter < c.UpAfter:
		return c, errors.New(
			"autoscale: the times before it grows, shrinks and shrinks by little must not fall in this order")
	}
	return c, nil
}
