package main

import (
	"bufio"
	"context"
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

//go:embed decode.py
var decodePy string

// request is a line to decode.py.
type request struct {
	Reader  string   `json:"reader"` // or write
	File    string   `json:"file"`
	Columns []string `json:"columns"`
	Digest  bool     `json:"digest,omitempty"` // instead of times
	Bytes   int64    `json:"bytes,omitempty"`  // of the columns
	To      string   `json:"to,omitempty"`
}

// answer is a line of it.
type answer struct {
	Versions map[string]string   `json:"versions"`
	Seconds  map[string]float64  `json:"seconds"` // by way
	Digests  map[string][]string `json:"digests"`
	Error    string              `json:"error"`
}

// errAnswer says that a reader could not do what it was asked for.
var errAnswer = errors.New("it answered")

// python is the child process that runs decode.py.
type python struct {
	cmd      *exec.Cmd
	in       io.WriteCloser
	out      *bufio.Reader
	versions map[string]string
}

// startPython starts decode.py in a Python that has what it needs. stop must be called.
func startPython(ctx context.Context, wanted string) (*python, error) {
	candidates := []string{wanted}
	if wanted == "" {
		dir, err := os.Getwd()
		if err != nil {
			return nil, err
		}
		candidates = append(venvs(dir), "python3")
	}
	for _, path := range candidates {
		if exec.CommandContext(ctx, path, "-c", "import pyarrow, duckdb, numpy").Run() == nil {
			return runPython(ctx, path)
		}
	}
	return nil, fmt.Errorf("no Python with pyarrow, duckdb and numpy (tried %s): run `make python`, or name one by --python", strings.Join(candidates, ", "))
}

// venvs are the places of the Python that `make python` makes, in dir or above.
func venvs(dir string) (paths []string) {
	for {
		paths = append(paths, filepath.Join(dir, ".venv/bin/python"))
		up := filepath.Dir(dir)
		if up == dir {
			return paths
		}
		dir = up
	}
}

func runPython(ctx context.Context, path string) (*python, error) {
	p := &python{cmd: exec.CommandContext(ctx, path, "-c", decodePy)}
	p.cmd.Stderr = os.Stderr
	var err error
	if p.in, err = p.cmd.StdinPipe(); err != nil {
		return nil, err
	}
	out, err := p.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	p.out = bufio.NewReader(out)
	if err := p.cmd.Start(); err != nil {
		return nil, fmt.Errorf("start %s: %w", path, err)
	}
	a, err := p.answer()
	if err != nil {
		p.stop()
		return nil, fmt.Errorf("start %s: %w", path, err)
	}
	p.versions = a.Versions
	return p, nil
}

// ask sends a request and waits for its answer. An errAnswer is about the request only.
func (p *python) ask(ctx context.Context, r request) (answer, error) {
	if err := ctx.Err(); err != nil {
		return answer{}, err
	}
	line, err := json.Marshal(r)
	if err != nil {
		return answer{}, err
	}
	if _, err := p.in.Write(append(line, '\n')); err != nil {
		return answer{}, fmt.Errorf("write to Python: %w", err)
	}
	return p.answer()
}

func (p *python) answer() (a answer, err error) {
	line, err := p.out.ReadBytes('\n')
	if err != nil {
		return a, fmt.Errorf("the Python process ended, see its message above: %w", err)
	}
	if err := json.Unmarshal(line, &a); err != nil {
		return a, fmt.Errorf("answer %q of the Python process: %w", line, err)
	}
	if a.Error != "" {
		return a, fmt.Errorf("%w: %s", errAnswer, a.Error)
	}
	return a, nil
}

func (p *python) stop() {
	p.in.Close()
	_ = p.cmd.Wait() // what it had to say it has said
}
