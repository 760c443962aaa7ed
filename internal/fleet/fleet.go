// Package fleet lets workers and masters find each other by gossip. Each process is a Member with a role, an
// address and a number of slots; every process sees all of them, and learns within a second or so of one that
// died. Nothing durable rests on it: the master places streams by what it sees here, and a stream that cannot be
// opened goes to the next candidate.
//
// A Fleet may be used by many goroutines at once.
package fleet

import (
	"cmp"
	"crypto/rand"
	"errors"
	"fmt"
	"log"
	"log/slog"
	"net"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/hashicorp/memberlist"

	"github.com/penstock-ml/penstock/internal/rpc"
)

// Role is what a member does.
type Role string

// Roles.
const (
	Master Role = "master"
	Worker Role = "worker"
	Cache  Role = "cache"
)

// Member is a process of the fleet.
type Member struct {
	Name string `json:"-"`
	Role Role   `json:"r"`
	// Address is where its gRPC port can be reached, or the HTTP port of a cache.
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
	// Secret encrypts the gossip if there is one; all members need the same. While it is being replaced, all of it
	// decrypt.
	Secret rpc.Secret
	Logger *slog.Logger

	// between those in which members find what no news told; 0: checkEvery, and as memberlist has it
	rounds time.Duration
}

// Fleet is this process's view of the members.
type Fleet struct {
	cfg     Config
	list    *memberlist.Memberlist
	keyring *memberlist.Keyring // nil: gossip is not encrypted
	changed chan struct{}
	missed  chan struct{} // tells Run that a master went
	reborn  chan string   // tells Run of the gossip address of a member that is a new process under an old name
	address string        // of this process's gossip
	life    []byte        // tells this process from others of its name, before and after it

	mu      sync.Mutex
	self    Member
	members map[string]seen   // the living, by name
	lives   map[string]string // of the living that answered a ping, by name

	warnings warnings

	closing  sync.Once
	closed   atomic.Bool
	closeErr error
}

const (
	// farewell bounds how long this process waits until news of itself went out.
	farewell    = time.Second
	dialTimeout = 2 * time.Second
)

