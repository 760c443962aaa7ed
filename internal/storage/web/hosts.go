package web

import (
	"errors"
	"fmt"
	"net"
	"regexp"
	"slices"
	"strings"
)

// host is what a URI or a profile may have for one: a name or an address of IPv4, with a port or without.
var host = regexp.MustCompile(`^([a-z0-9_]([a-z0-9_.-]{0,251}[a-z0-9_])?)(:[1-9][0-9]{0,4})?$`)

// Host writes a host as it is compared: in lower case.
func Host(given string) (string, error) {
	h := strings.ToLower(given)
	if !host.MatchString(h) {
		return "", errors.New("want the name of a host behind //, as in https://data.example.org/a.parquet")
	}
	return h, nil
}

// CheckHosts refuses a profile's list.
func CheckHosts(list []string) error {
	for _, given := range list {
		if _, err := Host(given); err != nil {
			return fmt.Errorf("hosts: %q is no host; write such as data.example.org, or data.example.org:8443", given)
		}
	}
	return nil
}

// Hosts are those that a list has: on port 443, or on the port that it names.
func Hosts(list []string) func(host string) bool {
	var all []string
	for _, given := range list {
		given = strings.ToLower(given)
		if _, _, err := net.SplitHostPort(given); err != nil {
			given += ":443"
		}
		all = append(all, given)
	}
	return func(host string) bool { return slices.Contains(all, host) }
}
