package access

import (
	"encoding/hex"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/goccy/go-yaml"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/penstock-ml/penstock/internal/identity"
	"github.com/penstock-ml/penstock/internal/storage"
)

// Namespaces is a file of namespaces (docs/reference/access.md).
type Namespaces struct {
	// Namespaces by name. One that is not there has no dataset, and so no session can be opened in it.
	Namespaces map[string]Limits `yaml:"namespaces"`
}

// Limits is what a namespace may read and take.
type Limits struct {
	// Datasets are URIs of directories, below which all may be read.
	Datasets []string `yaml:"datasets"`
	// Storage are the storage profiles that it may use; if there are none, "default".
	Storage []string `yaml:"storage"`
	// MaxSessions bounds its sessions, and MaxWorkers the workers that these may have kept for them; nil: no bound.
	MaxSessions *int `yaml:"max_sessions"`
	MaxWorkers  *int `yaml:"max_workers"`
	// MaxWeight bounds the weight of each of its sessions; nil: no bound.
	MaxWeight *float64 `yaml:"max_weight"`
	// Code says which Python functions its sessions may have; "": what the master says.
	Code Code `yaml:"code"`
	// Admins are subjects that are administrators of the namespace, whatever else their tokens say.
	Admins []string `yaml:"admins"`

	name      string
	unlimited bool
}

// ParseNamespaces reads a file's text.
func ParseNamespaces(path string, text []byte) (Namespaces, error) {
	var n Namespaces
	if err := yaml.UnmarshalWithOptions(text, &n, yaml.Strict()); err != nil {
		return n, fmt.Errorf("namespaces %s: %s", path, yaml.FormatError(err, false, false))
	}
	if n.Namespaces == nil {
		return n, fmt.Errorf("namespaces %s: it names none; a file that is meant to be empty is `namespaces: {}`", path)
	}
	for name, l := range n.Namespaces {
		if err := l.check(name); err != nil {
			return n, fmt.Errorf("namespaces %s: namespace %q: %w", path, name, err)
		}
		l.name = name
		n.Namespaces[name] = l
	}
	return n, nil
}

