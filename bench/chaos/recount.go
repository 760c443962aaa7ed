package main

import (
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
}

type found struct {
	Count    int64      `json:"count"`
	Examples [][]string `json:"examples"`
}

// exact reports whether every row was handed over once, with its values.
func (c *count) exact() bool {
	return c.HandedOver == c.Expected && c.Lost.Count+c.Doubled.Count+c.Invented.Count+c.Altered.Count == 0
}

//go:embed recount.py
var recountScript string

// errNoDuckDB says that there is no Python with duckdb.
var errNoDuckDB = errors.New("no Python with duckdb: `make python` makes one; or name one by --python")

// recountDuckDB counts with DuckDB.
func recountDuckDB(ctx context.Context, python, ledger, dataset string, epochs int) (*count, error) {
	candidates := []string{".venv/bin/python", "python3"}
	if python != "" {
		candidates = []string{python}
	}
	i := slices.IndexFunc(candidates, func(p string) bool {
		return exec.CommandContext(ctx, p, "-c", "import duckdb").Run() == nil
	})
	if i < 0 {
		return nil, errNoDuckDB
	}
	cmd := exec.CommandContext(ctx, candidates[i], "-c", recountScript, ledger, dataset, fmt.Sprint(epochs))
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

// recountGo counts the ledgers' rows against the files' numbers of rows.
func recountGo(segments []segment, files []int, epochs int) (*count, error) {
	c := &count{By: "Go"}
	seen := make([][][]bool, epochs) // by epoch, file and row
	for e := range seen {
		seen[e] = make([][]bool, len(files))
		for f, rows := range files {
			seen[e][f] = make([]bool, rows)
			c.Expected += int64(rows)
		}
	}
	for _, s := range segments {
		err := s.each(func(r record) error {
			c.HandedOver++
			here := []string{fmt.Sprint(r.epoch), fmt.Sprint(r.file), fmt.Sprint(r.row), fmt.Sprint(r.step), fmt.Sprint(s.Rank)}
			if int(r.epoch) >= epochs || r.file < 0 || int(r.file) >= len(files) || r.row < 0 || int(r.row) >= files[r.file] {
				c.Invented.add(here)
				return nil
			}
			had := &seen[r.epoch][r.file][r.row]
			if *had {
				c.Doubled.add(here)
			}
			*had = true
			if !r.sums.equal(rowValues(int(r.file), int(r.row)).sums()) {
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
				if !had {
					c.Lost.add([]string{fmt.Sprint(e), fmt.Sprint(f), fmt.Sprint(row)})
				}
			}
		}
	}
	return c, nil
}

func (f *found) add(example []string) {
	f.Count++
	if len(f.Examples) < 10 {
		f.Examples = append(f.Examples, example)
	}
}
