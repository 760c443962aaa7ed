package master

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"github.com/penstock-ml/penstock/api/pb"
	"github.com/penstock-ml/penstock/internal/formats/format"
	"github.com/penstock-ml/penstock/internal/identity"
	"github.com/penstock-ml/penstock/internal/storage"
	"github.com/penstock-ml/penstock/master/features"
	"github.com/penstock-ml/penstock/master/plan"
	"github.com/penstock-ml/penstock/master/store"
)

// lookedAt is of how many files of a session's first block it is noted which columns they have.
const lookedAt = 16

// readNote is what is noted of a session's part below a directory.
type readNote struct {
	name store.ReadsName
	features.Note
}

// tally counts what is given to trainers to read of a block, below a directory. The notes that it belongs to hold its
// lock.
type tally struct {
	readNote           // all that there is to read
	given, noted int64 // of its rows
}

// settle is the note of what was given and is not noted yet; false: nothing was.
func (t *tally) settle(unixMs int64) (features.Note, bool) {
	if t.given == t.noted {
		return features.Note{}, false
	}
	part := t.Note
	part.UnixMs, part.BytesOf = unixMs, make([]int64, len(t.BytesOf))
	since := func(n int64) int64 { return t.share(n, t.given) - t.share(n, t.noted) }
	part.Rows, part.Bytes = t.given-t.noted, since(t.Bytes)
	for i, n := range t.BytesOf {
		part.BytesOf[i] = since(n)
	}
	t.noted = t.given
	return part, true
}

// share is the part of n that so many rows have.
func (t *tally) share(n, rows int64) int64 {
	if rows == t.Rows {
		return n
	}
	return int64(float64(n) * float64(rows) / float64(t.Rows))
}

// givenBlock is a block of which it is counted what trainers are given.
type givenBlock struct {
	reads   *blockReads
	tallies []*tally // by directory
	done    []bool   // by shard: it was given
}

// note notes what a session is, which reads nothing yet.
func (t *term) note(all []readNote) {
	now := time.Now().UnixMilli()
	for _, n := range all {
		n.UnixMs = now
		t.notes.add(n.name, features.Of(n.Note))
	}
}

// beginReads counts from now on what trainers are given of a block that was written.
func (r *runner) beginReads(p plannedBlock) {
	b := &givenBlock{reads: p.reads, done: make([]bool, len(p.block.GetShards()))}
	for _, n := range r.planner.notes(p.reads) {
		b.tallies = append(b.tallies, &tally{readNote: n})
	}
	r.term.notes.begin(b.tallies)
	r.given[store.BlockID{Epoch: p.block.GetEpoch(), Index: p.block.GetIndex()}] = b
}

// endReads ends that for blocks that are over.
func (r *runner) endReads(over func(store.BlockID) bool) {
	for id, b := range r.given {
		if over(id) {
			r.term.notes.end(b.tallies)
			delete(r.given, id)
		}
	}
}

// countGiven counts the shards that a trainer is told of, each once an epoch. Those of blocks that another master
// planned are not counted: what is read of them is not known here.
func (r *runner) countGiven(grants []*pb.Grant) {
	for _, g := range grants {
		at := g.GetInterval().GetFrom()
		id := store.BlockID{Epoch: at.GetEpoch(), Index: at.GetBlock()}
		b, block, shard := r.given[id], r.tickets.blocks[id], int(at.GetShard())
		if b == nil || shard >= len(b.done) || shard >= len(block.GetShards()) || b.done[shard] {
			continue
		}
		b.done[shard] = true
		s := block.GetShards()[shard]
		if i := b.reads.below(s.GetFile()); i >= 0 {
			r.term.notes.give(b.tallies[i], s)
		}
	}
}

// blockReads is what a block has workers read, by directory.
type blockReads struct {
	prefixes []string
	all      []plan.Reads
}

// below is the index of the directory that a file is below; -1 if none is noted.
func (b *blockReads) below(f *pb.File) int {
	return slices.IndexFunc(b.prefixes, func(p string) bool { return strings.HasPrefix(f.GetUri(), p) })
}

// of is what is read below the directory of a file; nil if that is not noted.
func (b *blockReads) of(f *pb.File) *plan.Reads {
	if i := b.below(f); i >= 0 {
		return &b.all[i]
	}
	return nil
}

func (p *blockPlanner) newReads(listed []*pb.File) *blockReads {
	out := &blockReads{prefixes: p.prefixes(listed)}
	for range out.prefixes {
		out.all = append(out.all, plan.Reads{BySource: make([]int64, len(p.program.GetSources()))})
	}
	return out
}

// prefixes are the directories that what the session reads is noted under.
func (p *blockPlanner) prefixes(listed []*pb.File) []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.noted == nil {
		var uris []string
		for _, given := range p.session.GetSpec().GetDataset().GetUri() {
			if uri, err := storage.Canonical(given); err == nil { // else nothing was listed
				uris = append(uris, uri)
			}
		}
		p.noted = features.Prefixes(uris, listed)
	}
	return p.noted
}

// opened is the note of a session that has just been opened.
func (p *blockPlanner) opened(listed []*pb.File) []readNote {
	var out []readNote
	for _, prefix := range p.prefixes(listed) {
		n := p.emptyNote(prefix)
		n.Sessions = 1
		out = append(out, n)
	}
	return out
}

// notes are of all that there is to read of a block, by directory.
func (p *blockPlanner) notes(b *blockReads) []readNote {
	var out []readNote
	for i, prefix := range b.prefixes {
		n := p.emptyNote(prefix)
		n.Rows, n.Bytes, n.BytesOf = b.all[i].Rows, b.all[i].Bytes, b.all[i].BySource
		out = append(out, n)
	}
	return out
}

// look notes which columns the first files have that are planned.
func (p *blockPlanner) look(prefixes []string, loaded []plan.File) (out []readNote) {
	if p.looked.Load() {
		return nil
	}
	for _, prefix := range prefixes {
		n := p.emptyNote(prefix)
		if n.Columns = columnsBelow(prefix, loaded); n.Columns != nil {
			out = append(out, n)
		}
	}
	return out
}

func (p *blockPlanner) emptyNote(prefix string) readNote {
	return readNote{
		name: store.ReadsName{
			Namespace: cmp.Or(p.session.GetNamespace(), identity.DefaultNamespace), Prefix: prefix,
		},
		Note: features.Note{Features: p.sources},
	}
}

// columnsBelow are those of the first files below a directory; nil if there is none.
func columnsBelow(prefix string, loaded []plan.File) *pb.FileColumns {
	var files []format.File
	for _, f := range loaded {
		if strings.HasPrefix(f.GetUri(), prefix) && len(files) < lookedAt {
			files = append(files, f.Holds)
		}
	}
	if len(files) == 0 {
		return nil
	}
	return features.Columns(files)
}
