package access

import (
	"path"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/penstock-ml/penstock/internal/identity"
)

const (
	masterService = "/penstock.v1.Master/"
	flightService = "/arrow.flight.protocol.FlightService/"
	healthService = "/grpc.health.v1.Health/"
)

// known is the role of all callers who are known.
const known identity.Role = ""

// rule returns the role that a method asks for. A method without a rule is nobody's.
func rule(method string) (role identity.Role, ok bool) {
	switch method {
	case masterService + "GetSession", masterService + "ListSessions", masterService + "ListCheckpoints",
		masterService + "Observe", masterService + "ListEvents", masterService + "ListFeatures":
		return identity.Viewer, true
	case masterService + "Open", masterService + "Join", masterService + "Sync", masterService + "DeleteSession",
		masterService + "CreateCheckpoint", masterService + "DeleteCheckpoint", masterService + "RestoreSession",
		masterService + "PutCode", masterService + "GetCode":
		return identity.Trainer, true
	case masterService + "SyncWorker":
		return identity.Worker, true
	case masterService + "GetFleet", masterService + "WhoAmI":
		return known, true
	case healthService + "Check", healthService + "List", healthService + "Watch":
		return known, true
	case flightService + "GetFlightInfo":
		return identity.Trainer, true
	case flightService + "Handshake", flightService + "ListFlights", flightService + "PollFlightInfo", flightService +
		"GetSchema", flightService + "DoGet",
		flightService + "DoPut", flightService + "DoExchange", flightService + "DoAction", flightService +
			"ListActions":
		return identity.Trainer, true // a master does not have them, and says so
	}
	return "", false
}

// MayCall refuses a method that a caller's roles do not include.
func MayCall(who identity.Identity, method string) error {
	role, ok := rule(method)
	if !ok {
		return status.Errorf(codes.PermissionDenied, "nobody may call %q here; see whether this port is a master's",
			method)
	}
	if role == known || who.Has(role) {
		return nil
	}
	return status.Errorf(codes.PermissionDenied, "%s has roles %v; %s is for the role %s: show a token that has it",
		who, who.Roles, path.Base(method), role)
}
