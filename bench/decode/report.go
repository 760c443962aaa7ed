package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"math"
	"os"
	"runtime"
	"runtime/debug"
	"slices"
	"strings"
	"text/tabwriter"
)

type report struct {
	Rounds   int               `json:"rounds"`
	CPU      string            `json:"cpu"`
	Versions map[string]string `json:"versions"`
	Files    []*measured       `json:"files"`
}

// cpu names this machine's, as far as it is known.
func cpu() string {
	model := "unknown"
	info, _ := os.ReadFile("/proc/cpuinfo") // other systems have none
	for line := range strings.Lines(string(info)) {
		if name, value, ok := strings.Cut(line, ":"); ok && strings.TrimSpace(name) == "model name" {
			model = strings.TrimSpace(value)
			break
		}
	}
	return fmt.Sprintf("%s (%d CPUs, %s/%s)", model, runtime.NumCPU(), runtime.GOOS, runtime.GOARCH)
}

// versions names what is compared.
func versions(py *python) map[string]string {
	out := map[string]string{"go": runtime.Version()}
	if info, ok := debug.ReadBuildInfo(); ok {
		for _, m := range info.Deps {
			if m.Path == "github.com/apache/arrow/go/v15" {
				out[pqArrow] = m.Version
			}
		}
	}
	if py != nil {
		maps.Copy(out, py.versions)
	}
	return out
}

func (r *report) json(out io.Writer) error {
	type file struct {
		*measured
		Rates map[string]float64 `json:"million_rows_per_second"`
		Times map[string]float64 `json:"times"` // how many times faster worker/columns is
		Rest  float64            `json:"times_apart_from_codec,omitempty"`
	}
	files := make([]file, len(r.Files))
	for i, m := range r.Files {
		files[i] = file{measured: m, Rates: map[string]float64{}, Times: map[string]float64{}, Rest: m.apart()}
		for reader := range m.Seconds {
			files[i].Rates[reader] = m.rate(reader)
			if reader != ours && reader != codec {
				files[i].Times[reader] = m.times(reader)
			}
		}
	}
	e := json.NewEncoder(out)
	e.SetIndent("", "  ")
	return e.Encode(struct {
		Rounds   int                           `json:"rounds"`
		CPU      string                        `json:"cpu"`
		Versions map[string]string             `json:"versions"`
		Files    []file                        `json:"files"`
		Means    map[string]map[string]float64 `json:"geometric_means"` // of how many times faster, by files and reader
		Below    map[string][]string           `json:"below_target,omitempty"`
	}{r.Rounds, r.CPU, r.Versions, files, r.means(), r.below()})
}

const without = `all but "` + shown + `"`

// others are the readers that worker/columns is compared with.
func others() []string { return []string{pqArrow, pyArrow, duckDB} }

// means are those of all files, and without the one that needs no copy.
func (r *report) means() map[string]map[string]float64 {
	out := map[string]map[string]float64{"all": {}, without: {}}
	for _, reader := range others() {
		out["all"][reader], out[without][reader] = r.overall(reader, ""), r.overall(reader, shown)
	}
	return out
}

// below names the files with which worker/columns misses a reader's target.
func (r *report) below() map[string][]string {
	out := map[string][]string{}
	for _, m := range r.Files {
		for _, reader := range others() {
			if times := m.times(reader); times > 0 && times < targets[reader] {
				out[reader] = append(out[reader], fmt.Sprintf("%s (%.2f)", m.File, times))
			}
		}
	}
	return out
}

