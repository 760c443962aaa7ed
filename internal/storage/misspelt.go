package storage

import (
	"cmp"
	"fmt"
	"reflect"
	"slices"
	"strings"

	"github.com/dustin/go-humanize/english"

	"github.com/penstock-ml/penstock/api/natural"
)

// misspelt is the error of a variable that sets no field; nil: it is another program's. Kubernetes sets such ones, as
// PENSTOCK_STORAGE_SERVICE_HOST for a service penstock-storage, so that what is near to no field is a mistake only of a
// profile that is named elsewhere, too.
func (v variable) misspelt(profiles map[string]Profile) error {
	var known, others []reading
	for name, field := range v.cuts() {
		p, named := profiles[name]
		if p == nil {
			p = emptyProfile()
		}
		r := reading{name, p, field}
		if named || name == DefaultProfile {
			known = append(known, r)
		} else {
			others = append(others, r)
		}
	}
	all := slices.Concat(known, others)
	return cmp.Or(first(all, reading.ofAnotherType), first(all, reading.near), first(known, reading.unknown))
}

func first(readings []reading, wrong func(reading) error) error {
	for _, r := range readings {
		if err := wrong(r); err != nil {
			return err
		}
	}
	return nil
}

// reading is what a variable may mean: a field that its profile does not have.
type reading struct {
	name    string
	profile Profile
	field   string
}

// ofAnotherType is the error of a field that profiles of other types have.
func (r reading) ofAnotherType() error {
	var types []string
	for _, s := range stores() {
		if s.Profile != nil && slices.Contains(fieldsOf(s.Profile()), r.field) {
			types = append(types, s.Name)
		}
	}
	if len(types) == 0 {
		return nil
	}
	return fmt.Errorf("profile %s is of type %s, which has no such field; if it is of type %s, set %s%s_TYPE, too",
		r.name, typeOf(r.profile), english.WordSeries(types, "or"), envPrefix, strings.ToUpper(r.name))
}

// near is the error of a field that is near to one of the profile's.
func (r reading) near() error {
	nearest := natural.Nearest(r.field, slices.Values(append(fieldsOf(r.profile), "TYPE")))
	if nearest == "" {
		return nil
	}
	return fmt.Errorf("profile %s of type %s has no field %s; nearest: %s%s_%s", r.name, typeOf(r.profile),
		strings.ToLower(r.field), envPrefix, strings.ToUpper(r.name), nearest)
}

// unknown is the error of a field that is near to none.
func (r reading) unknown() error {
	return fmt.Errorf("profile %s of type %s has no field %s; it has %s", r.name, typeOf(r.profile),
		strings.ToLower(r.field), english.WordSeries(fieldsOf(r.profile), "and"))
}

// fieldsOf are the names of a profile's fields in the environment, but for its type.
func fieldsOf(p Profile) (names []string) {
	for field := range reflect.TypeOf(p).Elem().Fields() {
		if tag := field.Tag.Get("yaml"); tag != "type" {
			names = append(names, strings.ToUpper(tag))
		}
	}
	return names
}
