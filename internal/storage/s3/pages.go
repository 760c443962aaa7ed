package s3

import (
	"context"
	"net/http"

	"github.com/penstock-ml/penstock/internal/storage/object"
)

// marksKey is where a context has the marks of the listing that it is of: minio-go keeps them to itself.
type marksKey struct{}

func withMarks(ctx context.Context) context.Context {
	return context.WithValue(ctx, marksKey{}, new(object.Marks))
}

// pages is a transport that refuses to ask for a page of a listing again.
type pages struct{ next http.RoundTripper }

// RoundTrip implements http.RoundTripper.
func (p pages) RoundTrip(req *http.Request) (*http.Response, error) {
	marks, listing := req.Context().Value(marksKey{}).(*object.Marks)
	if mark := req.URL.Query().Get("continuation-token"); listing && mark != "" {
		if err := marks.Next(mark); err != nil {
			return nil, err
		}
	}
	return p.next.RoundTrip(req)
}
