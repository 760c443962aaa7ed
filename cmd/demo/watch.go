package demo

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"google.golang.org/grpc"

	"github.com/penstock-ml/penstock/api/pb"
)

const (
	// lookEvery is how often the demo asks the master how the fleet is, and lookTimeout how long for.
	lookEvery, lookTimeout = 200 * time.Millisecond, 5 * time.Second
)

// look is the fleet at a time, and what happened to it since the last one.
type look struct {
	workers int
	events  []*pb.Event
}

// watch looks at the fleet again and again. A look that fails is left out: the next one has its events.
func (f *fleet) watch(ctx context.Context, conn *grpc.ClientConn, looks chan<- look) {
	master, last := pb.NewMasterClient(conn), uint64(0)
	for ctx.Err() == nil {
		if l, err := lookAt(ctx, master, last); err == nil {
			if n := len(l.events); n > 0 {
				last = l.events[n-1].GetNumber()
			}
			select {
			case looks <- l:
			case <-ctx.Done():
			}
		}
		select {
		case <-time.After(lookEvery):
		case <-ctx.Done():
		}
	}
}

func lookAt(ctx context.Context, m pb.MasterClient, after uint64) (l look, err error) {
	ctx, cancel := context.WithTimeout(ctx, lookTimeout)
	defer cancel()
	members, err := m.GetFleet(ctx, &pb.GetFleetRequest{})
	if err != nil {
		return l, err
	}
	for _, one := range members.GetMembers() {
		if one.GetRole() == "worker" && !one.GetDraining() {
			l.workers++
		}
	}
	reply, err := m.ListEvents(ctx, &pb.ListEventsRequest{After: after})
	l.events = reply.GetEvents()
	return l, err
}

// looked takes a look.
func (f *fleet) looked(l look) {
	f.alive = l.workers
	if n := len(f.report.Workers); l.workers > 0 && (n == 0 || f.report.Workers[n-1] != l.workers) {
		f.report.Workers = append(f.report.Workers, l.workers)
	}
	for _, e := range l.events {
		if d := e.GetDecision(); d != nil && d.GetTo() != d.GetFrom() {
			f.report.Decisions = append(f.report.Decisions, e.GetWords())
			f.show.say("scaling: %s", e.GetWords())
		}
	}
}

// pidFiles are where the master says which process a worker is.
func (f *fleet) pidFiles() ([]string, error) {
	paths, err := filepath.Glob(filepath.Join(f.dir, "*.pid"))
	if err != nil {
		return nil, fmt.Errorf("demo: %w", err)
	}
	return paths, nil
}

// killWorker kills the worker with the most open streams with SIGKILL. It is false if none runs at the moment.
func (f *fleet) killWorker() (bool, error) {
	paths, err := f.pidFiles()
	if err != nil || len(paths) == 0 {
		return false, err
	}
	streams := map[string]int{}
	for _, t := range f.last {
		for member, n := range t.Streams {
			name, _, _ := strings.Cut(member, ".") // after the dot is the count of its processes
			streams[name] += n
		}
	}
	name := func(path string) string { return strings.TrimSuffix(filepath.Base(path), ".pid") }
	victim := slices.MaxFunc(paths, func(a, b string) int { return streams[name(a)] - streams[name(b)] })
	text, err := os.ReadFile(victim)
	if errors.Is(err, os.ErrNotExist) {
		return false, nil // it has just ended
	}
	if err != nil {
		return false, fmt.Errorf("demo: %w", err)
	}
	pid, err := strconv.Atoi(strings.TrimSpace(string(text)))
	if err != nil {
		return false, nil //nolint:nilerr // it is being written
	}
	if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
		return false, fmt.Errorf("demo: kill %s: %w", name(victim), err)
	}
	f.report.Killed = append(f.report.Killed, name(victim))
	f.show.say("killed %s (SIGKILL); the master starts another", name(victim))
	return true, nil
}
