package rpc

import (
	"net"
	"strings"
)

// unixScheme begins the address of a socket file on this machine: "unix:/path".
const unixScheme = "unix:"

// Network takes an address apart as package net has it.
func Network(address string) (network, to string) {
	if path, ok := strings.CutPrefix(address, unixScheme); ok {
		return "unix", strings.TrimPrefix(path, "//")
	}
	return "tcp", address
}

// AddressOf is the address of a listener as Dial takes it.
func AddressOf(at net.Addr) string {
	if at.Network() == "unix" {
		return unixScheme + at.String()
	}
	return at.String()
}
