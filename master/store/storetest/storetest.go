// Package storetest runs clusters of etcd as processes of their own, for tests and benchmarks that kill, stop and fill
// them. A member is this program, started a second time: whoever uses the package calls Main first. Cluster's methods
// may be used by one goroutine at a time.
package storetest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"time"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/penstock-ml/penstock/internal/process"
)

// callTimeout bounds a request to a member.
const callTimeout = 5 * time.Second

// Config says what to run.
type Config struct {
	// Dir takes the members' data and logs; it must exist.
	Dir string
	// Hosts are the members' IP addresses; nil is three members on loopback.
	Hosts []string
	// Quota bounds the database's bytes; 0 is etcd's default, 2 GiB.
	Quota int64
	// Command, if set, is what runs a member of an address, the member's own command after it, such as ip netns exec.
	Command func(host string) []string
}

// Cluster is a cluster of etcd.
type Cluster struct {
	cfg     Config
	members []*Member
}

// Member is one of its members.
type Member struct {
	spec    memberSpec
	log     string
	command []string
	process *process.Process
}

// Start runs a cluster, and returns when each member serves. Close ends it.
func Start(ctx context.Context, cfg Config) (*Cluster, error) {
	if cfg.Hosts == nil {
		cfg.Hosts = []string{"127.0.0.1", "127.0.0.1", "127.0.0.1"}
	}
	c := &Cluster{cfg: cfg}
	var initial []string
	for i, host := range cfg.Hosts {
		name := fmt.Sprintf("etcd-%d", i+1)
		client, peer, err := freePorts(ctx, host)
		if err != nil {
			return nil, err
		}
		m := &Member{log: filepath.Join(cfg.Dir, name+".log"), spec: memberSpec{
			Name: name, Dir: filepath.Join(cfg.Dir, name), Client: "http://" + client, Peer: "http://" +
				peer, Quota: cfg.Quota,
		}}
		if cfg.Command != nil {
			m.command = cfg.Command(host)
		}
		initial = append(initial, name+"="+m.spec.Peer)
		c.members = append(c.members, m)
	}
	for _, m := range c.members {
		m.spec.Cluster = strings.Join(initial, ",")
		if err := m.start(); err != nil {
			return nil, errors.Join(err, c.Close())
		}
	}
	for _, m := range c.members {
		if err := m.Serves(ctx); err != nil {
			return nil, errors.Join(err, c.Close())
		}
	}
	return c, nil
}

// freePorts finds two ports that are free now. Members keep theirs when they are started again.
func freePorts(ctx context.Context, host string) (client, peer string, err error) {
	var found [2]string
	for i := range found {
		l, err := new(net.ListenConfig).Listen(ctx, "tcp", net.JoinHostPort(host, "0"))
		if err != nil {
			// The address may be one of another network namespace, where nothing else runs.
			return net.JoinHostPort(host, "2379"), net.JoinHostPort(host, "2380"), nil //nolint:nilerr // see above
		}
		defer func() { err = errors.Join(err, l.Close()) }()
		found[i] = l.Addr().String()
	}
	return found[0], found[1], nil
}

func (m *Member) start() (err error) {
	spec, err := json.Marshal(m.spec)
	if err != nil {
		return fmt.Errorf("storetest: %w", err)
	}
	binary, err := os.Executable()
	if err != nil {
		return fmt.Errorf("storetest: %w", err)
	}
	command := append(append([]string{}, m.command...), binary)
	m.process, err = process.Start(process.Config{
		Name: m.spec.Name, Binary: command[0], Args: command[1:], Env: []string{memberEnv + "=" + string(spec)},
		Log: m.log,
	})
	return err
}

// Endpoints are the members' client URLs.
func (c *Cluster) Endpoints() []string {
	out := make([]string, len(c.members))
	for i, m := range c.members {
		out[i] = m.Endpoint()
	}
	return out
}

// Members are the cluster's.
func (c *Cluster) Members() []*Member { return c.members }

// Leader returns the member that leads.
func (c *Cluster) Leader(ctx context.Context) (*Member, error) {
	var errs []error
	for _, m := range c.members {
		s, err := m.Status(ctx)
		if err == nil && s.Leader == s.Header.GetMemberId() && s.Leader != 0 {
			return m, nil
		}
		errs = append(errs, err)
	}
	return nil, errors.Join(append(errs, errors.New("storetest: no member leads"))...)
}

// Fill writes until the database has reached its quota and etcd takes no more.
func (c *Cluster) Fill(ctx context.Context) error {
	return c.members[0].call(ctx, time.Minute, func(ctx context.Context, client *clientv3.Client) error {
		for {
			_, err := client.Put(ctx, "storetest/filling", strings.Repeat("x", 1<<20))
			if errors.Is(err, rpctypes.ErrNoSpace) {
				return nil
			}
			if err != nil {
				return err
			}
		}
	})
}

