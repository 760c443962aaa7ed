package conformance

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"time"
)

// Command is a line to a driver.
type Command struct {
	Do    string  `json:"do"` // open, next, leave, state, stats or close
	Open  *Config `json:"open,omitempty"`
	After int     `json:"after,omitempty"` // state: as of this batch of the open session, from 1; else the newest
	Epoch uint32  `json:"epoch,omitempty"` // leave: the one that the loop is in
}

// Config is how to open the session. Times are in seconds.
type Config struct {
	Masters        []string        `json:"masters"`
	Session        string          `json:"session"`
	Spec           json.RawMessage `json:"spec"` // pb.Spec
	Rank           uint32          `json:"rank"`
	World          uint32          `json:"world_size"`
	Restore        [][]byte        `json:"restore"` // pb.State, each; null: no restore
	Budget         int64           `json:"budget"`  // bytes
	SyncEvery      float64         `json:"sync_every"`
	StreamTimeout  float64         `json:"stream_timeout"`
	HedgeAfter     float64         `json:"hedge_after"`
	ConnectTimeout float64         `json:"connect_timeout"`
	Timeout        float64         `json:"timeout"`
}

// Reply is a driver's line back.
type Reply struct {
	Error *Error `json:"error,omitempty"`
	Rows  []byte `json:"rows,omitempty"`  // next: an Arrow IPC stream of the batch
	Epoch uint32 `json:"epoch,omitempty"` // of the batch
	Valid int    `json:"valid,omitempty"` // rows of the batch that are not padding
	End   bool   `json:"end,omitempty"`   // next: all epochs are over
	State []byte `json:"state,omitempty"` // pb.State
	// Checkpoint has its place after the batch.
	Checkpoint *Checkpoint `json:"checkpoint,omitempty"`
	Stats      *Stats      `json:"stats,omitempty"`
}

// Checkpoint is a named checkpoint of the whole job.
type Checkpoint struct {
	Name string `json:"name"`
	Step uint64 `json:"step"`
}

// Error is what a client raised.
type Error struct {
	// Kind is spec, mismatch, failed, master, workers, permission, data, restore, fenced, closed or other.
	Kind    string `json:"kind"`
	Message string `json:"message"`
}

// Stats are figures since the open.
type Stats struct {
	Rows         int64 `json:"rows"`
	Batches      int64 `json:"batches"`
	Dropped      int64 `json:"dropped"`
	Failovers    int64 `json:"failovers"`
	Hedges       int64 `json:"hedges"`
	Skipped      int64 `json:"skipped"` // parts of row groups that the client told its user of
	Buffered     int64 `json:"buffered"`
	PeakBuffered int64 `json:"peak_buffered"`
	// Stall is the time that next waited, Compute the time between its return with a batch and the next call: seconds.
	Stall   float64 `json:"stall"`
	Compute float64 `json:"compute"`
}

// Driver is how to start a client's driver.
type Driver struct {
	Command []string
	Env     []string

	mu   sync.Mutex
	idle []*process
}

// process is a running driver.
type process struct {
	cmd     *exec.Cmd
	in      io.WriteCloser
	replies chan Reply // closed when the process ended
	err     error      // why, after it
	stderr  log
}

// log keeps what a process wrote, to show the part of one scenario.
type log struct {
	mu   sync.Mutex
	text []byte
}

func (l *log) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.text = append(l.text, b...)
	return len(b), nil
}

// drain returns what was written since the drain before.
func (l *log) drain() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	text := string(l.text)
	l.text = nil
	return text
}

// take returns a driver that nobody uses.
func (d *Driver) take() (*process, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if n := len(d.idle); n > 0 {
		p := d.idle[n-1]
		d.idle = d.idle[:n-1]
		p.stderr.drain()
		return p, nil
	}
	return d.start()
}

// give takes back a driver whose session is closed.
func (d *Driver) give(p *process) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.idle = append(d.idle, p)
}

// stop ends the idle drivers.
func (d *Driver) stop() {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, p := range d.idle {
		p.kill()
	}
	d.idle = nil
}

func (d *Driver) start() (*process, error) {
	p := &process{
		cmd:     exec.CommandContext(context.Background(), d.Command[0], d.Command[1:]...),
		replies: make(chan Reply),
	}
	p.cmd.Env, p.cmd.Stderr = d.Env, &p.stderr
	var err error
	if p.in, err = p.cmd.StdinPipe(); err != nil {
		return nil, err
	}
	out, err := p.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := p.cmd.Start(); err != nil {
		return nil, fmt.Errorf("driver: %w", err)
	}
	go p.listen(out)
	return p, nil
}

// listen passes replies on until the process ends.
func (p *process) listen(out io.Reader) {
	defer close(p.replies)
	lines := bufio.NewReader(out)
	for {
		line, err := lines.ReadBytes('\n')
		if err != nil {
			_ = p.cmd.Wait() // ProcessState says it
			p.err = fmt.Errorf("the driver ended: %v", p.cmd.ProcessState)
			return
		}
		var r Reply
		if err := json.Unmarshal(line, &r); err != nil {
			r = Reply{Error: &Error{Kind: "driver", Message: fmt.Sprintf("it wrote %q: %v", line, err)}}
		}
		p.replies <- r
	}
}

// send gives a command; its reply comes over p.replies.
func (p *process) send(c Command) error {
	line, err := json.Marshal(c)
	if err != nil {
		return err
	}
	_, err = p.in.Write(append(line, '\n'))
	return err
}

var errTimeout = errors.New("no answer in time")

// receive waits for a reply. After errTimeout it may be called again.
func (p *process) receive(within time.Duration) (Reply, error) {
	t := time.NewTimer(within)
	defer t.Stop()
	select {
	case r, ok := <-p.replies:
		if !ok {
			return r, p.err
		}
		return r, nil
	case <-t.C:
		return Reply{}, errTimeout
	}
}

// kill ends the process without any last words of the client, and waits for its end. A process that makes its batches,
// which would say some, ends first.
func (p *process) kill() {
	for _, child := range children(p.cmd.Process.Pid) {
		_ = child.Kill() // fails only if it has ended
	}
	_ = p.cmd.Process.Kill() // the same
	for range p.replies {    // none that anybody waits for
	}
	p.in.Close()
}

// children are the processes that a process's first thread started, on Linux.
func children(of int) []*os.Process {
	text, _ := os.ReadFile(fmt.Sprintf("/proc/%d/task/%d/children", of, of)) // none of one that has ended
	var out []*os.Process
	for _, field := range strings.Fields(string(text)) {
		if pid, err := strconv.Atoi(field); err == nil {
			if child, err := os.FindProcess(pid); err == nil {
				out = append(out, child)
			}
		}
	}
	return out
}
