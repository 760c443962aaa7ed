package gs

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"
	"unicode/utf8"
)

// What a service answers is a file with all that reading needs, or an error; nothing of it is shown at length.
func FuzzAnswers(f *testing.F) {
	f.Add([]byte(`{"nextPageToken":"t","prefixes":["a/"],"items":[{"name":"a/b","size":"1","generation":"7"}]}`))
	f.Add([]byte(`{"error":{"code":403,"message":"m\nn","errors":[{"reason":"rateLimitExceeded"}]}}`))
	f.Add([]byte(`{"error":"invalid_grant","error_description":"d"}`))
	f.Add([]byte("No such object: bucket/x"))
	f.Fuzz(func(t *testing.T, text []byte) {
		var p page
		if json.Unmarshal(text, &p) == nil {
			for _, o := range p.Items {
				if file, err := o.file("bucket"); err == nil && (file.GetSize() < 0 || file.GetEtag() == "" ||
					!strings.HasPrefix(file.GetUri(), "gs://bucket/") || file.GetUri() == "gs://bucket/") {
					t.Errorf("%v", file)
				}
			}
		}
		r := readRefusal(403, nil, bytes.NewReader(text))
		if said := r.Error(); len(said) > maxMessage+100 || strings.Contains(said, "\n") || !utf8.ValidString(said) {
			t.Errorf("it says %q", said)
		}
		var said map[string]string
		if err := json.Unmarshal(reason(bytes.NewReader(text)), &said); err != nil || len(said) != 2 {
			t.Errorf("of tokens it says %v, %v", said, err)
		}
	})
}
