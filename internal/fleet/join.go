package fleet

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"
)

const (
	firstRetry, lastRetry = 250 * time.Millisecond, 2 * time.Second
	// patience is how long others may take to come up, when all are started at once, before it is worth a warning.
	patience = 3 * time.Second
	// checkEvery is how often a member of a fleet looks whether those it should know are in it.
	checkEvery = 10 * time.Second
)

// Run joins the configured addresses until a master is seen, and then those that are missing every now and then: so
// the parts of a divided fleet find each other again. A member that was restarted under its name before anybody missed
// it is told who there is. Run returns when ctx ends.
func (f *Fleet) Run(ctx context.Context) error {
	if f.keyring != nil {
		following := make(chan struct{})
		defer func() { <-following }()
		go func() {
			defer close(following)
			f.followKeys(ctx)
		}()
	}
	retry, warned := firstRetry, false
	began := time.Now()
	for {
		wait := cmp.Or(f.cfg.rounds, checkEvery)
		err := f.join(ctx)
		alone := f.list.NumMembers() < 2
		if late := time.Since(began) > patience; err != nil && alone && late && !warned && ctx.Err() == nil {
			warned = true
			f.cfg.Logger.Warn("cannot join the fleet yet; trying on", "join", f.cfg.Join, "error", err)
		}
		if err != nil && alone || len(f.Members(Master)) == 0 {
			wait, retry = retry, min(2*retry, lastRetry)
		} else {
			retry, warned = firstRetry, false
		}
		if !f.pause(ctx, wait) {
			return nil
		}
	}
}

// pause waits until it is time to join again, and meanwhile meets members that know nobody. It reports false when ctx
// ended.
func (f *Fleet) pause(ctx context.Context, wait time.Duration) bool {
	timer := time.NewTimer(wait)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return false
		case address := <-f.reborn:
			if _, err := f.list.Join([]string{address}); err != nil {
				f.cfg.Logger.Debug("a restarted member cannot be met", "gossip", address, "error", err)
			}
		case <-f.missed:
			return true
		case <-timer.C:
			return true
		}
	}
}

// join joins the configured addresses whose members this process does not see.
func (f *Fleet) join(ctx context.Context) error {
	known := []string{f.Address()}
	f.mu.Lock()
	for _, m := range f.members {
		known = append(known, m.gossip)
	}
	f.mu.Unlock()
	var errs []error
	for _, name := range f.cfg.Join {
		addresses, err := lookup(ctx, name)
		if err != nil {
			errs = append(errs, err)
			continue
		}
		for _, a := range addresses {
			if slices.Contains(known, a) || ctx.Err() != nil {
				continue
			}
			if _, err := f.list.Join([]string{a}); err != nil {
				errs = append(errs, fmt.Errorf("join %s: %s", a, whyNot(err)))
			}
		}
	}
	return errors.Join(errs...)
}

// whyNot says what a join failed of, and what to do. memberlist's errors wrap nothing, and are lists of one.
func whyNot(err error) string {
	words := strings.TrimSpace(err.Error())
	if _, cause, found := strings.Cut(words, "failed to join "); found {
		_, words, _ = strings.Cut(cause, ": ")
	}
	for _, c := range []struct{ of, is, next string }{
		{syscall.ECONNREFUSED.Error(), "nothing listens there", "start the master, or " + nameGossip},
		{"invalid msgType", "that is no gossip port, but one for gRPC or HTTP", nameGossip},
		{
			"remote state is not encrypted", "the answer is not encrypted",
			"if that is a port for gRPC or HTTP, " + nameGossip + "; else " + shareKey,
		},
		{"crypt", "the keys of gossip differ", shareKey}, // also where this member has none
		{"EOF", "the port closes the connection, as those for TLS do", nameGossip},
		{"i/o timeout", "nothing answers there", "see that no firewall is in between, or " + nameGossip},
	} {
		if strings.Contains(words, c.of) {
			return fmt.Sprintf("%s (%s): %s", c.is, words, c.next)
		}
	}
	return words
}

const (
	nameGossip = "name the member's gossip address, which is its --gossip: port 7946 by default"
	shareKey   = "give all members the same --gossip-key-file, or else token"
)

// lookup returns all addresses "IP:port" behind "host:port".
func lookup(ctx context.Context, address string) ([]string, error) {
	host, port, err := net.SplitHostPort(address)
	if err != nil {
		return nil, fmt.Errorf("join: %w", err)
	}
	ips, err := net.DefaultResolver.LookupHost(ctx, host)
	if err != nil {
		return nil, fmt.Errorf("join %s: %w", address, err)
	}
	for i, ip := range ips {
		ips[i] = net.JoinHostPort(ip, port)
	}
	return ips, nil
}

// resolve splits "host:port". memberlist takes IP addresses only, and any other host for all interfaces.
func resolve(address string) (ip string, port int, err error) {
	host, p, err := net.SplitHostPort(address)
	if err != nil {
		return "", 0, err
	}
	number, err := strconv.ParseUint(p, 10, 16)
	if err != nil {
		return "", 0, fmt.Errorf("%s: want a port number, found %q", address, p)
	}
	if host == "" || net.ParseIP(host) != nil {
		return host, int(number), nil
	}
	resolved, err := net.ResolveIPAddr("ip", host)
	if err != nil {
		return "", 0, fmt.Errorf("%s: %w", address, err)
	}
	return resolved.IP.String(), int(number), nil
}
