package web

import (
	"context"
	"fmt"
	"net/netip"
	"net/url"
	"syscall"
)

// refusedError is of a server that the rules do not allow.
type refusedError struct{ what string }

func (e refusedError) Error() string { return e.what }

// allow refuses a URL whose server must not be asked, as far as its name tells.
func (r Rules) allow(u *url.URL) error {
	host := hostPort(u)
	switch {
	case u.Scheme != "https" && (u.Scheme != "http" || !r.Plain):
		return refusedError{fmt.Sprintf("%s:// is not read, as others on the way could read and change it; use "+
			"https://, or allow http:// by plain: true in the storage profile", u.Scheme)}
	case !r.Hosts(host):
		return refusedError{fmt.Sprintf(
			"the storage profile does not list the host %s; write it into the profile's hosts if it may be read",
			u.Host)}
	}
	if literal, err := netip.ParseAddr(u.Hostname()); err == nil {
		return r.dialled(literal) // where a proxy dials, nothing else is known of the address
	}
	return nil
}

// control refuses an address as it is dialled: what a name stood for before does not matter.
func (r Rules) control(_ context.Context, _, address string, _ syscall.RawConn) error {
	at, err := netip.ParseAddrPort(address)
	if err != nil {
		return refusedError{fmt.Sprintf("%q is no address", address)}
	}
	return r.dialled(at.Addr())
}

// dialled refuses an address that is neither public nor allowed.
func (r Rules) dialled(given netip.Addr) error {
	a := given.WithZone("").Unmap()
	v4, embedded := translated(a)
	for _, p := range r.Private {
		if p.Contains(a) || embedded && p.Contains(v4) {
			return nil
		}
	}
	if public(a) || embedded && public(v4) {
		return nil
	}
	return refusedError{fmt.Sprintf("%s is no public address; if it may be read, list its range as allow_addresses "+
		"in the storage profile, such as [%s]", given, netip.PrefixFrom(a, a.BitLen()))}
}

// nat64 has addresses of IPv4 in its last four bytes, for networks that have IPv6 only (RFC 6052).
//
//nolint:gochecknoglobals // nobody writes it
var nat64 = netip.MustParsePrefix("64:ff9b::/96")

func translated(a netip.Addr) (v4 netip.Addr, ok bool) {
	if !nat64.Contains(a) {
		return netip.Addr{}, false
	}
	b := a.As16()
	return netip.AddrFrom4([4]byte(b[12:])), true
}

// global is what IPv6 routes; special are ranges that are not public all the same (the registries of RFC 6890), and
// public ones behind which clouds answer their machines.
//
//nolint:gochecknoglobals // nobody writes them
var (
	global  = netip.MustParsePrefix("2000::/3")
	special = prefixes(
		"0.0.0.0/8", "100.64.0.0/10", "192.0.0.0/24", "192.0.2.0/24", "192.88.99.0/24", "198.18.0.0/15",
		"198.51.100.0/24", "203.0.113.0/24", "240.0.0.0/4", "168.63.129.16/32",
		"2001::/23", "2001:db8::/32", "2002::/16", "3fff::/20",
	)
)

func prefixes(all ...string) (out []netip.Prefix) {
	for _, p := range all {
		out = append(out, netip.MustParsePrefix(p))
	}
	return out
}

// public reports whether an address is that of anybody's server.
func public(a netip.Addr) bool {
	if a.Is6() && !global.Contains(a) || a.IsPrivate() || a.IsLoopback() || a.IsLinkLocalUnicast() || a.IsMulticast() {
		return false
	}
	for _, p := range special {
		if p.Contains(a) {
			return false
		}
	}
	return true
}

// Prefixes reads ranges of addresses as profiles have them.
func Prefixes(given []string) (out []netip.Prefix, err error) {
	for _, text := range given {
		p, err := netip.ParsePrefix(text)
		if err != nil || p.Addr().Is4In6() {
			return nil, fmt.Errorf("allow_addresses: %q is no range of addresses; write such as 10.1.0.0/16", text)
		}
		out = append(out, p)
	}
	return out, nil
}
