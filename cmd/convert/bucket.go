package convert

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"slices"
	"strings"

	"golang.org/x/sync/errgroup"

	"github.com/penstock-ml/penstock/api/pb"
	"github.com/penstock-ml/penstock/internal/storage"
)

// bucket is an output in a store without directories that could be renamed. All files are written before the first one
// is finished, which is when others see it. The journal is a file an entry. Each is written once, so that a second
// process finds out; and as long as they are there, the place is not listed as a dataset. The manifest comes last.
type bucket struct {
	progress
	store   *storage.Store
	profile string
	work    string                      // which conversion it is
	drop    func(context.Context) error // what --restart drops; nil: nothing
	base    string                      // a URI without a "/" at its end: of the place, or of the one file
	entries int                         // of the journal
	file    *storage.Upload
	name    string // of the file, below base
	resumed bool
	named   bool // all files have their names, and only the journal is left
	ended   bool // there is nothing left to abandon
}

const (
	manifestName = "_manifest.json"
	// parallel is how many small requests are made at once.
	parallel = 16
	// maxEntry bounds what is read of an entry: the tags of a file's parts take most of it.
	maxEntry = 1 << 20
)

func (out *bucket) one() bool { return isOne(out.base) }

func (out *bucket) entryURI(n int) string {
	return fmt.Sprintf("%s/%s/%05d.json", out.base, storage.Converting, n)
}

func newBucket(ctx context.Context, o Options, in *inputs, base string) (*bucket, error) {
	out := &bucket{
		store: o.Store, profile: o.OutProfile, base: base, work: workOf(o, in),
		progress: progress{ending: o.ending()},
	}
	if o.Overwrite {
		return nil, fmt.Errorf("output %s: only directories of this machine are overwritten; choose a new place", base)
	}
	if err := o.Store.Writable(out.profile, base); err != nil {
		return nil, err
	}
	if out.one() {
		switch _, _, err := out.find(ctx, storage.Quote(base)); {
		case err == nil:
			return nil, fmt.Errorf("output %s is there already: choose a new name", base)
		case !errors.Is(err, fs.ErrNotExist):
			return nil, err
		}
		return out, nil
	}
	if err := out.resume(ctx, o); err != nil {
		return nil, err
	}
	if out.resumed || out.drop != nil {
		return out, nil
	}
	return out, out.vacant(ctx)
}

// vacant reports files in the place.
func (out *bucket) vacant(ctx context.Context) error {
	_, _, err := out.find(ctx, storage.Quote(out.base)+"/")
	switch {
	case err == nil:
		return fmt.Errorf("output %s holds files already: choose a new place", out.base)
	case errors.Is(err, fs.ErrNotExist):
		return nil
	}
	return err
}

func (out *bucket) start(ctx context.Context, order []int) error {
	if out.one() || out.resumed {
		return nil
	}
	if out.drop != nil {
		if err := out.drop(ctx); err != nil {
			return err
		}
		if err := out.vacant(ctx); err != nil {
			return err
		}
	}
	return out.record(ctx, entry{Work: out.work, Order: order})
}

// find lists whatever lies below a URI.
func (out *bucket) find(ctx context.Context, uri string) ([]*pb.File, storage.Others, error) {
	any := storage.Kind{Ends: "anything", Has: func(string) bool { return true }}
	return out.store.Find(ctx, out.profile, []string{uri}, any)
}

// journal lists the entries.
func (out *bucket) journal(ctx context.Context) ([]*pb.File, storage.Others, error) {
	return out.find(ctx, storage.Quote(out.base)+"/"+storage.Converting+"/")
}

// resume reads the journal of an earlier run, if there is one.
func (out *bucket) resume(ctx context.Context, o Options) error {
	files, _, err := out.journal(ctx)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	entries := make([]entry, len(files))
	group, each := errgroup.WithContext(ctx)
	group.SetLimit(parallel)
	for i, f := range files {
		group.Go(func() error { return out.read(each, f, &entries[i]) })
	}
	if err := group.Wait(); err != nil {
		return err
	}
	if o.Restart {
		if slices.ContainsFunc(entries, func(e entry) bool { return e.Whole }) {
			return fmt.Errorf(
				"the files of %s get their names already: run the same command without --restart to end that", out.base)
		}
		out.drop = func(ctx context.Context) error { return out.restart(ctx, files, entries) }
		return nil
	}
	if entries[0].Work == out.work { // which is removed last
		out.order = entries[0].Order
		if complete, err := out.complete(ctx); err != nil || complete {
			return err
		}
	}
	if err := out.take(entries, out.work); err != nil {
		return fmt.Errorf("%s: %w", out.base, err)
	}
	out.resumed, out.entries = true, len(entries)
	return nil
}

