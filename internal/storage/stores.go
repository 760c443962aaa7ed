package storage

import (
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"

	"github.com/dustin/go-humanize/english"

	"github.com/penstock-ml/penstock/internal/storage/az"
	"github.com/penstock-ml/penstock/internal/storage/file"
	"github.com/penstock-ml/penstock/internal/storage/gs"
	"github.com/penstock-ml/penstock/internal/storage/hf"
	"github.com/penstock-ml/penstock/internal/storage/https"
	"github.com/penstock-ml/penstock/internal/storage/object"
	"github.com/penstock-ml/penstock/internal/storage/s3"
)

// stores are those that there are (docs/reference/storage.md says how one is added).
func stores() []object.Store {
	return []object.Store{
		file.Store(),
		s3.Store(),
		gs.Store(),
		az.Store(),
		https.Store(),
		hf.Store(),
	}
}

// defaultType is the type of profiles that name none.
const defaultType = "s3"

// storeOf returns the store of a URI.
func storeOf(uri string) (object.Store, error) {
	scheme, _, ok := strings.Cut(uri, "://")
	var known []string
	for _, s := range stores() {
		if ok && slices.Contains(s.Schemes, scheme) {
			return s, nil
		}
		for _, each := range s.Schemes {
			known = append(known, each+"://")
		}
	}
	if ours, ok := elsewhere()[scheme]; ok {
		return object.Store{}, fmt.Errorf("unknown scheme; write %s", ours)
	}
	return object.Store{}, errors.New("unknown scheme; use " + english.WordSeries(known, "or"))
}

// elsewhere are schemes of other programs, and what stands for them here.
func elsewhere() map[string]string {
	const azure = "abfss://container@account.dfs.core.windows.net/path"
	return map[string]string{
		"s3a": "s3://", "s3n": "s3://", "gcs": "gs://", "azure": "az://", "abfs": azure, "wasb": azure, "wasbs": azure,
	}
}

// profileOfType returns an empty profile of a type; "" is the default. Errors do not repeat it: it might be a secret.
func profileOfType(name string) (Profile, error) {
	if name == "" {
		name = defaultType
	}
	var known []string
	for _, s := range stores() {
		if s.Profile == nil {
			continue
		}
		if s.Name == name {
			return s.Profile(), nil
		}
		known = append(known, s.Name)
	}
	return nil, errors.New("unknown type; use " + english.WordSeries(known, "or"))
}

// typeOf is the type of a profile.
func typeOf(p Profile) string {
	for _, s := range stores() {
		if s.Profile != nil && reflect.TypeOf(s.Profile()) == reflect.TypeOf(p) {
			return s.Name
		}
	}
	return ""
}

// emptyProfile is a profile of the default type, with nothing set.
func emptyProfile() Profile {
	p, err := profileOfType(defaultType)
	if err != nil {
		panic(err) // the table lacks it
	}
	return p
}