// New starts to listen and gossip. Run keeps it joined; Close leaves.
func New(cfg Config) (*Fleet, error) {
	if err := cfg.check(); err != nil {
		return nil, err
	}
	f := &Fleet{
		cfg: cfg, self: cfg.Self, life: []byte(rand.Text()), members: map[string]seen{}, lives: map[string]string{},
		changed: make(chan struct{}, 1), missed: make(chan struct{}, 1), reborn: make(chan string, 1),
	}
	mc, err := f.memberlistConfig()
	if err != nil {
		return nil, err
	}
	if f.list, err = memberlist.Create(mc); err != nil {
		if strings.Contains(err.Error(), syscall.EADDRINUSE.Error()) { // memberlist's errors wrap nothing
			err = fmt.Errorf(
				"another process has this address, such as a master or a worker that runs already: stop that one, "+
					"or give --gossip another one (port 0 takes a free one): %w", err)
		}
		return nil, fmt.Errorf("fleet: listen on %s: %w", cfg.Bind, err)
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.address = f.members[cfg.Self.Name].gossip // Create has told of this process
	if host, _, _ := net.SplitHostPort(f.address); net.ParseIP(host).IsUnspecified() {
		return nil, errors.Join(fmt.Errorf("fleet: others cannot reach %s at %s for gossip; set --gossip-advertise",
			cfg.Self.Name, f.address), f.list.Shutdown())
	}
	return f, nil
}

func (c Config) check() error {
	if c.Self.Name == "" || c.Logger == nil {
		return errors.New("fleet: Self.Name and Logger are needed")
	}
	if host, _, err := net.SplitHostPort(c.Self.Address); err != nil {
		return fmt.Errorf("fleet: address of %s: %w", c.Self.Name, err)
	} else if ip := net.ParseIP(host); host == "" || ip != nil && ip.IsUnspecified() {
		return fmt.Errorf("fleet: others cannot reach %s at %s; set --advertise", c.Self.Name, c.Self.Address)
	}
	_, err := c.Self.record()
	return err
}

func (f *Fleet) memberlistConfig() (mc *memberlist.Config, err error) {
	cfg := &f.cfg
	mc = memberlist.DefaultLANConfig()
	mc.Name = cfg.Self.Name
	if mc.BindAddr, mc.BindPort, err = resolve(cfg.Bind); err != nil {
		return nil, fmt.Errorf("fleet: gossip address: %w", err)
	}
	mc.AdvertisePort = mc.BindPort
	if cfg.Advertise != "" {
		if mc.AdvertiseAddr, mc.AdvertisePort, err = resolve(cfg.Advertise); err != nil {
			return nil, fmt.Errorf("fleet: advertised gossip address: %w", err)
		}
		if mc.AdvertisePort == 0 {
			return nil, fmt.Errorf(
				"fleet: advertised gossip address %s: port 0 cannot be reached; name the port of --gossip",
				cfg.Advertise)
		}
	}
	// A killed worker should leave the candidates in about two seconds; the network is a data centre's.
	mc.ProbeInterval = 500 * time.Millisecond
	mc.ProbeTimeout = 250 * time.Millisecond
	mc.SuspicionMult = 2
	// News is sent about four times, an interval apart; Update and Close wait for the last. Without news nothing is
	// sent.
	mc.GossipInterval = 50 * time.Millisecond
	mc.SuspicionMaxTimeoutMult = 2
	mc.DeadNodeReclaimTime = time.Second
	mc.PushPullInterval = cmp.Or(cfg.rounds, mc.PushPullInterval)
	mc.TCPTimeout = dialTimeout
	mc.Delegate = delegate{f}
	mc.Events = delegate{f}
	mc.Conflict = delegate{f}
	mc.Ping = delegate{f}
	mc.Logger = log.New(logWriter{f}, "", 0)
	if !cfg.Secret.IsZero() {
		keys := gossipKeys(cfg.Secret)
		if mc.Keyring, err = memberlist.NewKeyring(keys, keys[0]); err != nil {
			return nil, fmt.Errorf("fleet: gossip keys: %w", err)
		}
		f.keyring = mc.Keyring
	}
	return mc, nil
}

// Address is the gossip address that others can join.
func (f *Fleet) Address() string { return f.address }

// Members returns the living members of a role, sorted by name.
func (f *Fleet) Members(role Role) []Member {
	f.mu.Lock()
	defer f.mu.Unlock()
	var out []Member
	for _, m := range f.members {
		if m.Role == role {
			out = append(out, m.Member)
		}
	}
	slices.SortFunc(out, func(a, b Member) int { return strings.Compare(a.Name, b.Name) })
	return out
}

// Changed is sent to after members came, went or changed; several changes may be one message.
func (f *Fleet) Changed() <-chan struct{} { return f.changed }

// Update changes what this process says of itself, and returns when others were told or within a second or so.
func (f *Fleet) Update(change func(*Member)) error {
	f.mu.Lock()
	next := f.self
	change(&next)
	_, err := next.record()
	if err == nil {
		f.self = next
	}
	f.mu.Unlock()
	if err != nil {
		return err
	}
	if err := f.list.UpdateNode(farewell); err != nil {
		return fmt.Errorf("fleet: update: %w", err)
	}
	return nil
}

// Close tells the others that this process leaves, and stops. A second call does nothing.
func (f *Fleet) Close() error {
	f.closing.Do(func() {
		if err := f.list.Leave(farewell); err != nil {
			// They find out by themselves, in about two seconds.
			f.cfg.Logger.Debug("the fleet may not know that this process left", "error", err)
		}
		f.closed.Store(true)
		if err := f.list.Shutdown(); err != nil {
			f.closeErr = fmt.Errorf("fleet: close: %w", err)
		}
	})
	return f.closeErr
}
