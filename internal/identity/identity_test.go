package identity_test

import (
	"context"
	"errors"
	"strings"
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/penstock-ml/penstock/internal/identity"
	"github.com/penstock-ml/penstock/internal/rpc"
)

func TestRolesIncludeOthers(t *testing.T) {
	all := []identity.Role{identity.Viewer, identity.Trainer, identity.Admin, identity.Worker}
	for role, want := range map[identity.Role]string{
		identity.Viewer: "viewer", identity.Trainer: "viewer trainer", identity.Admin: "viewer trainer admin",
		identity.Worker: "worker", "root": "",
	} {
		var has []string
		for _, r := range all {
			if (identity.Identity{Roles: []identity.Role{role}}).Has(r) {
				has = append(has, string(r))
			}
		}
		if got := strings.Join(has, " "); got != want {
			t.Errorf("%s has %q, want %q", role, got, want)
		}
	}
}

func TestNamespaces(t *testing.T) {
	one := identity.Identity{Namespace: "vision", Subject: "alice"}
	all := identity.Identity{Everywhere: true, Subject: "root"}
	if _, err := one.In("speech"); status.Code(err) != codes.PermissionDenied {
		t.Errorf("another namespace: %v", err)
	}
	if _, err := all.In("../x"); status.Code(err) != codes.InvalidArgument {
		t.Errorf("no namespace: %v", err)
	}
	in, err := all.In("speech")
	if err != nil || in.Home() != "speech" || in.Sees("vision") || in.Sees("") || !in.Sees("speech") {
		t.Errorf("%+v, %v", in, err)
	}
	if all.Home() != "default" || !all.Sees("vision") || !all.Sees("") || one.Sees("") || one.Sees("speech") ||
		!one.Sees("vision") {
		t.Error("who sees what")
	}
	for name, want := range map[string]bool{
		"a": true, "a-1": true, "-a": false, "a-": false, "": false, "A": false,
		"a,b": false, "ä": false, "a/b": false, strings.Repeat("a", 64): false,
	} {
		if identity.ValidNamespace(name) != want {
			t.Errorf("%q", name)
		}
	}
	if nobody := identity.From(context.Background()); nobody.Has(identity.Viewer) || nobody.Everywhere {
		t.Errorf("a context of nobody's: %+v", nobody)
	}
}

type broken struct{}

func (broken) Authenticate(context.Context, string) (identity.Identity, error) {
	return identity.Identity{}, errors.New("out of order")
}

func TestKnow(t *testing.T) {
	fleet := identity.Fleet{Token: rpc.NewSecret("sesame")}
	for _, c := range []struct {
		name  string
		asked identity.Authenticator
		token string
		want  codes.Code
	}{
		{"nobody asks", nil, "", codes.OK},
		{"right", fleet, "sesame", codes.OK},
		{"wrong", fleet, "sesam", codes.Unauthenticated},
		{"none", fleet, "", codes.Unauthenticated},
		{"no token is right", identity.Fleet{}, "", codes.Unauthenticated},
		{"nor any", identity.Fleet{}, "x", codes.Unauthenticated},
		{"cannot be told", broken{}, "x", codes.Unavailable},
	} {
		who, err := identity.Know(t.Context(), c.asked, c.token)
		if status.Code(err) != c.want || (err == nil) != who.Has(identity.Admin) || err != nil &&
			(c.token != "" && c.token != "x" && strings.Contains(err.Error(), c.token) ||
				strings.Contains(err.Error(), "out of order")) {
			t.Errorf("%s: %+v, %v", c.name, who, err)
		}
	}
}
