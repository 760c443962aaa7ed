package tar_test

import (
	stdtar "archive/tar"
	"bytes"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"

	"github.com/penstock-ml/penstock/internal/formats/format"
	"github.com/penstock-ml/penstock/worker/formats/formattest"
)

// BenchmarkTar scans and decodes samples of a picture of 24 KiB, a caption, a number and a document, and of captions
// alone, beside Go's own reader of tars, which knows of no samples.
func BenchmarkTar(b *testing.B) {
	picture, document := strings.Repeat("z", 24<<10), `{"n": 5, "meta": {"half": 2.5}, "tags": ["x", "y"]}`
	for name, parts := range map[string][]string{
		"pictures": {"cls", "12", "jpg", picture, "json", document, "txt", "a caption of some words"},
		"captions": {"txt", "a caption of some words"},
	} {
		var members []string
		samples := 8 << 20 / (len(strings.Join(parts, "")) + 512*len(parts))
		for i := range samples {
			for j := 0; j < len(parts); j += 2 {
				members = append(members, fmt.Sprintf("%08d.%s", i, parts[j]), parts[j+1])
			}
		}
		data := archive(b, members...)
		for what, read := range map[string]func(b *testing.B, data []byte){"scan": scanned, "archive": archived} {
			b.Run(name+"/"+what, func(b *testing.B) {
				b.SetBytes(int64(len(data)))
				for b.Loop() {
					read(b, data)
				}
				b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*samples), "ns/row")
			})
		}
		b.Run(name+"/decode", func(b *testing.B) {
			b.SetBytes(int64(len(data)))
			formattest.Decode(b, data, samples)
		})
	}
}

func scanned(b *testing.B, data []byte) {
	f, in := columns(b, data, nil)
	if err := f.(format.Scanned).Scan(b.Context(), in, func(format.Place) error { return nil }); err != nil {
		b.Fatal(err)
	}
}

// archived reads all members.
func archived(b *testing.B, data []byte) {
	var held bytes.Buffer
	for r := stdtar.NewReader(bytes.NewReader(data)); ; held.Reset() {
		_, err := r.Next()
		if errors.Is(err, io.EOF) {
			return
		}
		if err == nil {
			_, err = held.ReadFrom(r)
		}
		if err != nil {
			b.Fatal(err)
		}
	}
}
