package storage

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"

	"github.com/penstock-ml/penstock/api/pb"
	"github.com/penstock-ml/penstock/internal/storage/keys"
	"github.com/penstock-ml/penstock/internal/storage/object"
	"github.com/penstock-ml/penstock/internal/tables/iceberg/rest"
)

// Store is the Storage of a process.
type Store struct {
	retry    Retry
	listing  Listing
	profiles map[string]Profile    // by ProfileName; nil: empty, of whichever store is asked for
	keys     map[string]*keys.Ring // by ProfileName
	catalogs map[string]*rest.Catalog

	mu     sync.Mutex
	opened map[opening]object.Backend // those that were needed so far
}

// opening is what a backend was opened as.
type opening struct{ profile, store string }

// New returns the Storage that cfg describes. Nothing is connected to until it is read.
func New(cfg Config) (*Store, error) {
	retry, err := cfg.Retry.withDefaults()
	if err != nil {
		return nil, fmt.Errorf("storage configuration: %w", err)
	}
	listing, err := cfg.Listing.withDefaults()
	if err != nil {
		return nil, fmt.Errorf("storage configuration: %w", err)
	}
	profiles, err := byName(cfg.Profiles)
	if err != nil {
		return nil, fmt.Errorf("storage configuration: %w", err)
	}
	if _, ok := profiles[DefaultProfile]; !ok {
		profiles[DefaultProfile] = nil
	}
	for key, p := range profiles {
		if p == nil {
			p = emptyProfile()
		}
		if err := p.Validate(); err != nil {
			return nil, fmt.Errorf("storage profile %s: %w", key, err)
		}
	}
	st := &Store{
		retry: retry, listing: listing, profiles: profiles,
		keys: make(map[string]*keys.Ring), opened: make(map[opening]object.Backend),
	}
	configs, err := byName(cfg.Keys)
	if err != nil {
		return nil, fmt.Errorf("storage configuration: keys: %w", err)
	}
	for key, k := range configs {
		if _, ok := profiles[key]; !ok {
			return nil, fmt.Errorf("keys of storage profile %s: there is no such profile", key)
		}
		if st.keys[key], err = keys.New(k); err != nil {
			return nil, fmt.Errorf("keys of storage profile %s: %w", key, err)
		}
	}
	if st.catalogs, err = openCatalogs(cfg.Catalogs); err != nil {
		return nil, err
	}
	return st, nil
}

// Keys returns the keys of a profile's encrypted files: those configured under its name, or else those of the profile
// "default".
func (s *Store) Keys(profile string) *keys.Ring {
	if ring, ok := s.keys[ProfileName(profile)]; ok {
		return ring
	}
	return s.keys[DefaultProfile]
}

// Close closes idle connections. Calls under way go on.
func (s *Store) Close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, b := range s.opened {
		if c, ok := b.(interface{ Close() }); ok {
			c.Close()
		}
	}
	for _, k := range s.keys {
		k.Close()
	}
	for _, c := range s.catalogs {
		c.Close()
	}
}

// open returns a store as a profile has it, opened when it is first needed.
func (s *Store) open(key string, store object.Store) (object.Backend, error) {
	if store.Profile == nil {
		return store.Backend, nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	as := opening{key, store.Name}
	if b := s.opened[as]; b != nil {
		return b, nil
	}
	p := s.profiles[key]
	if p == nil {
		p = store.Profile()
	}
	if typ := typeOf(p); typ != store.Name {
		return nil, fmt.Errorf("storage profile %s is of type %s; name one of type %s", key, typ, store.Name)
	}
	b, err := p.Open()
	if err != nil {
		return nil, fmt.Errorf("storage profile %s: %w", key, err)
	}
	s.opened[as] = b
	return b, nil
}

// ReadAt fills buf with the bytes of f from offset.
func (s *Store) ReadAt(ctx context.Context, profile string, f *pb.File, buf []byte, offset int64) error {
	b, err := s.backend(profile, f.Uri)
	if err != nil {
		err = object.Ours(err)
	} else {
		err = b.ReadAt(ctx, f, buf, offset)
	}
	if err != nil {
		if ctx.Err() == nil { // a cause may be anything
			err = blame(err)
		}
		return fmt.Errorf("read %s, bytes %d to %d: %w", f.Uri, offset, offset+int64(len(buf)), err)
	}
	return nil
}

// backend returns what holds the URI.
func (s *Store) backend(profile, uri string) (retrying, error) {
	key := ProfileName(profile)
	if _, ok := s.profiles[key]; !ok {
		return retrying{}, fmt.Errorf("no storage profile %q on this machine; it has %s: "+
			"write it into the file of --storage-config, or correct its name",
			profile, strings.Join(slices.Sorted(maps.Keys(s.profiles)), ", "))
	}
	store, err := storeOf(uri)
	if err != nil {
		return retrying{}, err
	}
	b, err := s.open(key, store)
	if err != nil {
		return retrying{}, err
	}
	return retrying{b, s.retry}, nil
}
