package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"runtime/pprof"
	"time"

	"github.com/google/pprof/profile"
	"golang.org/x/sync/errgroup"

	"github.com/penstock-ml/penstock/bench/cluster"
	"github.com/penstock-ml/penstock/bench/figures"
	"github.com/penstock-ml/penstock/bench/workload"
	"github.com/penstock-ml/penstock/internal/process"
)

// meter measures workloads.
type meter struct {
	binary, dir, data string
	seconds           int
}

// part is a process that is profiled.
type part struct {
	name    string
	cpu     func() (float64, error) // seconds so far
	profile func(context.Context) (*profile.Profile, error)
}

// measure has a fleet of its own serve a workload.
func (m *meter) measure(ctx context.Context, w workload.Workload) (found result, err error) {
	files, err := w.Make(ctx, m.data, nil)
	if err != nil {
		return result{}, err
	}
	dir, err := os.MkdirTemp(m.dir, "fleet-*")
	if err != nil {
		return result{}, fmt.Errorf("make a temporary directory: %w", err)
	}
	const withProfiles = "--http=127.0.0.1:0"
	c, err := cluster.Start(ctx, cluster.Config{
		Binary: m.binary, Dir: dir, MasterFlags: []string{withProfiles}, WorkerFlags: []string{withProfiles, "--network"},
	}, 1)
	if err != nil {
		return result{}, err
	}
	defer func() { err = errors.Join(err, c.Close()) }()
	spec := w.SpecOf(files)
	if _, err := c.Read(ctx, "warm-up", spec); err != nil {
		return result{}, err
	}
	found = newResult(w.Name)
	parts := []part{m.trainer(), m.other(c, c.Workers()[0]), m.other(c, c.MasterProcess())}
	began := make([]float64, len(parts))
	for i, p := range parts {
		if began[i], err = p.cpu(); err != nil {
			return result{}, err
		}
	}
	profiles, err := m.profiled(ctx, parts, func(session int) error {
		stats, err := c.Read(ctx, fmt.Sprintf("profiled-%d", session), spec)
		found.Rows, found.Bytes = found.Rows+stats.Rows, found.Bytes+stats.Bytes
		return err
	})
	if err != nil {
		return result{}, err
	}
	for i, p := range parts {
		now, err := p.cpu()
		if err != nil {
			return result{}, err
		}
		found.add(p.name, now-began[i], profiles[i])
	}
	found.Hottest = found.hottest(12)
	return found, nil
}

// profiled reads sessions until all profiles are there.
func (m *meter) profiled(ctx context.Context, parts []part, read func(session int) error) ([]*profile.Profile, error) {
	ctx, cancel := context.WithTimeout(ctx, time.Duration(m.seconds)*time.Second+time.Minute)
	defer cancel()
	profiles := make([]*profile.Profile, len(parts))
	group, ctx := errgroup.WithContext(ctx)
	for i, p := range parts {
		group.Go(func() (err error) {
			if profiles[i], err = p.profile(ctx); err != nil {
				return fmt.Errorf("profile the %s: %w", p.name, err)
			}
			return nil
		})
	}
	ended := make(chan error, 1)
	go func() { ended <- group.Wait() }()
	for session := 0; ; session++ {
		select {
		case err := <-ended:
			return profiles, err
		default:
		}
		if err := read(session); err != nil {
			cancel()
			return nil, errors.Join(err, <-ended)
		}
	}
}

// trainer is this process.
func (m *meter) trainer() part {
	return part{
		name: "trainer",
		cpu:  func() (float64, error) { return figures.CPUSeconds(), nil },
		profile: func(ctx context.Context) (*profile.Profile, error) {
			var text bytes.Buffer
			if err := pprof.StartCPUProfile(&text); err != nil {
				return nil, err
			}
			select {
			case <-time.After(time.Duration(m.seconds) * time.Second):
			case <-ctx.Done():
			}
			pprof.StopCPUProfile()
			return profile.Parse(&text)
		},
	}
}

// other is one of the fleet's.
func (m *meter) other(c *cluster.Cluster, p *process.Process) part {
	return part{
		name: p.Name,
		cpu:  func() (float64, error) { return figures.CPUSecondsOf(p.PID()) },
		profile: func(ctx context.Context) (*profile.Profile, error) {
			up, err := p.Announced(ctx)
			if err != nil {
				return nil, err
			}
			url := fmt.Sprintf("http://%s/debug/pprof/profile?seconds=%d", up.HTTP, m.seconds)
			request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
			if err != nil {
				return nil, fmt.Errorf("ask %s: %w", url, err)
			}
			request.Header.Set("Authorization", "Bearer "+c.RPC().Token.Reveal())
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
		},
	}
}

// copyRate is how long a byte takes to be copied beyond the caches, in nanoseconds: the least of several.
func copyRate() float64 {
	from, to := make([]byte, 64<<20), make([]byte, 64<<20)
	least := time.Duration(1<<63 - 1)
	for range 8 { // the first one touches the pages
		began := time.Now()
		copy(to, from)
		least = min(least, time.Since(began))
	}
	return float64(least.Nanoseconds()) / float64(len(to))
}
