package offline

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/dustin/go-humanize"
	"github.com/dustin/go-humanize/english"

	"github.com/penstock-ml/penstock/api/pb"
	"github.com/penstock-ml/penstock/api/spec"
	"github.com/penstock-ml/penstock/internal/storage"
	"github.com/penstock-ml/penstock/internal/terminal"
	"github.com/penstock-ml/penstock/master/plan"
	"github.com/penstock-ml/penstock/worker/python"
)

// plannedSession is what `penstock plan` tells: what is read, what is done with it, and what is worth knowing of that.
type plannedSession struct {
	*plan.Description
	// Filter is the spec's as workers have it: with numbers in place of dates and times.
	Filter string      `json:"filter,omitempty"`
	Ops    []plannedOp `json:"ops,omitempty"`
	Hints  []string    `json:"hints,omitempty"`
	// LeftOut is what of the dataset's folders is not read.
	LeftOut storage.LeftOut `json:"left_out,omitzero"`
	// Notes say that, and what else is worth knowing of the listing.
	Notes []string `json:"notes,omitempty"`
}

// plannedOp is a transform of the spec.
type plannedOp struct {
	At       string           `json:"at"` // transforms[1]
	Op       string           `json:"op"`
	Steps    int              `json:"steps"` // that workers run for it: one for each of the columns that a pattern means
	Function *plannedFunction `json:"function,omitempty"`
}

// plannedFunction is the Python function that a transform calls. What is left out, the function's mark says, or the
// worker.
type plannedFunction struct {
	Name        string `json:"name"`
	Call        string `json:"call,omitempty"` // by name
	Kind        string `json:"kind"`
	By          string `json:"by,omitempty"`
	Memory      int64  `json:"memory,omitempty"`
	Threads     uint32 `json:"threads,omitempty"`
	TimeoutMs   int64  `json:"timeout_ms,omitempty"`
	Most        uint32 `json:"most,omitempty"`
	Environment string `json:"environment"`
}

// opsOf lists a spec's transforms, of which some may run no step: nobody reads what they make.
func opsOf(s *pb.Spec, p *pb.Program) []plannedOp {
	steps := map[string]int{}
	for _, step := range p.GetSteps() {
		steps[step.GetAt()]++
	}
	var out []plannedOp
	for i, t := range s.GetTransforms() {
		at := fmt.Sprintf("transforms[%d]", i)
		o := plannedOp{At: at, Op: t.GetOp(), Steps: steps[at]}
		if f := t.GetPython(); f != nil {
			o.Function = &plannedFunction{
				Name: f.GetName(), Call: f.GetCall(), Kind: lower(cmp.Or(f.GetKind(), pb.FunctionKind_MAP)),
				Memory: f.GetMemory(), Threads: f.GetThreads(), TimeoutMs: f.GetTimeoutMs(), Most: f.GetMost(),
				Environment: cmp.Or(s.GetPython(), python.Default),
			}
			if f.GetStyle() != pb.Style_STYLE_UNSPECIFIED {
				o.Function.By = lower(f.GetStyle())
			}
		}
		out = append(out, o)
	}
	return out
}

func lower(enum fmt.Stringer) string { return strings.ToLower(enum.String()) }

// hintsOf say what a session of a spec costs that need not be.
func hintsOf(s *pb.Spec, p *pb.Program) (hints []string) {
	var names []string
	decide, _ := spec.Deciding(p)
	for i, step := range p.GetSteps() {
		if step.GetPython() != nil && decide[i] {
			names = append(names, fmt.Sprintf("%s (%s)", step.GetPython().GetName(), step.GetAt()))
		}
	}
	unsaid := s.GetLastBatch() == pb.LastBatch_LAST_BATCH_UNSPECIFIED // several ranks then get drop
	if len(names) == 0 || !spec.Counted(s) && !unsaid {
		return nil
	}
	where := "rows are counted before they are read"
	if !spec.Counted(s) {
		where = "where several ranks read, " + where
	}
	when := "in the first epoch"
	if spec.DrawsRows(p) {
		when = "in each epoch"
	}
	return []string{fmt.Sprintf("%s: for that %s, and what makes the inputs, run twice %s; last_batch: pad or uneven, "+
		"with order: fast, counts nothing", where, english.OxfordWordSeries(names, "and"), when)}
}

// WriteText writes it for a terminal.
func (p *plannedSession) WriteText(w io.Writer) error {
	if err := p.Description.WriteText(w); err != nil {
		return err
	}
	if p.Filter != "" {
		if _, err := terminal.Printf(w, "\nfilter: %s\n", strings.Join(strings.Fields(p.Filter), " ")); err != nil {
			return fmt.Errorf("plan: write the filter: %w", err)
		}
	}
	if len(p.Ops) > 0 {
		t := terminal.Table(w)
		terminal.Printf(t, "\nop\tat\tsteps\tfunction\n")
		for _, o := range p.Ops {
			terminal.Printf(t, "%s\t%s\t%d\t%s\n", o.Op, o.At, o.Steps, o.Function.words())
		}
		if err := t.Flush(); err != nil {
			return fmt.Errorf("plan: write the ops: %w", err)
		}
	}
	return errors.Join(writeLines(w, "listing", p.Notes), writeLines(w, "hint", p.Hints))
}

// writeLines writes what is worth knowing, each with a word that says what of.
func writeLines(w io.Writer, of string, lines []string) error {
	for _, line := range lines {
		if _, err := terminal.Printf(w, "\n%s: %s\n", of, terminal.Lines(line)); err != nil {
			return fmt.Errorf("write what is worth knowing: %w", err)
		}
	}
	return nil
}

// words are what people read of a function.
func (f *plannedFunction) words() string {
	if f == nil {
		return ""
	}
	parts := []string{fmt.Sprintf("%s, %s", cmp.Or(f.Call, f.Name), f.Kind)}
	if f.By != "" {
		parts[0] += " by " + f.By
	}
	if f.Most > 0 {
		parts = append(parts, fmt.Sprintf("at most %d rows of each", f.Most))
	}
	if f.Threads > 0 {
		parts = append(parts, english.Plural(int(f.Threads), "thread", ""))
	}
	if f.Memory > 0 {
		parts = append(parts, humanize.IBytes(uint64(f.Memory))+" a process")
	}
	if f.TimeoutMs > 0 {
		parts = append(parts, (time.Duration(f.TimeoutMs)*time.Millisecond).String()+" a call")
	}
	return strings.Join(append(parts, "in "+f.Environment), ", ")
}
