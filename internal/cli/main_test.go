package cli

import (
	"strings"
	"testing"
)

// TestWithoutSecrets: URIs that give access are not repeated, wherever an error has them; others are.
func TestWithoutSecrets(t *testing.T) {
	for arg, want := range map[string]string{
		"https://h.example/x.parquet?X-Amz-Signature=s3cr3t":          "it may be signed",
		"s3://me:s3cr3t@bucket/x/":                                    "holds credentials",
		"--out=delta+s3://me:s3cr3t@bucket/x/":                        "",
		"iceberg+https://h.example/x?a=1&sig=s3cr3t":                  "it may be signed",
		"abfss://data@account.dfs.core.windows.net/x?sv=1&sig=s3cr3t": "it may be signed",
	} {
		uri := strings.TrimPrefix(arg, "--out=")
		got := withoutSecrets("open "+uri+": no such file; see `penstock show "+uri+"`", []string{"plan", arg})
		if !strings.HasPrefix(got, "open URI: no such file; see `penstock show URI`; ") || !strings.Contains(got, want) ||
			strings.Contains(got, "s3cr3t") {
			t.Errorf("%s: %s", arg, got)
		}
	}
	for _, arg := range []string{"s3://bucket/x?y", "abfss://data@account.dfs.core.windows.net/x", "what?sig=a", ""} {
		if got := withoutSecrets("open "+arg+".", []string{arg}); got != "open "+arg+"." {
			t.Errorf("%q: %s", arg, got)
		}
	}
}