// complete reports whether there is a manifest. Then an earlier run stopped while it removed its journal.
func (out *bucket) complete(ctx context.Context) (bool, error) {
	uri := out.base + "/" + manifestName
	if storage.Quote(uri) != uri { // globs are refused while a journal is there
		return false, nil
	}
	files, _, err := out.find(ctx, uri)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	text := make([]byte, files[0].GetSize())
	var m manifest
	if err = out.store.ReadAt(ctx, out.profile, files[0], text, 0); err == nil {
		err = json.Unmarshal(text, &m)
	}
	for _, f := range m.Files {
		out.files = append(out.files, finished{Name: f.Name, Rows: f.Rows, Bytes: f.Bytes})
	}
	out.resumed, out.whole, out.named = true, err == nil, err == nil
	return out.named, err
}

func (out *bucket) read(ctx context.Context, f *pb.File, e *entry) error {
	if f.GetSize() > maxEntry {
		return fmt.Errorf("%s is no entry of a journal: give --restart", f.GetUri())
	}
	text := make([]byte, f.GetSize())
	if err := out.store.ReadAt(ctx, out.profile, f, text, 0); err != nil {
		return err
	}
	if err := json.Unmarshal(text, e); err != nil {
		return fmt.Errorf("%s is no entry of a journal: give --restart: %w", f.GetUri(), err)
	}
	if held := e.held(); held != nil && held.URI != out.base+"/"+e.File.Name {
		return fmt.Errorf("%s names a file of another place, %s: give --restart", f.GetUri(), held.URI)
	}
	return nil
}

// restart drops what an earlier run wrote, and its journal.
func (out *bucket) restart(ctx context.Context, files []*pb.File, entries []entry) error {
	for _, e := range entries {
		if held := e.held(); held != nil && strings.HasPrefix(held.URI, out.base+"/") {
			if err := out.store.Drop(ctx, out.profile, *held); err != nil {
				return err
			}
		}
	}
	return out.remove(ctx, files)
}

// remove removes a journal, the first entry last: it keeps the place from being read.
func (out *bucket) remove(ctx context.Context, files []*pb.File) error {
	group, each := errgroup.WithContext(ctx)
	group.SetLimit(parallel)
	for _, f := range files[1:] {
		group.Go(func() error { return out.store.Remove(each, out.profile, f) })
	}
	if err := group.Wait(); err != nil {
		return err
	}
	return out.store.Remove(ctx, out.profile, files[0])
}

// record writes the journal's next entry, which nobody may have written yet.
func (out *bucket) record(ctx context.Context, e entry) error {
	text, err := json.Marshal(e)
	if err != nil {
		return err
	}
	err = out.create(ctx, out.entryURI(out.entries), text)
	if errors.Is(err, fs.ErrExist) {
		out.resumed = true // the journal is the other's
		return fmt.Errorf("another process converts to %s at this moment: wait for its end: %w", out.base, err)
	}
	out.entries++
	return err
}

// create writes a small new file.
func (out *bucket) create(ctx context.Context, uri string, text []byte) error {
	u, err := out.store.Begin(ctx, out.profile, uri)
	if err != nil {
		return err
	}
	if _, err = io.Copy(u, bytes.NewReader(text)); err == nil {
		var held storage.Pending
		if held, err = u.End(); err == nil {
			_, err = out.store.Finish(ctx, out.profile, held)
		}
	}
	if err != nil {
		return errors.Join(err, u.Abandon(ctx))
	}
	return nil
}

func (out *bucket) scratch() string { return os.TempDir() }

func (out *bucket) done() *progress { return &out.progress }

func (out *bucket) begin(ctx context.Context, folder string) (io.Writer, error) {
	uri := out.base
	out.name = out.next(folder)
	if !out.one() {
		uri += "/" + out.name
	}
	var err error
	out.file, err = out.store.Begin(ctx, out.profile, uri)
	return out.file, err
}

