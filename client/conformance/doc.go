// Package conformance is the suite that every client of Penstock passes: package client, and what stands on it for
// programs in other languages, penstock in client/python.
//
// A client is a program that obeys commands on stdin (a driver). Run starts it for each trainer of a scenario, plays
// the scenario's steps, and checks what the trainer hands over and what it tells the master; the masters and workers
// are those of package fake, on loopback sockets. docs/internals/conformance.md describes scenarios and the driver's
// protocol.
//
// A scenario's steps run in one goroutine; the handlers of its masters and workers run in others, and share what
// stands behind world.mu with it. Scenarios run side by side and share nothing but idle drivers.
package conformance
