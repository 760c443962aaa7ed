package reference

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"go.uber.org/goleak"
	"pgregory.net/rapid"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// someExpected has two files of which some rows pass the filter.
func someExpected() *Expected {
	return &Expected{files: []expectedFile{
		{uri: "file:///a", rows: []int64{0, 1, 5, 9}, hashes: []uint64{10, 11, 15, 19}},
		{uri: "file:///b"},
		{uri: "file:///c", rows: []int64{0, 2}, hashes: []uint64{20, 22}},
	}}
}

func writeLedger(t testing.TB, records []Record) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "ledger")
	l, err := CreateLedger(path)
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range records {
		if err := l.Add(r.File, r.Row, r.Hash); err != nil {
			t.Fatal(err)
		}
	}
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestCompare(t *testing.T) {
	all := slices.Collect(someExpected().All())
	with := func(change func(r []Record) []Record) []Record { return change(slices.Clone(all)) }
	for name, tt := range map[string]struct {
		delivered                             []Record
		missing, doubled, altered, unexpected int64
		example                               string
	}{
		"exactly":  {delivered: all},
		"backward": {delivered: with(func(r []Record) []Record { slices.Reverse(r); return r })},
		"nothing":  {missing: 6, example: "missing: file:///a row 0"},
		"one dropped": {
			delivered: with(func(r []Record) []Record { return slices.Delete(r, 2, 3) }),
			missing:   1, example: "missing: file:///a row 5",
		},
		"one doubled": {
			delivered: with(func(r []Record) []Record { return append(r, r[4]) }),
			doubled:   1, example: "doubled: file:///c row 0",
		},
		"one altered": {
			delivered: with(func(r []Record) []Record { r[3].Hash++; return r }),
			altered:   1, example: "altered: file:///a row 9",
		},
		"one that the filter leaves out": {
			delivered:  with(func(r []Record) []Record { return append(r, Record{0, 2, 12}) }),
			unexpected: 1, example: "unexpected: file:///a row 2",
		},
		"one of a file that passes no row": {
			delivered:  with(func(r []Record) []Record { return append(r, Record{1, 0, 0}) }),
			unexpected: 1, example: "unexpected: file:///b row 0",
		},
		"one of no file": {
			delivered:  with(func(r []Record) []Record { return append(r, Record{3, 0, 0}) }),
			unexpected: 1, example: "unexpected: file number 3 (of 3) row 0",
		},
		"one instead of another": {
			delivered: with(func(r []Record) []Record { r[0] = r[1]; return r }),
			missing:   1, doubled: 1, example: "doubled: file:///a row 1",
		},
		"two exchanged hashes": {
			delivered: with(func(r []Record) []Record { r[0].Hash, r[1].Hash = r[1].Hash, r[0].Hash; return r }),
			altered:   2, example: "altered: file:///a row 0",
		},
	} {
		half := len(tt.delivered) / 2
		rep, err := Compare(someExpected(), writeLedger(t, tt.delivered[:half]), writeLedger(t, tt.delivered[half:]))
		if err != nil {
			t.Fatal(err)
		}
		if rep.Missing != tt.missing || rep.Doubled != tt.doubled || rep.Altered != tt.altered ||
			rep.Unexpected != tt.unexpected {
			t.Errorf("%s: %v", name, rep)
		}
		if rep.Expected != 6 || rep.Delivered != int64(len(tt.delivered)) {
			t.Errorf("%s: counts %d and %d", name, rep.Expected, rep.Delivered)
		}
		good := tt.missing+tt.doubled+tt.altered+tt.unexpected == 0
		if rep.OK() != good || (rep.ChecksumExpected == rep.ChecksumDelivered) != good {
			t.Errorf("%s: OK is %v: %v", name, rep.OK(), rep)
		}
		if !good && (len(rep.Examples) == 0 || rep.Examples[0] != tt.example ||
			!strings.Contains(rep.String(), tt.example)) {
			t.Errorf("%s: examples %q; want %q first", name, rep.Examples, tt.example)
		}
	}
}

// Whatever is delivered, the report is OK exactly if it is a permutation of what was expected.
func TestCompareAnything(t *testing.T) {
	all := slices.Collect(someExpected().All())
	rapid.Check(t, func(t *rapid.T) {
		delivered := slices.Clone(all)
		for range rapid.IntRange(0, 3).Draw(t, "faults") {
			i := rapid.IntRange(0, len(delivered)-1).Draw(t, "at")
			switch rapid.IntRange(0, 2).Draw(t, "fault") {
			case 0:
				delivered = slices.Delete(delivered, i, i+1)
			case 1:
				delivered = append(delivered, delivered[i])
			case 2:
				delivered[i].Hash ^= 1
			}
		}
		c := newComparison(someExpected())
		for _, r := range rapid.Permutation(delivered).Draw(t, "order") {
			c.delivered(r)
		}
		rep := c.finish()
		same := sorted(delivered)
		if want := slices.Equal(same, sorted(all)); rep.OK() != want {
			t.Fatalf("OK is %v; want %v: %v", rep.OK(), want, rep)
		}
	})
}

func sorted(r []Record) []Record {
	r = slices.Clone(r)
	slices.SortFunc(r, func(a, b Record) int {
		for _, d := range []int64{int64(a.File) - int64(b.File), a.Row - b.Row, int64(a.Hash) - int64(b.Hash)} {
			if d != 0 {
				return int(d)
			}
		}
		return 0
	})
	return r
}

func TestLedgerRoundTrip(t *testing.T) {
	var want []Record
	for i := range 10_000 {
		want = append(want, Record{int32(i % 7), int64(i) << 33, avalanche(uint64(i))})
	}
	var got []Record
	if err := ReadLedger(writeLedger(t, want), func(r Record) { got = append(got, r) }); err != nil {
		t.Fatal(err)
	}
	if !slices.Equal(got, want) {
		t.Error("other records came back")
	}
}

func TestLedgerDamage(t *testing.T) {
	whole, err := os.ReadFile(writeLedger(t, slices.Collect(someExpected().All())))
	if err != nil {
		t.Fatal(err)
	}
	read := func(b []byte) error {
		path := filepath.Join(t.TempDir(), "ledger")
		if err := os.WriteFile(path, b, 0o600); err != nil {
			t.Fatal(err)
		}
		_, err := Compare(someExpected(), path)
		return err
	}
	if err := read(whole); err != nil {
		t.Fatal(err)
	}
	for n := range whole {
		if err := read(whole[:n]); !errors.Is(err, ErrLedger) {
			t.Errorf("cut off at %d of %d bytes: %v", n, len(whole), err)
		}
		damaged := slices.Clone(whole)
		damaged[n] ^= 4
		if err := read(damaged); !errors.Is(err, ErrLedger) {
			t.Errorf("byte %d changed: %v", n, err)
		}
	}
	if err := read(append(slices.Clone(whole), 0)); !errors.Is(err, ErrLedger) {
		t.Errorf("bytes after the trailer: %v", err)
	}
}

func FuzzReadLedger(f *testing.F) {
	whole, err := os.ReadFile(writeLedger(f, []Record{{1, 2, 3}}))
	if err != nil {
		f.Fatal(err)
	}
	f.Add(whole)
	f.Add([]byte(ledgerMagic))
	f.Add([]byte{})
	f.Fuzz(func(t *testing.T, b []byte) {
		n := 0
		err := readLedger(strings.NewReader(string(b)), func(Record) { n++ })
		if err == nil && len(b) != len(ledgerMagic)+(n+1)*recordSize {
			t.Errorf("%d bytes gave %d records", len(b), n)
		}
	})
}
