// Package fake has masters and workers that follow a script, for tests of clients: what a client asks of them is
// checked, and what they answer, and when they fail, is the test's to say.
//
// The tests of package client use it in memory and on fake time; package conformance serves it on loopback sockets to
// clients in other processes. Fields of Master and Worker are set before they are served; later changes go through
// Master.Change.
package fake