// check refuses what cannot be meant, and writes datasets as they are compared.
func (l *Limits) check(name string) error {
	if !identity.ValidNamespace(name) {
		return errors.New("a name has 1 to 63 of a-z, 0-9 and -, and - neither first nor last")
	}
	for i, d := range l.Datasets {
		dir, err := storage.Canonical(d)
		if err == nil {
			err = plain(d)
		}
		if err == nil && storage.Unversioned(dir) != dir {
			err = errors.New("name it without a version: what may be read are all of them")
		}
		if err != nil || !strings.Contains(d, "://") || strings.ContainsAny(d, `*?[\`) {
			return fmt.Errorf(
				"datasets: %q: want the URI of a directory, such as s3://bucket/dir/ or file:///data/, without "+
					"wildcards, and what lies below it may be read: %w", d, err)
		}
		l.Datasets[i] = strings.TrimSuffix(dir, "/") + "/"
	}
	for field, bound := range map[string]*int{"max_sessions": l.MaxSessions, "max_workers": l.MaxWorkers} {
		if bound != nil && *bound < 0 {
			return fmt.Errorf("%s: %d; want 0 or more, or nothing for no bound", field, *bound)
		}
	}
	if l.Code != "" {
		if err := l.Code.Check(); err != nil {
			return fmt.Errorf("code: %w", err)
		}
	}
	if l.MaxWeight != nil && !(*l.MaxWeight > 0) {
		return fmt.Errorf("max_weight: %v; want more than 0, or nothing for no bound", *l.MaxWeight)
	}
	return nil
}

func (n Namespaces) limits(namespace string) Limits {
	l, ok := n.Namespaces[namespace]
	if !ok {
		l.name = namespace
	}
	return l
}

// roles adds what the file gives a subject.
func (n Namespaces) roles(who identity.Identity) []identity.Role {
	if !who.Everywhere && slices.Contains(n.Namespaces[who.Namespace].Admins, who.Subject) && !who.Has(identity.Admin) {
		return append(slices.Clone(who.Roles), identity.Admin)
	}
	return who.Roles
}

// Unlimited reports whether anything may be read.
func (l Limits) Unlimited() bool { return l.unlimited }

// Profiles are the storage profiles that may be used; none if there are no limits.
func (l Limits) Profiles() []string {
	if len(l.Storage) == 0 && !l.unlimited {
		return []string{storage.DefaultProfile}
	}
	return l.Storage
}

// MayUse refuses a storage profile.
func (l Limits) MayUse(profile string) error {
	allowed := l.Profiles()
	same := func(p string) bool { return storage.ProfileName(p) == storage.ProfileName(profile) }
	if l.unlimited || slices.ContainsFunc(allowed, same) {
		return nil
	}
	return status.Errorf(codes.PermissionDenied,
		"namespace %s may not use storage profile %q; it may use %s: name one of these in dataset.storage, or ask "+
			"an administrator",
		l.name, profile, strings.Join(allowed, ", "))
}

// MayRead refuses a URI, which may have wildcards, of which not all that it can name lies below one of the datasets. It
// returns that dataset; "" if there are no limits.
func (l Limits) MayRead(uri string) (dataset string, err error) {
	if l.unlimited {
		return "", nil
	}
	canonical, err := storage.Canonical(uri)
	if err == nil {
		err = plain(canonical)
	}
	switch {
	case errors.Is(err, storage.ErrSecret):
		return "", status.Errorf(codes.PermissionDenied, "namespace %s may not read it: %v", l.name, err)
	case err != nil:
		return "", status.Errorf(codes.PermissionDenied, "namespace %s may not read %q: %v",
			l.name, uri, err)
	}
	canonical = storage.Unversioned(canonical)
	fixed := storage.Fixed(canonical)
	for _, d := range l.Datasets {
		if strings.HasPrefix(fixed, d) || canonical == strings.TrimSuffix(d, "/") {
			return d, nil
		}
	}
	return "", status.Errorf(codes.PermissionDenied,
		"namespace %s may not read %q; it may read what lies below %s: ask an administrator for more",
		l.name, uri, orNothing(l.Datasets))
}

// MayReadFile refuses a listed file outside a dataset.
func (l Limits) MayReadFile(uri string) error {
	for _, d := range l.Datasets {
		if strings.HasPrefix(storage.Unversioned(uri), d) && plain(uri) == nil {
			return nil
		}
	}
	if l.unlimited {
		return nil
	}
	return status.Errorf(codes.PermissionDenied,
		"namespace %s may not read a file that dataset.uri leads to: it does not lie below %s",
		l.name, orNothing(l.Datasets))
}

//nolint:gochecknoglobals // never changes
var encoded = regexp.MustCompile(`%[0-9a-fA-F]{2}`)

// plain refuses URIs that somebody may read in another way than by their letters: steps up, also percent-encoded ones,
// and characters that do not print.
func plain(uri string) error {
	for decoded, times := uri, 0; times < 3; times++ {
		for _, level := range strings.FieldsFunc(decoded, func(r rune) bool { return r == '/' || r == '\\' }) {
			if level == "." || level == ".." {
				return errors.New("it has a level . or ..; write the path without")
			}
		}
		if strings.ContainsFunc(decoded, func(r rune) bool { return r < ' ' || r == 0x7f }) {
			return errors.New("it has characters that do not print")
		}
		decoded = encoded.ReplaceAllStringFunc(decoded, func(code string) string {
			b, _ := hex.DecodeString(code[1:]) // the pattern has hexadecimal digits alone
			return string(b)
		})
	}
	return nil
}

func orNothing(list []string) string {
	if len(list) == 0 {
		return "nothing"
	}
	return strings.Join(list, ", ")
}

// Usage is what sessions of a namespace take.
type Usage struct {
	Sessions   int
	MinWorkers int // that are kept for those that are not over
}

// Admit refuses a session of a weight for which minWorkers are kept beside those that there are.
func (l Limits) Admit(used Usage, minWorkers int, weight float64) error {
	if l.MaxWeight != nil && weight > *l.MaxWeight {
		return status.Errorf(codes.FailedPrecondition,
			"the session asks for a weight of %v, and one of namespace %s may have %v (max_weight): ask for less, "+
				"or ask an administrator for more",
			weight, l.name, *l.MaxWeight)
	}
	if l.MaxSessions != nil && used.Sessions >= *l.MaxSessions {
		return status.Errorf(codes.FailedPrecondition,
			"namespace %s has %d sessions, and may have %d (max_sessions): delete one that has ended (`penstock "+
				"session list`, `penstock session delete ID`), or ask an administrator for more",
			l.name, used.Sessions, *l.MaxSessions)
	}
	return l.Keep(used.MinWorkers, minWorkers)
}

// Keep refuses to keep minWorkers for a session beside those that are kept for others.
func (l Limits) Keep(kept, minWorkers int) error {
	if l.MaxWorkers != nil && minWorkers > 0 && kept+minWorkers > *l.MaxWorkers {
		return status.Errorf(codes.FailedPrecondition,
			"the session asks for %d workers at least, and the other sessions of namespace %s for %d; together they "+
				"may have %d (max_workers): ask for fewer, wait until another session has ended, or ask an "+
				"administrator for more",
			minWorkers, l.name, kept, *l.MaxWorkers)
	}
	return nil
}
