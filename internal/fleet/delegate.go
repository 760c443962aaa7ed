package fleet

import (
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"github.com/hashicorp/memberlist"
)

// record is what a member's gossip carries. It must fit beside the word that it drains.
func (m Member) record() ([]byte, error) {
	b, err := json.Marshal(m)
	if err != nil {
		return nil, fmt.Errorf("fleet: member %s: %w", m.Name, err)
	}
	m.Draining = true
	longest, err := json.Marshal(m)
	if err != nil {
		return nil, fmt.Errorf("fleet: member %s: %w", m.Name, err)
	}
	if len(longest) > memberlist.MetaMaxSize {
		return nil, fmt.Errorf(
			"fleet: what member %s says of itself takes %d bytes of gossip, of which there are %d; shorten its "+
				"address (%d bytes), zone (%d) or version (%d)",
			m.Name, len(longest), memberlist.MetaMaxSize, len(m.Address), len(m.Zone), len(m.Version))
	}
	return b, nil
}

func decode(n *memberlist.Node) (Member, error) {
	m := Member{}
	if err := json.Unmarshal(n.Meta, &m); err != nil {
		return m, fmt.Errorf("fleet: member %s: %w", n.Name, err)
	}
	m.Name = n.Name
	return m, nil
}

// seen is a living member and its gossip address.
type seen struct {
	Member
	gossip string
}

// delegate receives memberlist's calls. It copies what it is told of a node at once: memberlist changes nodes in place.
type delegate struct{ f *Fleet }

func (d delegate) NodeMeta(int) []byte {
	d.f.mu.Lock()
	defer d.f.mu.Unlock()
	b, err := d.f.self.record()
	if err != nil { // New and Update have checked it
		d.f.cfg.Logger.Error("cannot say what this member is", "error", err)
	}
	return b
}
func (delegate) NotifyMsg([]byte)                  {}
func (delegate) GetBroadcasts(int, int) [][]byte   { return nil }
func (delegate) LocalState(bool) []byte            { return nil }
func (delegate) MergeRemoteState([]byte, bool)     {}
func (d delegate) NotifyJoin(n *memberlist.Node)   { d.lives(n) }
func (d delegate) NotifyUpdate(n *memberlist.Node) { d.lives(n) }

func (d delegate) NotifyLeave(n *memberlist.Node) {
	d.f.mu.Lock()
	role := d.f.members[n.Name].Role
	delete(d.f.members, n.Name)
	delete(d.f.lives, n.Name)
	d.f.mu.Unlock()
	if role == Master {
		signal(d.f.missed)
	}
	signal(d.f.changed)
}

// AckPayload goes with the answer to each ping.
func (d delegate) AckPayload() []byte { return d.f.life }

// NotifyPingComplete finds members that were restarted at their address before anybody missed them. Such a master sees
// no worker, and the workers see no change.
func (d delegate) NotifyPingComplete(n *memberlist.Node, _ time.Duration, life []byte) {
	d.f.mu.Lock()
	defer d.f.mu.Unlock()
	if known, ok := d.f.lives[n.Name]; ok && known != string(life) {
		select {
		case d.f.reborn <- n.Address():
		default:
			return // Run is busy; the next ping finds it again
		}
	}
	d.f.lives[n.Name] = string(life)
}

func (d delegate) NotifyConflict(known, other *memberlist.Node) {
	d.f.warn("two members have the same name, and one of them stays unseen; give each its own --name",
		"name", known.Name, "seen", known.Address(), "unseen", other.Address())
}

func (d delegate) lives(n *memberlist.Node) {
	m, err := decode(n)
	if err != nil {
		d.f.warn("a member says nothing that this version understands; it is left out", "error", err)
		d.NotifyLeave(n)
		return
	}
	d.f.mu.Lock()
	d.f.members[m.Name] = seen{m, n.Address()}
	d.f.mu.Unlock()
	signal(d.f.changed)
}

// signal wakes the receiver of a channel with room for one.
func signal(c chan<- struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// logWriter passes memberlist's lines to slog. Its goroutines may find the sockets closed under them at the end.
type logWriter struct{ f *Fleet }

func (w logWriter) Write(p []byte) (int, error) {
	line := strings.TrimSpace(string(p))
	if strings.HasPrefix(line, "[ERR]") && !w.f.closed.Load() {
		w.f.warn(line)
	} else {
		w.f.cfg.Logger.Debug(line)
	}
	return len(p), nil
}
