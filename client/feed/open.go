package feed

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"strings"
	"time"

	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"

	"github.com/penstock-ml/penstock/api/pb"
	"github.com/penstock-ml/penstock/api/spec"
	"github.com/penstock-ml/penstock/client"
	"github.com/penstock-ml/penstock/internal/process"
)

// sayOpening is how often a program that waits for its session hears that it is still being opened.
const sayOpening = time.Second

// open opens the session that a request names. It may take long: a master may have to list a large dataset, or other
// ranks to come.
func (f *feeder) open(ctx context.Context, r *request) *reply {
	if f.session != nil {
		return failed(errors.New("feed: a session was opened on this connection before; each has its own"))
	}
	cfg, err := r.Open.config()
	if err != nil {
		return misused(err)
	}
	cfg.Memory, cfg.Local, cfg.Logger = f.arenas.next, f.local, slog.New(&f.events)
	if err := f.dial(ctx, cfg, r.ID); err != nil {
		return failed(err)
	}
	if f.local != nil {
		process.RaiseMemoryLimit(r.Open.Budget)
		f.raised = r.Open.Budget
	}
	f.peeks = r.Open.Peek > 0
	said, err := f.describe()
	if err != nil {
		return failed(err)
	}
	return &reply{Opened: said}
}

// dial opens a session, and says now and then that it is doing so. The session outlives ctx, whose end ends the
// opening.
func (f *feeder) dial(ctx context.Context, cfg client.Config, id uint64) error {
	life, end := context.WithCancel(context.WithoutCancel(ctx))
	stop := context.AfterFunc(ctx, end)
	defer stop()
	var session *client.Session
	done := make(chan error, 1)
	go func() {
		var err error
		session, err = client.Open(life, cfg)
		done <- err
	}()
	tick := time.NewTicker(sayOpening)
	defer tick.Stop()
	for {
		select {
		case err := <-done:
			if err != nil {
				end()
				return err
			}
			f.session, f.ends = session, end // run ends them
			return nil
		case <-tick.C:
			if f.send(&reply{ID: id, Opening: true}) != nil {
				end() // nobody waits for it
			}
		}
	}
}

// config is what a request says of the session.
func (o *openRequest) config() (client.Config, error) {
	c := client.Config{
		Masters: o.Masters, Session: o.Session, SpecText: o.SpecText, WorkingDir: o.WorkingDir, Rank: o.Rank,
		WorldSize: o.WorldSize, Zone: o.Zone, Budget: o.Budget, BeginsIn: o.BeginsIn,
		Code: o.Code, AcceptCodeChange: o.AcceptCodeChange,
		ConnectTimeout: seconds(o.ConnectTimeout), RestoreTimeout: seconds(o.RestoreTimeout),
		SyncEvery: seconds(o.SyncEvery), StreamTimeout: seconds(o.StreamTimeout), HedgeAfter: seconds(o.HedgeAfter),
		JoinTimeout: seconds(o.JoinTimeout),
	}
	if len(o.Spec) > 0 {
		c.Spec = &pb.Spec{}
		if err := protojson.Unmarshal(o.Spec, c.Spec); err != nil {
			return c, fmt.Errorf("the spec: %w", err)
		}
	}
	if o.Share != nil {
		c.Share = &pb.Share{Weight: o.Share.Weight, MinWorkers: o.Share.MinWorkers, MaxWorkers: o.Share.MaxWorkers}
	}
	if o.Compression != "" {
		n, ok := pb.Compression_value[strings.ToUpper(o.Compression)]
		if !ok {
			return c, fmt.Errorf("compression is %q; want lz4, zstd or none", o.Compression)
		}
		c.Compression = pb.Compression(n)
	}
	var err error
	if c.Restore, err = o.restored(); err != nil {
		return c, err
	}
	if o.RestoredLike != nil {
		like := &pb.State{}
		if err := proto.Unmarshal(o.RestoredLike, like); err != nil {
			return c, fmt.Errorf("the state that others restore is none: %w; give what state_dict() returned", err)
		}
		c.SavedLastBatch, c.SavedTable = client.SavedLastBatch(like), like.GetTable()
	}
	if o.Peek > 0 {
		if err := peek(&c, o.Peek); err != nil {
			return c, err
		}
	}
	s := o.Security
	err = c.Secure(client.Security{
		TokenFile: s.TokenFile, Token: s.Token, CA: s.CA, ServerName: s.ServerName, TLS: s.TLS, Cert: s.Cert,
		Key: s.Key, Namespace: s.Namespace,
	})
	return c, errors.Join(err, dialable(c))
}

