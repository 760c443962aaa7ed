package local

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/penstock-ml/penstock/client"
	"github.com/penstock-ml/penstock/internal/process"
)

// Own are the commands that `penstock local --workers 0` runs in its own process, in place of children.
type Own struct {
	Master, Worker *cobra.Command
	// Local is where Worker lists itself while it runs.
	Local client.Local
}

// start starts the master, which runs until it is stopped.
func (o *Own) start(ctx context.Context, flags []string) (server, error) {
	if err := process.Isolate(); err != nil {
		return nil, err
	}
	m := &ownMaster{up: make(chan struct{}), done: make(chan struct{})}
	ctx, m.end = context.WithCancel(context.WithoutCancel(ctx)) // those that it serves end before
	o.Master.SetArgs(append(flags, "--output=json"))
	o.Master.SetOut(m)
	o.Master.SilenceErrors = true // they are this command's
	go func() {
		defer close(m.done)
		m.err = o.Master.ExecuteContext(ctx)
	}()
	return m, nil
}

// work runs the worker until ctx ends.
func (o *Own) work(ctx context.Context, flags []string) error {
	o.Worker.SetArgs(flags)
	o.Worker.SilenceErrors = true
	if err := o.Worker.ExecuteContext(ctx); err != nil || ctx.Err() != nil {
		return err
	}
	return errors.New("local: the worker has ended")
}

// ownMaster is a master in this process. A goroutine of its own runs it.
type ownMaster struct {
	up, done     chan struct{}
	announcement process.Announcement // set before up is closed
	err          error                // set before done is closed
	end          context.CancelFunc
}

// Write takes the first line that the master prints, its announcement.
func (m *ownMaster) Write(line []byte) (int, error) {
	select {
	case <-m.up:
		return len(line), nil
	default:
	}
	if err := json.Unmarshal(line, &m.announcement); err != nil {
		return 0, fmt.Errorf("local: the master's announcement: %w", err)
	}
	close(m.up)
	return len(line), nil
}

func (m *ownMaster) Announced(ctx context.Context) (process.Announcement, error) {
	select {
	case <-m.up:
		return m.announcement, nil
	case <-m.done:
		return process.Announcement{}, errors.Join(errors.New("local: the master ended before it was up"), m.err)
	case <-ctx.Done():
		return process.Announcement{}, fmt.Errorf("local: wait for the master: %w", ctx.Err())
	}
}

func (m *ownMaster) Done() <-chan struct{} { return m.done }

func (m *ownMaster) Status() string { return "in this process" }

func (m *ownMaster) Wait() error {
	<-m.done
	return m.err
}

func (m *ownMaster) Stop() error {
	m.end()
	return m.Wait()
}
