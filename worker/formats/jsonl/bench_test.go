package jsonl_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"testing"

	"github.com/penstock-ml/penstock/worker/formats/formattest"
)

// text is some 4 MB of records, with texts, numbers and lists.
func text(b *testing.B) ([]byte, int) {
	b.Helper()
	type user struct {
		Name string `json:"name"`
		Age  int    `json:"age"`
	}
	type record struct {
		ID     int       `json:"id"`
		Text   string    `json:"text"`
		Score  float64   `json:"score"`
		Safe   bool      `json:"safe"`
		IDs    []int     `json:"ids"`
		Vector []float64 `json:"vector"`
		User   user      `json:"user"`
	}
	var out bytes.Buffer
	const rows = 10_000
	for i := range rows {
		data, err := json.Marshal(record{
			ID: i * 7919, Text: "some words of a caption, about as many as most have " + fmt.Sprint(i), Score: float64(i) / 8,
			Safe: i%3 == 0, IDs: []int{i, 2 * i, 3 * i, 4 * i}, Vector: []float64{0.25, -0.5, float64(i) * 1e-3, 17.125},
			User: user{"a name", i % 90},
		})
		if err != nil {
			b.Fatal(err)
		}
		out.Write(append(data, '\n'))
	}
	return out.Bytes(), rows
}

// BenchmarkDecode compares all columns, and one of them, with encoding/json into a struct.
func BenchmarkDecode(b *testing.B) {
	data, rows := text(b)
	for name, columns := range map[string][]string{"all": nil, "one": {"score"}} {
		b.Run(name, func(b *testing.B) {
			b.SetBytes(int64(len(data)))
			formattest.DecodeFile(b, formattest.File{Name: "bench.jsonl", Data: data}, rows, columns...)
		})
	}
	b.Run("encoding/json", func(b *testing.B) {
		b.SetBytes(int64(len(data)))
		b.ReportAllocs()
		for b.Loop() {
			for line := range bytes.Lines(data) {
				var row struct {
					ID          int
					Text        string
					Score       float64
					Safe        bool
					IDs, Vector []float64
					User        struct {
						Name string
						Age  int
					}
				}
				if err := json.Unmarshal(line, &row); err != nil {
					b.Fatal(err)
				}
			}
		}
	})
}