func (r *report) table(out io.Writer) error {
	fmt.Fprintln(out, r.CPU)
	for _, name := range slices.Sorted(maps.Keys(r.Versions)) {
		fmt.Fprintf(out, "%s %s  ", name, r.Versions[name])
	}
	fmt.Fprintf(out, "\n\nMillion rows per second of CPU time, best of %d rounds; in brackets, how many times faster columns is.\n"+
		"zstd: pages are decompressed and nothing else; rest: how many times faster than pqarrow columns is with all but that.\n\n", r.Rounds)
	w := tabwriter.NewWriter(out, 0, 4, 2, ' ', 0)
	fmt.Fprintln(w, "file\trows\tcolumns\tMB\tcolumns\tpqarrow\tpyarrow\tDuckDB\tzstd\tallocations of columns")
	for _, m := range r.Files {
		fmt.Fprintf(w, "%s\t%d\t%d\t%.1f\t%.2f\t%s\t%s\t%s\t%s\t%d (%.1f MB)\n", m.File, m.Rows, m.Columns, float64(m.Bytes)/1e6, m.rate(ours),
			m.cell(pqArrow), m.cell(pyArrow), m.cell(duckDB), m.codecCell(), m.Allocations, float64(m.AllocatedBytes)/1e6)
	}
	means := r.means()
	for _, files := range []string{"all", without} {
		fmt.Fprintf(w, "%s, geometric mean\t\t\t\t", files)
		for _, reader := range others() {
			if times := means[files][reader]; times > 0 {
				fmt.Fprintf(w, "\t(%.1f)", times)
			} else {
				fmt.Fprint(w, "\t-")
			}
		}
		fmt.Fprintln(w, "\t\t")
	}
	if err := w.Flush(); err != nil {
		return err
	}
	fmt.Fprintln(out)
	below := r.below()
	for _, reader := range others() {
		names := "none"
		if len(below[reader]) > 0 {
			names = strings.Join(below[reader], "; ")
		}
		fmt.Fprintf(out, "less than %g times as fast as %s: %s\n", targets[reader], reader, names)
	}
	fmt.Fprintln(out)
	for _, m := range r.Files {
		for _, reader := range slices.Sorted(maps.Keys(m.How)) {
			fmt.Fprintf(out, "%s: %s by %s\n", m.File, reader, m.How[reader])
		}
		for _, reader := range slices.Sorted(maps.Keys(m.Failed)) {
			fmt.Fprintf(out, "%s: %s cannot read it: %s\n", m.File, reader, m.Failed[reader])
		}
		if len(m.LeftOut) > 0 {
			fmt.Fprintf(out, "%s: left out, as readers give them as different types: %s\n", m.File, strings.Join(m.LeftOut, ", "))
		}
	}
	return nil
}

func (m *measured) cell(reader string) string {
	switch {
	case m.Failed[reader] != "":
		return "cannot"
	case m.rate(reader) == 0:
		return "-"
	}
	return fmt.Sprintf("%.2f (%.1f)", m.rate(reader), m.times(reader))
}

// codecCell is the rate of decompression alone, and how many times faster than pqarrow's the rest is where that counts.
func (m *measured) codecCell() string {
	switch {
	case m.rate(codec) == 0:
		return "-"
	case m.apart() == 0:
		return fmt.Sprintf("%.2f", m.rate(codec))
	}
	return fmt.Sprintf("%.2f (rest: %.1f)", m.rate(codec), m.apart())
}

// overall is the geometric mean of how many times faster worker/columns is with the files that a reader can read, but for one; 0 if there
// are none.
func (r *report) overall(reader, except string) float64 {
	sum, files := 0.0, 0
	for _, m := range r.Files {
		if m.File != except && m.rate(reader) > 0 {
			sum, files = sum+math.Log(m.times(reader)), files+1
		}
	}
	if files == 0 {
		return 0
	}
	return math.Exp(sum / float64(files))
}

// verdict is an error if worker/columns misses the target.
func (r *report) verdict() error {
	switch t := r.overall(pqArrow, ""); {
	case t == 0:
		return errors.New("pqarrow could read no file: name others by --data")
	case t < target:
		return fmt.Errorf("columns is %.2f times as fast as pqarrow, the target is %d", t, target)
	}
	return nil
}
