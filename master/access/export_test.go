package access

import (
	"crypto/sha256"
	"time"

	"github.com/penstock-ml/penstock/internal/identity"
)

// ReviewsKept is reviewsKept, ReviewsAtOnce reviewsAtOnce.
const ReviewsKept, ReviewsAtOnce = reviewsKept, reviewsAtOnce

// Verdicts is what a Review remembers.
type Verdicts struct{ Review }

// NewVerdicts remembers nothing.
func NewVerdicts() *Verdicts {
	return &Verdicts{Review{kept: map[[sha256.Size]byte]verdict{}}}
}

// Keep remembers a token for a while.
func (v *Verdicts) Keep(token string, d time.Duration) {
	v.keep(sha256.Sum256([]byte(token)), verdict{who: identity.Anyone(), until: time.Now().Add(d)})
}

// Has reports whether a token is remembered.
func (v *Verdicts) Has(token string) bool {
	_, ok := v.known(sha256.Sum256([]byte(token)))
	return ok
}

// Len is how many are remembered.
func (v *Verdicts) Len() int { return len(v.kept) }