func (out *bucket) end(ctx context.Context, f finished) error {
	held, err := out.file.End()
	if err != nil {
		return err
	}
	f.Name, f.Bytes, f.Held = out.name, held.Size, &held
	if !out.one() {
		if err := out.record(ctx, entry{File: &f}); err != nil {
			return err
		}
	}
	out.add(f)
	out.file = nil
	return nil
}

// publish finishes all files. Where that was begun before, some are.
func (out *bucket) publish(ctx context.Context, beside *attached) ([]string, error) {
	if out.named {
		names := make([]string, len(out.files))
		for i, f := range out.files {
			names[i] = out.base + "/" + f.Name
		}
		return names, out.close(ctx)
	}
	if !out.one() && !out.whole {
		if err := out.record(ctx, entry{Whole: true}); err != nil {
			return nil, err
		}
	}
	made := make([]*pb.File, len(out.files))
	names := make([]string, len(out.files))
	group, each := errgroup.WithContext(ctx)
	group.SetLimit(parallel)
	for i, f := range out.files {
		names[i] = f.Held.URI
		group.Go(func() (err error) {
			made[i], err = out.store.Finish(each, out.profile, *f.Held)
			if errors.Is(err, fs.ErrNotExist) {
				err = fmt.Errorf("%w: its upload is gone, as by a rule of the bucket: remove what lies below %s, and "+
					"convert anew", err, out.base)
			}
			return err
		})
	}
	if err := group.Wait(); err != nil || out.one() {
		out.ended = err == nil
		return names, err
	}
	if beside != nil {
		if err := out.once(ctx, beside.name, beside.text); err != nil {
			return nil, err
		}
	}
	if err := out.manifest(ctx, made); err != nil {
		return nil, err
	}
	return names, out.close(ctx)
}

// close removes the journal of files that have their names.
func (out *bucket) close(ctx context.Context) error {
	journal, _, err := out.journal(ctx)
	if err == nil {
		err = out.remove(ctx, journal)
	}
	out.ended = err == nil
	return err
}

// manifest is what lies beside a conversion's files, for whoever wants to know that they are all there.
type manifest struct {
	Version int            `json:"version"`
	By      string         `json:"by"`
	Rows    int64          `json:"rows"`
	Files   []manifestFile `json:"files"`
}

type manifestFile struct {
	Name  string `json:"name"`
	Rows  int64  `json:"rows"`
	Bytes int64  `json:"bytes"`
	ETag  string `json:"etag"`
}

func (out *bucket) manifest(ctx context.Context, made []*pb.File) error {
	m := manifest{Version: 1, By: "penstock convert", Rows: out.rows()}
	for i, f := range made {
		of := out.files[i]
		m.Files = append(m.Files, manifestFile{Name: of.Name, Rows: of.Rows, Bytes: of.Bytes, ETag: f.GetEtag()})
	}
	text, err := json.MarshalIndent(m, "", "  ")
	if err != nil {
		return err
	}
	return out.once(ctx, manifestName, append(text, '\n'))
}

// once creates a small file, unless an earlier run came that far.
func (out *bucket) once(ctx context.Context, name string, text []byte) error {
	err := out.create(ctx, out.base+"/"+name, text)
	if out.resumed && errors.Is(err, fs.ErrExist) {
		return nil
	}
	return err
}

// abandon forgets the file that is being written, and all of them if none is finished.
func (out *bucket) abandon(err error) error {
	if out.ended {
		return err
	}
	ctx := context.Background() // that of the run may be over
	if out.file != nil {
		err = errors.Join(err, out.file.Abandon(ctx))
	}
	switch {
	case out.one() && len(out.files) > 0:
		return errors.Join(err, out.store.Drop(ctx, out.profile, *out.files[0].Held))
	case out.one() || out.resumed || len(out.files) > 0 || out.entries == 0:
		return out.resumable(err)
	}
	journal, _, found := out.journal(ctx)
	if found == nil {
		found = out.remove(ctx, journal)
	}
	return errors.Join(err, found)
}

func (e *entry) held() *storage.Pending {
	if e.File == nil {
		return nil
	}
	return e.File.Held
}
