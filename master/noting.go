package master

import (
	"context"
	"strings"
	"time"

	"github.com/penstock-ml/penstock/api/pb"
	"github.com/penstock-ml/penstock/internal/formats/format"
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

// note notes what a session read.
func (t *term) note(all []readNote) {
	now := time.Now().UnixMilli()
	for _, n := range all {
		n.UnixMs = now
		t.notes.add(n.name, features.Of(n.Note))
	}
}

// blockReads is what a block has workers read, by directory.
type blockReads struct {
	prefixes []string
	all      []plan.Reads
}

// of is what is read below the directory of a file; nil if that is not noted.
func (b *blockReads) of(f *pb.File) *plan.Reads {
	for i, p := range b.prefixes {
		if strings.HasPrefix(f.GetUri(), p) {
			return &b.all[i]
		}
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
func (p *blockPlanner) opened(ctx context.Context) []readNote {
	listed, err := p.listed(ctx)
	if err != nil {
		return nil // what is counted is not worth an error
	}
	var out []readNote
	for _, prefix := range p.prefixes(listed) {
		n := p.emptyNote(prefix)
		n.Sessions = 1
		out = append(out, n)
	}
	return out
}

// reads are the notes of a block. The first one tells of the files' columns, too.
func (p *blockPlanner) reads(b *blockReads, loaded []plan.File) []readNote {
	var out []readNote
	for i, prefix := range b.prefixes {
		n := p.emptyNote(prefix)
		n.Rows, n.Bytes, n.BytesOf = b.all[i].Rows, b.all[i].Bytes, b.all[i].BySource
		if !p.looked.Load() {
			n.Columns = columnsBelow(prefix, loaded)
		}
		if n.Rows > 0 || n.Columns != nil {
			out = append(out, n)
		}
	}
	return out
}

func (p *blockPlanner) emptyNote(prefix string) readNote {
	n := readNote{name: store.ReadsName{Namespace: p.session.GetNamespace(), Prefix: prefix}}
	for _, s := range p.program.GetSources() {
		n.Features = append(n.Features, s.GetName())
	}
	return n
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