// Get reads a key's value.
func (c *Cluster) Get(ctx context.Context, key string) (value string, err error) {
	err = c.members[0].call(ctx, callTimeout, func(ctx context.Context, client *clientv3.Client) error {
		resp, err := client.Get(ctx, key)
		if err == nil && len(resp.Kvs) == 0 {
			err = fmt.Errorf("storetest: there is no key %s", key)
		}
		if err == nil {
			value = string(resp.Kvs[0].Value)
		}
		return err
	})
	return value, err
}

func put(key, value string) clientv3.Op { return clientv3.OpPut(key, value) }

// Put writes n keys, as many in a transaction as etcd takes.
func (c *Cluster) Put(ctx context.Context, n int, of func(i int) (key, value string)) error {
	return c.members[0].call(ctx, time.Hour, func(ctx context.Context, client *clientv3.Client) error {
		for i := 0; i < n; {
			var ops []clientv3.Op
			for ; i < n && len(ops) < 128; i++ {
				ops = append(ops, put(of(i)))
			}
			if _, err := client.Txn(ctx).Then(ops...).Commit(); err != nil {
				return err
			}
		}
		return nil
	})
}

// Compact has etcd forget the history of its keys.
func (c *Cluster) Compact(ctx context.Context) error {
	return c.members[0].call(ctx, time.Minute, func(ctx context.Context, client *clientv3.Client) error {
		now, err := client.Get(ctx, "\x00", clientv3.WithCountOnly())
		if err == nil {
			_, err = client.Compact(ctx, now.Header.GetRevision(), clientv3.WithCompactPhysical())
		}
		return err
	})
}

// MakeRoom does what an operator does with a full database: its history is compacted, each member is defragmented,
// then the alarms are disarmed.
func (c *Cluster) MakeRoom(ctx context.Context) error {
	if err := c.Compact(ctx); err != nil {
		return err
	}
	for _, m := range c.members {
		err := m.call(ctx, time.Minute, func(ctx context.Context, client *clientv3.Client) error {
			_, err := client.Defragment(ctx, m.Endpoint())
			return err
		})
		if err != nil {
			return err
		}
	}
	return c.members[0].call(ctx, callTimeout, func(ctx context.Context, client *clientv3.Client) error {
		_, err := client.AlarmDisarm(ctx, &clientv3.AlarmMember{})
		return err
	})
}

// Close ends all members, stopped ones too. One that ended by itself is an error.
func (c *Cluster) Close() error {
	var errs []error
	for _, m := range c.members {
		if m.process != nil {
			errs = append(errs, m.Kill())
		}
	}
	return errors.Join(errs...)
}

// Endpoint is the member's client URL.
func (m *Member) Endpoint() string { return m.spec.Client }

// Process is the member's newest process.
func (m *Member) Process() *process.Process { return m.process }

// Kill kills the member with SIGKILL and waits for its end.
func (m *Member) Kill() error { return errors.Join(m.process.Kill(), m.process.Wait()) }

// Restart starts a member that was killed, with its data. It does not wait until it serves.
func (m *Member) Restart() error {
	select {
	case <-m.process.Done():
		return m.start()
	default:
		return fmt.Errorf("storetest: %s still runs", m.spec.Name)
	}
}

// Serves waits until the member knows a leader, and with it a majority.
func (m *Member) Serves(ctx context.Context) error {
	for {
		s, err := m.Status(ctx)
		if err == nil && s.Leader != 0 {
			return nil
		}
		select {
		case <-ctx.Done():
			return errors.Join(fmt.Errorf("storetest: %s does not serve: %w", m.spec.Name, ctx.Err()), err)
		case <-m.process.Done():
			return fmt.Errorf("storetest: %s ended: %w", m.spec.Name, m.process.Wait())
		case <-time.After(20 * time.Millisecond):
		}
	}
}

// Status is what the member says of itself.
func (m *Member) Status(ctx context.Context) (s *clientv3.StatusResponse, err error) {
	err = m.call(ctx, callTimeout, func(ctx context.Context, client *clientv3.Client) error {
		s, err = client.Status(ctx, m.Endpoint())
		return err
	})
	return s, err
}

// call makes a request to this member alone.
func (m *Member) call(
	ctx context.Context, timeout time.Duration, f func(context.Context, *clientv3.Client) error,
) error {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	client, err := clientv3.New(clientv3.Config{Endpoints: []string{m.Endpoint()}, Context: ctx, Logger: quiet()})
	if err == nil {
		err = errors.Join(f(ctx, client), client.Close())
	}
	if err != nil {
		return fmt.Errorf("storetest: %s: %w", m.spec.Name, err)
	}
	return nil
}
