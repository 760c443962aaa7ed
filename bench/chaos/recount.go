package main

import (
	"cmp"
	"context"
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"os/exec"
	"slices"
	"strings"
)

// count is what a recount found. Only rows that are lost, doubled, invented or altered have examples.
type count struct {
	// By says who counted.
	By         string `json:"-"`
	Expected   int64  `json:"expected"`
	HandedOver int64  `json:"handed_over"`
	Lost       found  `json:"lost"`     // epoch, file, row
	Doubled    found  `json:"doubled"`  // epoch, file, row, step, rank
	Invented   found  `json:"invented"` // as above
	Altered    found  `json:"altered"`  // as above
	// Displaced are rows that are not where they are in the sequence of the undisturbed job: epoch, file, row, step,
	// rank.
	Displaced found `json:"displaced"`
}

type found struct {
	Count    int64      `json:"count"`
	Examples [][]string `json:"examples"`
}

// exact reports whether every row was handed over once, with its values.
func (c *count) exact() bool {
	return c.HandedOver == c.Expected &&
		c.Lost.Count+c.Doubled.Count+c.Invented.Count+c.Altered.Count+c.Displaced.Count == 0
}

// question is what to count.
type question struct {
	ledger, dataset string
	epochs          int
	full, functions bool
	undisturbed     string // the ledger of the same job without faults, to compare the sequence with, or ""
}

//go:embed recount.py
var recountScript string

// errNoDuckDB says that there is no Python with duckdb.
var errNoDuckDB = errors.New("no Python with duckdb: `make python` makes one; or name one by --python")

// recountDuckDB counts with DuckDB.
func recountDuckDB(ctx context.Context, python string, q question) (*count, error) {
	python = findPython(ctx, python, "duckdb")
	if python == "" {
		return nil, errNoDuckDB
	}
	cmd := exec.CommandContext(ctx, python, "-c", recountScript, q.ledger, q.dataset, fmt.Sprint(q.epochs),
		q.undisturbed, map[bool]string{true: "full"}[q.full], map[bool]string{true: "functions"}[q.functions])
	var errs strings.Builder
	cmd.Stderr = &errs
	out, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("chaos: recount with DuckDB: %w\n%s", err, errs.String())
	}
	c := &count{By: "DuckDB"}
	if err := json.Unmarshal(out, c); err != nil {
		return nil, fmt.Errorf("chaos: recount with DuckDB: %w", err)
	}
	return c, nil
}

// findPython returns a Python that has a package: the one that is asked for, or else the one that `make python` makes,
// or the system's; "" is none.
func findPython(ctx context.Context, wanted, pkg string) string {
	candidates := []string{".venv/bin/python", "python3"}
	if wanted != "" {
		candidates = []string{wanted}
	}
	for _, p := range candidates {
		if exec.CommandContext(ctx, p, "-c", "import "+pkg).Run() == nil {
			return p
		}
	}
	return ""
}

// recountGo counts the ledgers' rows against the files' numbers of rows.
func recountGo(segments, undisturbed []segment, files []int, o options) (*count, error) {
	c, epochs := &count{By: "Go"}, o.epochs
	seen := make([][][]bool, epochs) // by epoch, file and row
	c.Expected = o.expected(files) * int64(epochs)
	for e := range seen {
		seen[e] = make([][]bool, len(files))
		for f, rows := range files {
			seen[e][f] = make([]bool, rows)
		}
	}
	for _, s := range segments {
		err := s.each(func(r record) error {
			c.HandedOver++
			here := []string{
				fmt.Sprint(r.epoch), fmt.Sprint(r.file), fmt.Sprint(r.row), fmt.Sprint(r.step),
				fmt.Sprint(s.Rank),
			}
			if int(r.epoch) >= epochs || r.file < 0 || int(r.file) >= len(files) || r.row < 0 ||
				int(r.row) >= files[r.file] {
				c.Invented.add(here)
				return nil
			}
			want, kept := o.wanted(rowValues(int(r.file), int(r.row)))
			if !kept {
				c.Invented.add(here)
				return nil
			}
			had := &seen[r.epoch][r.file][r.row]
			if *had {
				c.Doubled.add(here)
			}
			*had = true
			if !r.sums.equal(want.sums()) {
				c.Altered.add(here)
			}
			return nil
		})
		if err != nil {
			return nil, err
		}
	}
	for e := range seen {
		for f := range seen[e] {
			for row, had := range seen[e][f] {
				if had {
					continue
				}
				if _, kept := o.wanted(rowValues(f, row)); kept {
					c.Lost.add([]string{fmt.Sprint(e), fmt.Sprint(f), fmt.Sprint(row)})
				}
			}
		}
	}
	if undisturbed == nil {
		return c, nil
	}
	return c, c.compare(segments, undisturbed)
}

// compare finds the rows that are not at their places in another sequence.
func (c *count) compare(segments, undisturbed []segment) error {
	want, _, err := sequence(undisturbed)
	if err != nil {
		return err
	}
	have, ranks, err := sequence(segments)
	if err != nil {
		return err
	}
	for i, r := range have {
		if i >= len(want) || want[i].epoch != r.epoch || want[i].step != r.step || want[i].file != r.file ||
			want[i].row != r.row {
			c.Displaced.add([]string{
				fmt.Sprint(r.epoch), fmt.Sprint(r.file), fmt.Sprint(r.row), fmt.Sprint(r.step),
				fmt.Sprint(ranks[i]),
			})
		}
	}
	return nil
}

// sequence is all records in the order of steps, in a step of ranks, and in a batch as they came; and whose they were.
func sequence(segments []segment) (all []record, ranks []int, err error) {
	type placed struct {
		record
		rank int
	}
	var out []placed
	for _, s := range segments {
		err := s.each(func(r record) error {
			out = append(out, placed{r, s.Rank})
			return nil
		})
		if err != nil {
			return nil, nil, err
		}
	}
	slices.SortStableFunc(out, func(a, b placed) int { return cmp.Or(cmp.Compare(a.step, b.step), a.rank-b.rank) })
	for _, p := range out {
		all, ranks = append(all, p.record), append(ranks, p.rank)
	}
	return all, ranks, nil
}

func (f *found) add(example []string) {
	f.Count++
	if len(f.Examples) < 10 {
		f.Examples = append(f.Examples, example)
	}
}
