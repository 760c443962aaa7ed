package s3

import (
	"bytes"
	"context"
	"encoding/xml"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/minio/minio-go/v7"

	"github.com/penstock-ml/penstock/internal/storage/object"
)

// An answer may be cut anywhere.
func TestCutListing(t *testing.T) {
	const listing = `<?xml version="1.0" encoding="UTF-8"?>
<ListBucketResult xmlns="http://s3.amazonaws.com/doc/2006-03-01/"><Name>b</Name><!-- c --><KeyCount>1</KeyCount><IsTruncated>false</IsTruncated>` +
		`<Contents><Key>a&amp;b</Key><LastModified>2006-01-02T15:04:05.000Z</LastModified><ETag><![CDATA["e"]]></ETag><Size>12</Size></Contents></ListBucketResult>`
	for n := range listing {
		var into minio.ListBucketV2Result
		err := xml.NewDecoder(bytes.NewReader([]byte(listing[:n]))).Decode(&into)
		if err = classifyNetwork(err); !object.IsTransient(err) {
			t.Errorf("cut at %d, after %q: %v", n, listing[max(0, n-10):n], err)
		}
	}
}

// A bucket's region is learned from the service that refuses another, or named where it is configured.
func TestRegion(t *testing.T) {
	for name, tc := range map[string]struct {
		configured, header string
		status             int
		code               string
		want               string // of the error; "" for none at the second attempt
	}{
		"learned": {"", "", http.StatusBadRequest, "AuthorizationHeaderMalformed", ""},
		"configured": {
			"us-west-2", "", http.StatusBadRequest, "AuthorizationHeaderMalformed",
			"set the storage profile's region to eu-west-1",
		},
		"moved": {
			"us-west-2", "eu-west-1", http.StatusMovedPermanently, "",
			"set the storage profile's region to eu-west-1",
		},
		"somewhere": {
			"us-west-2", "", http.StatusTemporaryRedirect, "TemporaryRedirect",
			"set the storage profile's region:",
		},
	} {
		t.Run(name, func(t *testing.T) {
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				switch {
				case r.URL.Query().Has("location"):
					w.WriteHeader(http.StatusForbidden)
					fmt.Fprint(w, "<Error><Code>AccessDenied</Code></Error>")
				case strings.Contains(r.Header.Get("Authorization"), "/eu-west-1/"):
					w.Header().Set("ETag", `"e"`)
					w.Header().Set("Last-Modified", "Mon, 02 Jan 2006 15:04:05 GMT")
				default:
					if tc.header != "" {
						w.Header().Set("X-Amz-Bucket-Region", tc.header)
					}
					w.WriteHeader(tc.status)
					if tc.code == "AuthorizationHeaderMalformed" {
						fmt.Fprintf(w, "<Error><Code>%s</Code><Region>eu-west-1</Region></Error>", tc.code)
					} else if tc.code != "" {
						fmt.Fprintf(w, "<Error><Code>%s</Code></Error>", tc.code)
					}
				}
			}))
			defer server.Close()
			for _, name := range []string{
				"AWS_ENDPOINT_URL", "AWS_ENDPOINT_URL_S3", "AWS_REGION",
				"AWS_DEFAULT_REGION",
			} {
				t.Setenv(name, "")
			}
			t.Setenv("KEY", "k")
			c, err := New(&Profile{Region: tc.configured, AccessKeyEnv: "KEY", SecretKeyEnv: "KEY"})
			if err != nil {
				t.Fatal(err)
			}
			defer c.Close()
			c.transport.DialTLSContext = func(ctx context.Context, _, _ string) (net.Conn, error) { // instead of AWS
				return new(net.Dialer).DialContext(ctx, "tcp", server.Listener.Addr().String())
			}
			_, err = c.Stat(t.Context(), "s3://bucket/x")
			if tc.want != "" {
				if err == nil || !strings.Contains(err.Error(), tc.want) || object.IsTransient(err) {
					t.Errorf("error %v, transient: %v; want one for good with %q", err, object.IsTransient(err),
						tc.want)
				}
				return
			}
			if !object.IsTransient(err) {
				t.Fatalf("error %v, want a transient one", err)
			}
			if _, err := c.Stat(t.Context(), "s3://bucket/x"); err != nil {
				t.Errorf("the region was not learned: %v", err)
			}
		})
	}
}
