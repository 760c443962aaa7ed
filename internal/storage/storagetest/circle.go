package storagetest

import (
	"errors"
	"testing"

	"github.com/penstock-ml/penstock/internal/storage"
	"github.com/penstock-ml/penstock/internal/storage/object"
)

// Circle wants an error of a listing whose service names one page as the next, again and again; asked is how many
// pages it was asked for.
func Circle(t *testing.T, s *storage.Store, uri string, asked func() int64) {
	t.Helper()
	_, err := s.List(t.Context(), "", []string{uri})
	if !errors.Is(err, object.ErrEndless) || storage.IsTransient(err) {
		t.Errorf("error %v, want %v", err, object.ErrEndless)
	}
	if n := asked(); n != 2 {
		t.Errorf("it was asked for %d pages, want 2", n)
	}
}
