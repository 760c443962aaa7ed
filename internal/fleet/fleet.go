// Package fleet lets workers and masters find each other by gossip. Each process is a Member with a role, an
// address and a number of slots; every process sees all of them, and learns within a second or so of one that
// died. Nothing durable rests on it: the master places streams by what it sees here, and a stream that cannot be
// opened goes to the next candidate.
//
// A Fleet may be used by many goroutines at once.
package fleet

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"log"
	"log/slog"
	"net"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/hashicorp/memberlist"
)

// Role is what a member does.
type Role string

// Roles.
const (
	Master Role = "master"
	Worker Role = "worker"
)

// Member is a process of the fleet.
type Member struct {
	Name string `json:"-"`
	Role Role   `json:"r"`
	// Address is where its gRPC port can be reached.
	Address string `json:"a"`
	Zone    string `json:"z,omitempty"`
	// Slots is the number of streams a worker serves at once.
	Slots   int    `json:"s,omitempty"`
	Version string `json:"v,omitempty"`
	// Draining workers take no new streams.
	Draining bool `json:"d,omitempty"`
}

// Config says who this process is and whom it knows.
type Config struct {
	Self Member
	// Bind is the gossip address "host:port" to listen on (TCP and UDP); port 0 takes a free one.
	Bind string
	// Advertise is the gossip address to tell others; "" is the bound one.
	Advertise string
	// Join names gossip addresses of members, any of which is enough. Names are resolved anew at each attempt.
	Join []string
	// Secret encrypts the gossip if it is not empty; all members need the same.
	Secret string
	Logger *slog.Logger
}

// Fleet is this process's view of the members.
type Fleet struct {
	cfg     Config
	list    *memberlist.Memberlist
	mu      sync.Mutex
	self    Member
	changed chan struct{}
}

// New starts to listen and gossip. Run keeps it joined; Close leaves.
func New(cfg Config) (*Fleet, error) {
	host, port, err := splitAddress(cfg.Bind)
	if err != nil {
		return nil, fmt.Errorf("fleet: bind: %w", err)
	}
	f := &Fleet{cfg: cfg, self: cfg.Self, changed: make(chan struct{}, 1)}
	mc := memberlist.DefaultLANConfig()
	mc.Name = cfg.Self.Name
	mc.BindAddr, mc.BindPort = host, port
	mc.AdvertisePort = port
	if cfg.Advertise != "" {
		if mc.AdvertiseAddr, mc.AdvertisePort, err = splitAddress(cfg.Advertise); err != nil {
			return nil, fmt.Errorf("fleet: advertise: %w", err)
		}
	}
	// A killed worker should leave the candidates in about two seconds; the network is a data centre's.
	mc.ProbeInterval = 500 * time.Millisecond
	mc.ProbeTimeout = 250 * time.Millisecond
	mc.SuspicionMult = 2
	mc.SuspicionMaxTimeoutMult = 2
	mc.DeadNodeReclaimTime = time.Second
	mc.Delegate = delegate{f}
	mc.Events = delegate{f}
	mc.Logger = log.New(logWriter{cfg.Logger}, "", 0)
	if cfg.Secret != "" {
		key := sha256.Sum256([]byte("penstock gossip\x00" + cfg.Secret))
		mc.SecretKey = key[:]
	}
	if f.list, err = memberlist.Create(mc); err != nil {
		return nil, fmt.Errorf("fleet: listen on %s: %w", cfg.Bind, err)
	}
	return f, nil
}

// Address is the gossip address that others can join.
func (f *Fleet) Address() string {
	n := f.list.LocalNode()
	return net.JoinHostPort(n.Addr.String(), strconv.Itoa(int(n.Port)))
}

// Run joins the configured members and joins them again whenever this process stands alone, until ctx ends.
func (f *Fleet) Run(ctx context.Context) error {
	if len(f.cfg.Join) == 0 {
		<-ctx.Done()
		return nil
	}
	const retry, check = 250 * time.Millisecond, 10 * time.Second
	for warned := false; ; {
		wait := check
		if f.list.NumMembers() < 2 {
			if _, err := f.list.Join(f.cfg.Join); err != nil {
				wait = retry
				if !warned {
					f.cfg.Logger.Warn("cannot join the fleet yet; trying on", "join", f.cfg.Join, "error", err)
					warned = true
				}
			} else {
				warned = false
			}
		}
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(wait):
		}
	}
}

// Members returns the living members of a role, sorted by name.
func (f *Fleet) Members(role Role) []Member {
	var out []Member
	for _, n := range f.list.Members() {
		m, err := decode(n)
		if err == nil && m.Role == role {
			out = append(out, m)
		}
	}
	slices.SortFunc(out, func(a, b Member) int { return strings.Compare(a.Name, b.Name) })
	return out
}

// Changed is sent to after members came, went or changed; several changes may be one message.
func (f *Fleet) Changed() <-chan struct{} { return f.changed }

// Update changes what this process says of itself.
func (f *Fleet) Update(change func(*Member)) error {
	f.mu.Lock()
	change(&f.self)
	f.mu.Unlock()
	if err := f.list.UpdateNode(time.Second); err != nil {
		return fmt.Errorf("fleet: update: %w", err)
	}
	return nil
}

// Close tells the others that this process leaves, and stops.
func (f *Fleet) Close() error {
	return errors.Join(f.list.Leave(time.Second), f.list.Shutdown())
}

func (f *Fleet) notify() {
	select {
	case f.changed <- struct{}{}:
	default:
	}
}

// delegate receives memberlist's calls.
type delegate struct{ f *Fleet }

func (d delegate) NodeMeta(limit int) []byte {
	d.f.mu.Lock()
	defer d.f.mu.Unlock()
	b, err := json.Marshal(d.f.self)
	if err != nil || len(b) > limit {
		d.f.cfg.Logger.Error("this member's gossip record is too long", "bytes", len(b), "limit", limit)
		return nil
	}
	return b
}
func (delegate) NotifyMsg([]byte)                {}
func (delegate) GetBroadcasts(int, int) [][]byte { return nil }
func (delegate) LocalState(bool) []byte          { return nil }
func (delegate) MergeRemoteState([]byte, bool)   {}
func (d delegate) NotifyJoin(*memberlist.Node)   { d.f.notify() }
func (d delegate) NotifyLeave(*memberlist.Node)  { d.f.notify() }
func (d delegate) NotifyUpdate(*memberlist.Node) { d.f.notify() }

func decode(n *memberlist.Node) (Member, error) {
	m := Member{}
	if err := json.Unmarshal(n.Meta, &m); err != nil {
		return m, fmt.Errorf("fleet: member %s: %w", n.Name, err)
	}
	m.Name = n.Name
	return m, nil
}

func splitAddress(address string) (host string, port int, err error) {
	host, p, err := net.SplitHostPort(address)
	if err != nil {
		return "", 0, err
	}
	port, err = strconv.Atoi(p)
	if err != nil {
		return "", 0, fmt.Errorf("port of %q: %w", address, err)
	}
	return host, port, nil
}

// logWriter passes memberlist's lines to slog.
type logWriter struct{ logger *slog.Logger }

func (w logWriter) Write(p []byte) (int, error) {
	line := strings.TrimSpace(string(p))
	level := slog.LevelDebug
	if strings.HasPrefix(line, "[ERR]") {
		level = slog.LevelWarn
	}
	w.logger.Log(context.Background(), level, line)
	return len(p), nil
}
