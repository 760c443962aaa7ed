package main

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/penstock-ml/penstock/internal/process"
)

// vitals are what a process holds. They follow the work in flight, so faults must not make them grow.
type vitals struct {
	rss         int64 // bytes
	descriptors int
	goroutines  int
}

// limits are several times what processes hold that nothing befalls.
var limits = vitals{rss: 512 << 20, descriptors: 500, goroutines: 1000} //nolint:gochecknoglobals // never changed

// max is the larger of each.
func (v vitals) max(o vitals) vitals {
	return vitals{max(v.rss, o.rss), max(v.descriptors, o.descriptors), max(v.goroutines, o.goroutines)}
}

func (v vitals) String() string {
	return fmt.Sprintf("%d MiB, %d descriptors, %d goroutines", v.rss>>20, v.descriptors, v.goroutines)
}

// beyond reports whether one of them is larger than in o.
func (v vitals) beyond(o vitals) bool { return v.max(o) != o }

// look reads what a process holds, but for its goroutines. One that ends meanwhile holds what was seen by then.
func look(pid int) (v vitals) {
	proc := filepath.Join("/proc", strconv.Itoa(pid))
	if status, err := os.ReadFile(filepath.Join(proc, "status")); err == nil {
		v.rss = int64(field(bytes.NewReader(status), "VmRSS:")) << 10
	}
	if all, err := os.ReadDir(filepath.Join(proc, "fd")); err == nil {
		v.descriptors = len(all)
	}
	return v
}

// goroutines asks a process for their number; 0 if it does not say.
func (f *fleet) goroutines(ctx context.Context, name string) int {
	ctx, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	res, err := f.keys.metrics(ctx, name, f.places[name].http)
	if err != nil {
		return 0
	}
	defer res.Body.Close()
	return int(field(res.Body, "go_goroutines"))
}

// field is the number after a name at the beginning of a line, or 0.
func field(text io.Reader, name string) float64 {
	for lines := bufio.NewScanner(text); lines.Scan(); {
		if words := strings.Fields(lines.Text()); len(words) > 1 && words[0] == name {
			n, _ := strconv.ParseFloat(words[1], 64)
			return n
		}
	}
	return 0
}

// weigh notes the most that each process of the fleet holds, and each trainer.
func (f *fleet) weigh(ctx context.Context, trainers []*process.Process) {
	for _, name := range append(append(names("master", f.masters), names("worker", f.workers)...), extraWorker) {
		if p := f.units[name].running(); p != nil {
			seen := look(p.PID())
			seen.goroutines = f.goroutines(ctx, name)
			f.noteHeld(name, seen)
		}
	}
	for rank, p := range trainers {
		f.noteHeld(fmt.Sprint(trainerNames, rank), look(p.PID()))
	}
}

// trainerNames is what names of trainers begin with. They have no port to tell of their goroutines.
const trainerNames = "trainer"

func (f *fleet) noteHeld(name string, seen vitals) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.peaks[name] = f.peaks[name].max(seen)
}

// checkPeaks holds that no process held more than it may and, in a run to its end, that each told of its goroutines.
// Without tokens only those on this machine's loopback do.
func (f *fleet) checkPeaks(ended bool) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	var errs []error
	for name, peak := range f.peaks {
		// the extra one may be there for a moment only
		reports := name != extraWorker && !strings.HasPrefix(name, trainerNames)
		if ended && (f.full || f.lan == nil) && reports && peak.goroutines == 0 {
			errs = append(errs, fmt.Errorf("%s never told how many goroutines it has", name))
		}
		if peak.beyond(limits) {
			errs = append(errs, fmt.Errorf("%s held up to %v; the limit is %v", name, peak, limits))
		}
	}
	return errors.Join(errs...)
}
