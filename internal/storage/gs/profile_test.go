package gs_test

import (
	"strings"
	"testing"

	"github.com/penstock-ml/penstock/internal/storage/gs"
)

func TestValidate(t *testing.T) {
	for name, tc := range map[string]struct {
		profile  gs.Profile
		emulator string
		want     string // of the error; "" for none
	}{
		"empty":          {},
		"emulator":       {emulator: "localhost:4443"},
		"emulator's URL": {emulator: "http://gcs.test:4443"},
		"emulator, tokens": {
			gs.Profile{Credentials: "application_default"}, "gcs.test:4443", "STORAGE_EMULATOR_HOST is http",
		},
		"tokens on this machine": {profile: gs.Profile{Endpoint: "http://127.0.0.1:4443"}},
		"tokens in the clear":    {gs.Profile{Endpoint: "http://gcs.test"}, "", "would show tokens to the network"},
		"open service":           {profile: gs.Profile{Endpoint: "http://gcs.test", Credentials: "anonymous"}},
		"kind":                   {gs.Profile{Credentials: "s3cr3t"}, "", "use application_default"},
		"no file":                {gs.Profile{Credentials: "service_account"}, "", "needs credentials_file"},
		"file":                   {profile: gs.Profile{CredentialsFile: "/key.json"}},
		"useless file": {
			gs.Profile{CredentialsFile: "/key.json", Credentials: "anonymous"}, "", "goes with credentials: service_account",
		},
		"nobody pays": {gs.Profile{Credentials: "anonymous", UserProject: "p"}, "", "nobody pays"},
		"password":    {gs.Profile{Endpoint: "https://u:s3cr3t@gcs.test"}, "", "holds credentials"},
		"path":        {gs.Profile{Endpoint: "https://gcs.test/storage/v1/"}, "", "must have no path"},
		"scheme":      {gs.Profile{Endpoint: "grpc://gcs.test"}, "", "http or https"},
		"no host":     {gs.Profile{Endpoint: "https://"}, "", "not a URL"},
		"write":       {gs.Profile{Write: []string{"gs://bucket/*/"}}, "", "list such as gs://bucket/derived/"},
		"write to S3": {gs.Profile{Write: []string{"s3://bucket/x/"}}, "", "list such as gs://bucket/derived/"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Setenv("STORAGE_EMULATOR_HOST", tc.emulator)
			err := tc.profile.Validate()
			if (err == nil) != (tc.want == "") || err != nil && !strings.Contains(err.Error(), tc.want) {
				t.Errorf("error %v, want %q", err, tc.want)
			}
			if err != nil && strings.Contains(err.Error(), "s3cr3t") {
				t.Errorf("the error shows what might be a secret: %v", err)
			}
		})
	}
}

func TestURIs(t *testing.T) {
	canonical := gs.Store().Canonical
	for uri, want := range map[string]string{
		"gs://bucket": "gs://bucket/", "gs://my_bucket.example.org/a//b": "gs://my_bucket.example.org/a//b",
		"gs://": "", "gs:///a": "", "gs://Bucket/a": "", "gs://b*t/a": "", "gs://b@t/a": "", "gs://-ab/c": "", "gs://abc/..": "",
	} {
		got, err := canonical(uri)
		if got != want || (err == nil) != (want != "") || err != nil && !strings.Contains(err.Error(), uri+": gs://") {
			t.Errorf("%s: %q, %v", uri, got, err)
		}
	}
}
