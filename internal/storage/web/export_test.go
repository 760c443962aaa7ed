package web

import (
	"net"
	"net/netip"
)

// ResolveBy has a client ask another resolver than the system's.
func (c *Client) ResolveBy(r *net.Resolver) { c.dialer.Resolver = r }

// Public reports whether an address may be dialled by anybody.
func Public(a netip.Addr) bool { return Rules{}.dialled(a) == nil }
