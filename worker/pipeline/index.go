package pipeline

import (
	"context"
	"fmt"

	"github.com/penstock-ml/penstock/api/pb"
	"github.com/penstock-ml/penstock/internal/formats"
	"github.com/penstock-ml/penstock/internal/formats/format"
	"github.com/penstock-ml/penstock/worker/rescue"
)

// scanBytes is about what a scan of a file holds beside a long record: what was read, and is decompressed.
const scanBytes = 12 << 20

// Index makes the index of the ticket's file, which does not say itself where its rows are, by a list of its records or
// by reading all of it once.
// Like Open, it waits for memory, or fails with ErrBusy.
func (p *Pipeline) Index(ctx context.Context, t *pb.Ticket, program *pb.Program) (*formats.Made, error) {
	s := p.enter(t, program)
	defer s.Close()
	store, err := s.look(ctx)
	if err != nil {
		return nil, err
	}
	of, ok := s.file.(format.Scanned)
	if !ok {
		return nil, fmt.Errorf("%s: a file of %s has no index: it says itself where its rows are: %w",
			t.GetFile().GetUri(), s.file.Format(), ErrProgram)
	}
	take := func(n int64) error {
		_, err := s.quota.more(ctx, n, n)
		return err
	}
	if err := take(scanBytes); err != nil {
		return nil, fmt.Errorf("%s: memory to index it: %w", t.GetFile().GetUri(), err)
	}
	var x *formats.Made
	err = s.stats.timed(&s.stats.decode, func() error {
		return rescue.Call(rescue.Decoder, func() (err error) {
			x, err = formats.Index(ctx, &format.Input{
				Storage: store, Profile: program.GetStorage(), File: t.GetFile(), How: program.GetFormat(), Take: take,
			}, of)
			return err
		})
	})
	return x, err
}
