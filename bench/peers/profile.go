package main

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"runtime/pprof"
	"slices"
	"time"

	"github.com/google/pprof/profile"
	"golang.org/x/sync/errgroup"

	"github.com/penstock-ml/penstock/bench/figures"
)

// profileOrder is the part of an order that has this process and others profiled while it reads the dataset again and
// again.
type profileOrder struct {
	Seconds int `json:"seconds"`
	// Processes are the fleet's, by name.
	Processes map[string]profiled `json:"processes"`
}

// profiled is a process of the fleet's.
type profiled struct {
	PID  int    `json:"pid"`
	HTTP string `json:"http"` // host and port, where it has its profiles
}

// shares is the answer to an order with a profile: where the CPU time went.
type shares struct {
	Rows    int64 `json:"rows"`
	Samples int64 `json:"samples"`
	// Processes and Stages have CPU seconds; Hottest has shares of all of them.
	Processes map[string]float64 `json:"processes"`
	Stages    map[stage]float64  `json:"stages"`
	Hottest   []hot              `json:"hottest"`

	functions map[string]float64 // CPU seconds
}

// hot is a function and the CPU time that it takes itself.
type hot struct {
	Function string  `json:"function"`
	Share    float64 `json:"share"`
}

// hottest is how many functions are named.
const hottest = 12

func newShares() *shares {
	return &shares{Processes: map[string]float64{}, Stages: map[stage]float64{}, functions: map[string]float64{}}
}

// add divides a process's CPU seconds as its profile's samples are. Those of a process without samples are control.
func (s *shares) add(process string, seconds float64, p *profile.Profile) {
	parts, functions, samples := divide(p)
	s.Processes[process] = seconds
	s.Samples += samples
	if samples == 0 {
		parts = map[stage]float64{control: 1}
	}
	for at, share := range parts {
		if at == send && process == trainerName {
			at = receive
		}
		s.Stages[at] += share * seconds
	}
	for name, share := range functions {
		s.functions[name] += share * seconds
	}
}

// rank sets Hottest.
func (s *shares) rank() {
	all := 0.0
	for _, seconds := range s.Processes {
		all += seconds
	}
	for _, name := range slices.Sorted(maps.Keys(s.functions)) {
		s.Hottest = append(s.Hottest, hot{name, s.functions[name] / all})
	}
	slices.SortStableFunc(s.Hottest, func(a, b hot) int { return cmp.Compare(b.Share, a.Share) })
	s.Hottest = s.Hottest[:min(hottest, len(s.Hottest))]
}

// trainerName is what this process is called among those that are profiled.
const trainerName = "trainer"

// part is a process that is profiled.
type part struct {
	name    string
	cpu     func() (float64, error) // seconds so far
	profile func(context.Context) (*profile.Profile, error)
}

// parts are all processes of an order.
func (o *profileOrder) parts() []part {
	all := []part{{
		name:    trainerName,
		cpu:     func() (float64, error) { return figures.CPUSeconds(), nil },
		profile: o.own,
	}}
	for _, name := range slices.Sorted(maps.Keys(o.Processes)) {
		p := o.Processes[name]
		all = append(all, part{
			name:    name,
			cpu:     func() (float64, error) { return figures.CPUSecondsOf(p.PID) },
			profile: func(ctx context.Context) (*profile.Profile, error) { return o.fetch(ctx, p.HTTP) },
		})
	}
	return all
}

// profile reads the dataset until all processes are profiled, and says where their CPU time went. What a process takes
// while its last pass ends, after its profile, is divided as the rest is.
func (t *trainer) profile(ctx context.Context, o *profileOrder) (*shares, error) {
	parts, found := o.parts(), newShares()
	began := make([]float64, len(parts))
	for i, p := range parts {
		var err error
		if began[i], err = p.cpu(); err != nil {
			return nil, err
		}
	}
	profiles, err := o.take(ctx, parts, func(ctx context.Context) error {
		p, err := t.read(ctx, order{})
		if err == nil {
			found.Rows += p.Rows
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	for i, p := range parts {
		now, err := p.cpu()
		if err != nil {
			return nil, err
		}
		found.add(p.name, now-began[i], profiles[i])
	}
	found.rank()
	return found, nil
}

// take reads until all profiles are there.
func (o *profileOrder) take(
	ctx context.Context, parts []part, read func(context.Context) error,
) ([]*profile.Profile, error) {
	ctx, cancel := context.WithTimeout(ctx, time.Duration(o.Seconds)*time.Second+time.Minute)
	defer cancel()
	profiles := make([]*profile.Profile, len(parts))
	group, of := errgroup.WithContext(ctx)
	for i, p := range parts {
		group.Go(func() (err error) {
			if profiles[i], err = p.profile(of); err != nil {
				return fmt.Errorf("profile the %s: %w", p.name, err)
			}
			return nil
		})
	}
	ended := make(chan error, 1)
	go func() { ended <- group.Wait() }()
	for {
		select {
		case err := <-ended:
			return profiles, err
		default:
		}
		if err := read(ctx); err != nil {
			cancel()
			return nil, errors.Join(err, <-ended)
		}
	}
}

// own is the profile of this process.
func (o *profileOrder) own(ctx context.Context) (*profile.Profile, error) {
	var text bytes.Buffer
	if err := pprof.StartCPUProfile(&text); err != nil {
		return nil, err
	}
	select {
	case <-time.After(time.Duration(o.Seconds) * time.Second):
	case <-ctx.Done():
	}
	pprof.StopCPUProfile()
	return profile.Parse(&text)
}

// fetch asks a process for its profile.
func (o *profileOrder) fetch(ctx context.Context, address string) (*profile.Profile, error) {
	url := fmt.Sprintf("http://%s/debug/pprof/profile?seconds=%d", address, o.Seconds)
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return nil, fmt.Errorf("ask %s: %w", url, err)
	}
	answer, err := http.DefaultClient.Do(request)
	if err != nil {
		return nil, err
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	if err != nil {
		return nil, fmt.Errorf("read the answer of %s: %w", url, err)
	}
	if answer.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("%s answered %s: %s", url, answer.Status, text)
	}
	return profile.ParseData(text)
}