// dialable says what of a config's masters and files keeps connections from being made, before one is.
func dialable(c client.Config) error {
	if c.Dial == nil {
		return nil
	}
	var errs []error
	for _, address := range c.Masters {
		conn, err := c.Dial(address)
		if err != nil {
			errs = append(errs, err)
			continue
		}
		_ = conn.Close() // it connects with the first call
	}
	return errors.Join(errs...)
}

// restored are the states that the rank brings, nil if it restores none.
func (o *openRequest) restored() ([]*pb.State, error) {
	if o.Restore == nil {
		return nil, nil
	}
	states := make([]*pb.State, len(o.Restore))
	for i, data := range o.Restore {
		states[i] = &pb.State{}
		if err := proto.Unmarshal(data, states[i]); err != nil {
			return nil, fmt.Errorf("state %d of %d is none: %w; give what state_dict() returned",
				i+1, len(o.Restore), err)
		}
	}
	return states, nil
}

// describe is what the program learns of the session that was opened.
func (f *feeder) describe() (*opened, error) {
	schema, err := serialized(f.session.Schema())
	if err != nil {
		return nil, err
	}
	info, begins := f.session.Info(), f.session.State()
	out := &opened{
		BatchSize: info.GetBatchSize(), WorldSize: info.GetWorldSize(), Epochs: spec.Epochs(info.GetSpec()),
		Drops: info.GetSpec().GetLastBatch() == pb.LastBatch_DROP, Schema: schema,
		LastBatch: strings.ToLower(begins.GetLastBatch().String()),
		Spec:      fingerprint(info.GetSpec()),
		// In order deterministic the count alone says so.
		Begun: len(begins.GetBase()) > 0 || len(begins.GetConsumed()) > 0 || begins.GetHanded() > 0,
	}
	if from := info.GetRestoredFrom(); from.GetName() != "" {
		out.RestoredFrom = &checkpoint{Name: from.GetName(), Step: from.GetStep()}
	}
	program := &pb.Program{}
	if proto.Unmarshal(info.GetProgram(), program) == nil { // which Open has read
		out.Counts = info.GetWorldSize() == 1 && spec.RowsOf(program) == spec.SameRows
	}
	if out.Pinned, err = pinned(f.session); err != nil {
		out.Unpinned = err.Error()
	}
	return out, nil
}

// pinned is the session's spec, pinned, as text; what it is pinned to alone where it has functions by value, which no
// text can say.
func pinned(s *client.Session) (string, error) {
	of, err := s.PinnedSpec()
	if err != nil {
		return "", err
	}
	about := ""
	if of.GetCode() != nil {
		about = "# The functions are the program's own, which no text can say: serve with features=, transforms= and " +
			"pinned=.\n"
		of = &pb.Spec{Pinned: of.GetPinned(), Fitted: of.GetFitted()}
	}
	text, err := spec.Format(of)
	return about + string(text), err
}

// fingerprint are the parts of a spec that a state belongs to, in some hundred bytes: what is long, or no text, is a
// digest.
func fingerprint(s *pb.Spec) map[string]any {
	return map[string]any{
		"uri": brief(strings.Join(s.GetDataset().GetUri(), ", ")), "partitions": brief(s.GetDataset().GetPartitions()),
		"split": brief(s.GetDataset().GetSplit()), "subset": brief(s.GetDataset().GetSubset()),
		"filter": brief(s.GetFilter()), "features": digest(s.GetFeatures()), "transforms": digest(s.GetTransforms()),
		"seed": s.GetSeed(), "shuffle": s.GetShuffle(), "provenance": s.GetProvenance(),
	}
}

// longestText is how much of a text stands in a fingerprint, in characters.
const longestText = 80

func brief(text string) string {
	runes := []rune(text)
	if len(runes) <= longestText {
		return text
	}
	return string(runes[:longestText/2]) + "... #" + hash([]byte(text))
}

func digest[M proto.Message](parts []M) string {
	var each []byte
	for _, part := range parts {
		data, err := proto.MarshalOptions{Deterministic: true}.Marshal(part)
		if err != nil {
			data = []byte(err.Error()) // a text that is not UTF-8, which no spec has
		}
		sum := sha256.Sum256(data)
		each = append(each, sum[:]...)
	}
	return fmt.Sprintf("%d #%s", len(parts), hash(each))
}

func hash(data []byte) string {
	sum := sha256.Sum256(data)
	return hex.EncodeToString(sum[:4])
}

// seconds is a time as requests have it, which may be too long for time.Duration.
func seconds(s float64) time.Duration {
	if s >= math.MaxInt64/1e9 {
		return math.MaxInt64
	}
	return time.Duration(s * 1e9)
}
