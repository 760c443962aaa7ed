package storage

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/penstock-ml/penstock/internal/storage/object"
	"github.com/penstock-ml/penstock/internal/tables/iceberg/rest"
)

// catalogPrefix begins the environment variables of catalogues: PENSTOCK_CATALOG_<NAME>_<FIELD>.
const catalogPrefix = "PENSTOCK_CATALOG_"

// Catalogs is a Storage that knows catalogues of tables.
type Catalogs interface {
	// MetadataOf returns the URI of the newest metadata file of a table that a catalogue has by a name: of
	// rest://CATALOG/namespace.table.
	MetadataOf(ctx context.Context, profile, uri string) (string, error)
}

// openCatalogs returns those of a configuration.
func openCatalogs(given map[string]rest.Config) (map[string]*rest.Catalog, error) {
	configs, err := byName(given)
	if err != nil {
		return nil, fmt.Errorf("storage configuration: catalogs: %w", err)
	}
	out := make(map[string]*rest.Catalog)
	for name, cfg := range configs {
		if out[name], err = rest.New(cfg); err != nil {
			return nil, fmt.Errorf("storage configuration: catalog %s: %w", name, err)
		}
	}
	return out, nil
}

// catalogsFromEnv sets the fields of catalogues that variables name.
func catalogsFromEnv(given map[string]rest.Config, environ []string) (map[string]rest.Config, error) {
	all, err := byName(given)
	if err != nil {
		return nil, fmt.Errorf("catalogs: %w", err)
	}
	for _, e := range environ {
		key, value, _ := strings.Cut(e, "=")
		name, ok := strings.CutPrefix(key, catalogPrefix)
		if !ok || value == "" {
			continue
		}
		if err := setCatalog(all, name, value); err != nil {
			return nil, fmt.Errorf("%s: %w", key, err)
		}
	}
	if len(all) == 0 {
		return nil, nil
	}
	return all, nil
}

// setCatalog sets a field of a catalogue, <NAME>_<FIELD>, if there is one of that name.
func setCatalog(all map[string]rest.Config, name, value string) error {
	for catalog, field := range (variable{name: name}).cuts() {
		cfg := all[catalog]
		if known, err := setField(&cfg, field, value); known {
			all[catalog] = cfg
			return err
		}
	}
	return nil
}

// MetadataOf implements Catalogs.
func (s *Store) MetadataOf(ctx context.Context, profile, uri string) (string, error) {
	name, table, ok := strings.Cut(strings.TrimPrefix(uri, "rest://"), "/")
	if !ok || name == "" {
		return "", fmt.Errorf("%s names no table; write rest://CATALOG/namespace.table", uri)
	}
	c := s.catalogs[ProfileName(name)]
	switch {
	case c == nil:
		return "", object.Ours(fmt.Errorf("no catalogue %q on this machine; the storage configuration has %s", name,
			known(s.catalogs)))
	case ProfileName(c.Storage()) != ProfileName(profile):
		return "", fmt.Errorf("the tables of catalogue %s are read with storage profile %s, and not with %s: name "+
			"that one in dataset.storage", name, ProfileName(c.Storage()), ProfileName(profile))
	}
	var at string
	load := func(ctx context.Context, _ func(bool)) (err error) {
		at, err = c.MetadataOf(ctx, strings.TrimRight(table, "/"))
		return err
	}
	if err := (retrying{cfg: s.retry}).retry(ctx, s.retry.AttemptTimeout, load); err != nil {
		return "", fmt.Errorf("catalogue %s: %w", name, err)
	}
	return at, nil
}

func known(catalogs map[string]*rest.Catalog) string {
	if len(catalogs) == 0 {
		return "none: write it under catalogs"
	}
	return strings.Join(slices.Sorted(maps.Keys(catalogs)), ", ")
}
