package store

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"testing"

	"google.golang.org/protobuf/proto"

	"github.com/penstock-ml/penstock/api/pb"
)

func TestReads(t *testing.T) {
	s := open(t, etcd(t))
	l := lead(t, s)
	ctx := t.Context()
	name := ReadsName{Prefix: "s3://b/a%2Fb/"}
	if m, revision, err := s.Reads(ctx, name); m != nil || revision != 0 || err != nil {
		t.Fatalf("at first there are %v of revision %d, %v", m, revision, err)
	}
	want := &pb.DatasetReads{Prefix: name.Prefix, Rows: 7}
	check(t, s.PutReads(ctx, l, name, want, 0))
	m, revision, err := s.Reads(ctx, ReadsName{"default", name.Prefix})
	check(t, err)
	if !proto.Equal(m, want) {
		t.Errorf("read %v", m)
	}
	if m, _, err := s.Reads(ctx, ReadsName{"other", name.Prefix}); m != nil || err != nil {
		t.Errorf("another namespace has %v, %v", m, err)
	}
	if err := s.PutReads(ctx, l, name, want, 0); !errors.Is(err, ErrConflict) {
		t.Errorf("what lies there is replaced: %v", err)
	}
	check(t, s.PutReads(ctx, l, name, &pb.DatasetReads{Rows: 8}, revision))

	noise := make([]byte, 2<<20)
	_, _ = rand.Read(noise) // never fails
	large := &pb.DatasetReads{Sets: []*pb.FeatureSet{{Features: noise}}}
	if err := s.PutReads(ctx, l, name, large, revision); !errors.Is(err, ErrTooLarge) {
		t.Errorf("2 MiB are taken: %v", err)
	}
	if _, err := s.client.Put(ctx, s.keys.reads(name), "damaged"); err != nil {
		t.Fatal(err)
	}
	m, revision, err = s.Reads(ctx, name)
	check(t, err)
	if m != nil || revision == 0 {
		t.Errorf("what is damaged is read as %v of revision %d", m, revision)
	}
	check(t, s.PutReads(ctx, l, name, want, revision))
	check(t, l.Resign(context.WithoutCancel(ctx)))
	if err := s.PutReads(ctx, l, ReadsName{Prefix: "x/"}, want, 0); !errors.Is(err, ErrNotLeader) {
		t.Errorf("who leads no more: %v", err)
	}
}

// A namespace has so many directories, and all have: the one that was written longest ago makes room.
func TestReadPrefixes(t *testing.T) {
	s := open(t, etcd(t))
	l := lead(t, s)
	ctx := t.Context()
	put := func(namespace, prefix string, revision int64) {
		t.Helper()
		check(t, s.PutReads(ctx, l, ReadsName{namespace, prefix}, &pb.DatasetReads{}, revision))
	}
	put("other", "0/", 0)
	var want []string
	for i := range maxReadsOf {
		want = append(want, fmt.Sprint(i, "/"))
		put("", want[i], 0)
	}
	_, revision, err := s.Reads(ctx, ReadsName{"", "0/"})
	check(t, err)
	put("", "0/", revision)
	put("", "new/", 0)
	want = append(want[2:], "0/", "new/")
	got, err := s.ReadPrefixes(ctx, "default")
	check(t, err)
	same(t, "directories", got, want)
	got, err = s.ReadPrefixes(ctx, "other")
	check(t, err)
	same(t, "another namespace's", got, []string{"0/"})
	for i := range maxReadsInAll - maxReadsOf - 1 {
		put(fmt.Sprint("team-", i), "0/", 0)
	}
	put("last", "0/", 0)
	got, err = s.ReadPrefixes(ctx, "other")
	check(t, err)
	same(t, "what was written longest ago of all", got, []string(nil))
}
