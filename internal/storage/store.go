package storage

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"

	"github.com/penstock-ml/penstock/api/pb"
	"github.com/penstock-ml/penstock/internal/storage/file"
	"github.com/penstock-ml/penstock/internal/storage/keys"
	"github.com/penstock-ml/penstock/internal/storage/object"
	"github.com/penstock-ml/penstock/internal/storage/s3"
)

// Store is the Storage of a process.
type Store struct {
	retry    Retry
	listing  Listing
	profiles map[string]Profile    // by ProfileName
	keys     map[string]*keys.Ring // by ProfileName

	mu      sync.Mutex
	clients map[string]*s3.Client // of the profiles that were needed so far
}

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
		profiles[DefaultProfile] = Profile{}
	}
	for key, p := range profiles {
		if err := p.Validate(); err != nil {
			return nil, fmt.Errorf("storage profile %s: %w", key, err)
		}
	}
	st := &Store{retry: retry, listing: listing, profiles: profiles, keys: make(map[string]*keys.Ring), clients: make(map[string]*s3.Client)}
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
	for _, c := range s.clients {
		c.Close()
	}
	for _, k := range s.keys {
		k.Close()
	}
}

// client returns the connection of a profile, made when it is first needed.
func (s *Store) client(key string) (*s3.Client, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if c := s.clients[key]; c != nil {
		return c, nil
	}
	c, err := s3.New(s.profiles[key])
	if err != nil {
		return nil, fmt.Errorf("storage profile %s: %w", key, err)
	}
	s.clients[key] = c
	return c, nil
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
func (s *Store) backend(profile, uri string) (backend, error) {
	key := ProfileName(profile)
	if _, ok := s.profiles[key]; !ok {
		return nil, fmt.Errorf("no storage profile %q on this machine; it has %s",
			profile, strings.Join(slices.Sorted(maps.Keys(s.profiles)), ", "))
	}
	switch {
	case strings.HasPrefix(uri, file.Scheme):
		return retrying{file.Disk{}, s.retry}, nil
	case strings.HasPrefix(uri, s3.Scheme):
		client, err := s.client(key)
		if err != nil {
			return nil, err
		}
		return retrying{client, s.retry}, nil
	}
	return nil, errors.New("unknown scheme; use file:// or s3://")
}
