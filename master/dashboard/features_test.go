package dashboard_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/chromedp"

	"github.com/penstock-ml/penstock/api/pb"
	"github.com/penstock-ml/penstock/master/dashboard"
)

// reads are what was read of two datasets: of the first one feature 0 most, and columns c0 to c9 never.
func reads(n int) []*pb.DatasetReads {
	now := time.Now().Add(-5 * time.Minute).UnixMilli()
	one := &pb.DatasetReads{
		Prefix: "s3://bucket/clicks/", SinceUnixMs: now, ReadUnixMs: now, Sessions: 3, Rows: 5000, Bytes: 1 << 20,
		Columns: &pb.FileColumns{Files: 1, Extents: 1},
	}
	set := &pb.FeatureSet{Sessions: 3, Rows: 5000, Bytes: 1 << 20, ReadUnixMs: now}
	for i := range n {
		one.Features = append(one.Features, &pb.FeatureReads{
			Name: fmt.Sprint("f", i), Sessions: 3, Rows: int64(5000 - i), Bytes: int64(1000 * (n - i)), ReadUnixMs: now,
		})
		if set.Features = append(set.Features, make([]byte, i/8+1-len(set.GetFeatures()))...); i < 10 {
			set.Features[i/8] |= 1 << (i % 8)
		}
		one.Columns.Columns = append(one.Columns.Columns, &pb.FileColumn{Name: fmt.Sprint("f", i), Bytes: 1 << 10})
	}
	for i := range 10 {
		one.Columns.Columns = append(one.Columns.Columns,
			&pb.FileColumn{Name: fmt.Sprint("c", i), Bytes: int64(i << 10), Unsupported: "a list of lists"})
	}
	one.Columns.Columns[len(one.Columns.Columns)-1].Name = "c\x1b[0m\n9" // which must be seen
	one.Sets = []*pb.FeatureSet{set}
	return []*pb.DatasetReads{one, {Prefix: "s3://bucket/other/", Sessions: 1, SinceUnixMs: now, ReadUnixMs: now}}
}

func TestFeaturesAPI(t *testing.T) {
	srv := serve(t, dashboard.Config{Source: &source{read: reads(20)}})
	for path, want := range map[string]string{
		"":                         `"prefix":"s3://bucket/other/","directories":0`,
		"?uri=s3://bucket/clicks/": `"sets":[{"features":[0,1,2,3,4,5,6,7,8,9],"sessions":3`,
		"?uri=s3://bucket/none/":   `"error":"nothing of s3://bucket/none/ was read`,
	} {
		resp, body := get(t, srv.URL+"/api/v1/features"+path) //nolint:bodyclose // get closes it
		if !strings.Contains(body, want) || strings.Contains(path, "none") != (resp.StatusCode == 404) {
			t.Errorf("features%s: %d, %s\nlacks %s", path, resp.StatusCode, body, want)
		}
	}
}

func TestFeaturesPage(t *testing.T) {
	for name, v := range map[string]view{"features-wide": wide, "features-narrow-dark": {390, 844, true}} {
		t.Run(name, func(t *testing.T) {
			srv := serve(t, dashboard.Config{Source: &source{read: reads(20)}})
			p := visit(t, srv.URL+"/features.html", v)
			p.is(`document.querySelectorAll("#table-datasets tbody tr").length`, "2")
			p.accessible()
			p.run(chromedp.Click(`#table-datasets tbody a[href*="clicks"]`))
			p.until(`!document.querySelector(".one").hidden`)
			p.picture(name)
			p.is(`document.querySelectorAll("#table-features tbody tr").length`, "15")
			p.is(`document.querySelector("#table-features tbody tr").innerText.replace(/\s+/g, " ").trim()`,
				"f0 3 5.00 k 19.5 KiB 5 min ago")
			p.is(`document.querySelector("#table-together tbody th").textContent`,
				"f0, f1, f2, f3, f4, f5, f6, f7 and 2 more")
			p.is(`document.querySelectorAll("#table-never tbody tr").length`, "10")
			p.is(`document.querySelector("#table-never tbody th").textContent`, `"c\u{1b}[0m\u{a}9"`)
			p.is(`document.getElementById("summary").textContent.includes("20 of 30 columns")`, "true")
			p.is(`document.documentElement.scrollWidth <= innerWidth`, "true")
			p.accessible()
			p.run(chromedp.Evaluate(`location.hash = "#uri=s3://bucket/none/"`, nil))
			p.until(`document.getElementById("summary").textContent.startsWith("nothing of s3://bucket/none/")`)
			p.is(`document.getElementById("all").getAttribute("href")`, "#")
		})
	}
}
