package fit_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log"

	"github.com/penstock-ml/penstock/api/pb"
	"github.com/penstock-ml/penstock/client/fit"
	"github.com/penstock-ml/penstock/internal/fitted"
)

func Example() {
	columns := []fit.Column{
		{Name: "price", Kind: pb.Kind_FLOAT32, Statistics: []fitted.Statistic{
			{Name: fitted.Moments}, {Name: fitted.Quantiles, Shares: []float64{0.5}},
		}},
		{Name: "item", Kind: pb.Kind_INT64, Statistics: []fitted.Statistic{{Name: fitted.Vocabulary, MinCount: 2}}},
	}
	f, err := fit.Open(columns, fit.Options{}) // with a Folder a fit that was stopped goes on
	if err != nil {
		log.Fatal(err)
	}
	if err := f.Add([][]fit.Values{
		{{Float32s: []float32{1, 2, 6}, Nulls: 1}},
		{{Int64s: []int64{7, 5, 7, 9, 5, 7}}},
	}, nil); err != nil {
		log.Fatal(err)
	}
	var out bytes.Buffer
	w, err := fitted.NewWriter(&out, fitted.Info{Spec: "…", Dataset: "…"})
	if err != nil {
		log.Fatal(err)
	}
	if err := errors.Join(f.Write(context.Background(), w), w.Close(), f.Close()); err != nil {
		log.Fatal(err)
	}

	file, err := fitted.OpenBytes("stats.parquet", out.Bytes())
	if err != nil {
		log.Fatal(err)
	}
	for i := range file.Entries {
		rows, err := file.Rows(context.Background(), &file.Entries[i], 100)
		if err != nil {
			log.Fatal(err)
		}
		fmt.Println(file.Entries[i].Identity)
		for _, r := range rows {
			fmt.Println(" ", r.Name, r.ID, r.Value, r.Count)
		}
	}
	// Output:
	// moments("price")
	//   values -1 none 3
	//   nulls -1 none 1
	//   nans -1 none 0
	//   infinite -1 none 0
	//   mean -1 3 -1
	//   std -1 2.160246899469287 -1
	//   min -1 1 -1
	//   max -1 6 -1
	// quantiles("price", 0.5)
	//   0.5 -1 2 -1
	// vocabulary("item", min_count 2)
	//    0 7 3
	//    1 5 2
}
