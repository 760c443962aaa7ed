package storage_test

import (
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/penstock-ml/penstock/api/pb"
	"github.com/penstock-ml/penstock/internal/storage"
	"github.com/penstock-ml/penstock/internal/storage/s3"
	"github.com/penstock-ml/penstock/internal/tables/iceberg/rest"
)

func TestLoadConfig(t *testing.T) {
	path := filepath.Join(t.TempDir(), "storage.yaml")
	if err := os.WriteFile(path, []byte(`
profiles:
  my-minio:
    endpoint: http://minio:9000
    path_style: true
    access_key_env: MINIO_KEY
    secret_key_env: MINIO_SECRET
  open: &open {credentials: anonymous, region: eu-west-1}
  also_open: *open
  near: {<<: *open, ca_file: /etc/near.pem}
  typed: {type: s3, region: eu-west-2}
  empty:
catalogs:
  my-lake: {uri: https://catalog/iceberg, warehouse: prod, storage: lab}
retry: {attempts: 3, delay: 50ms}
`), 0o600); err != nil {
		t.Fatal(err)
	}
	cfg, err := storage.LoadConfig(path, []string{
		"HOME=/root",
		"PENSTOCK_STORAGE_MY_MINIO_ENDPOINT=https://other:9000",
		"PENSTOCK_STORAGE_MY_MINIO_PATH_STYLE=false",
		"PENSTOCK_STORAGE_TYPED_TYPE=s3",
		"PENSTOCK_STORAGE_NEW_TYPE=s3",
		"PENSTOCK_STORAGE_LAB_CA_FILE=/etc/ca.pem",
		"PENSTOCK_STORAGE_LAB_REQUEST_PAYER=requester",
		"PENSTOCK_STORAGE_OPEN_REGION=",
		"PENSTOCK_STORAGE_CONFIG=/etc/storage.yaml",
		"PENSTOCK_CATALOG_MY_LAKE_TOKEN_ENV=LAKE_TOKEN",
		"PENSTOCK_CATALOG_OTHER_URI=https://other",
	})
	if err != nil {
		t.Fatal(err)
	}
	no := false
	want := storage.Config{
		Profiles: map[string]storage.Profile{
			"my_minio": &s3.Profile{
				Endpoint: "https://other:9000", PathStyle: &no, AccessKeyEnv: "MINIO_KEY",
				SecretKeyEnv: "MINIO_SECRET",
			},
			"open":      &s3.Profile{Credentials: "anonymous", Region: "eu-west-1"},
			"also_open": &s3.Profile{Credentials: "anonymous", Region: "eu-west-1"},
			"near":      &s3.Profile{Credentials: "anonymous", Region: "eu-west-1", CAFile: "/etc/near.pem"},
			"typed":     &s3.Profile{Type: "s3", Region: "eu-west-2"},
			"empty":     nil,
			"new":       &s3.Profile{},
			"lab":       &s3.Profile{CAFile: "/etc/ca.pem", RequestPayer: "requester"},
		},
		Catalogs: map[string]rest.Config{
			"my_lake": {URI: "https://catalog/iceberg", Warehouse: "prod", Storage: "lab", TokenEnv: "LAKE_TOKEN"},
			"other":   {URI: "https://other"},
		},
		Retry: storage.Retry{Attempts: 3, Delay: 50 * time.Millisecond},
	}
	if !reflect.DeepEqual(cfg, want) {
		t.Errorf("got  %+v\nwant %+v", cfg, want)
	}
}

func TestConfigMistakes(t *testing.T) {
	for name, tc := range map[string]struct {
		yaml string
		env  string
		want string
	}{
		"unknown field":   {"profiles: {a: {secret_key: s3cr3t}}", "", "secret_key"},
		"not YAML":        {"profiles: [s3cr3t", "", "storage.yaml"},
		"two of one name": {"profiles: {a-b: {}, A_B: {}}", "", "a_b"},
		"keys of two":     {"profiles: {a-b: {}}\nkeys: {a-b: {}, A_B: {}}", "", "several profiles are named a_b"},
		"bool":            {"", "PENSTOCK_STORAGE_A_PATH_STYLE=maybe", "PENSTOCK_STORAGE_A_PATH_STYLE"},
		"credentials":     {"profiles: {a: {credentials: s3cr3t}}", "", "use aws, env or anonymous"},
		"no secret":       {"profiles: {a: {access_key_env: X}}", "", "secret_key_env"},
		"both":            {"profiles: {a: {access_key_env: X, credentials: anonymous}}", "", "credentials: env"},
		"endpoint user":   {"profiles: {a: {endpoint: 'https://me:s3cr3t@host'}}", "", "access_key_env"},
		"endpoint path":   {"profiles: {a: {endpoint: 'https://host/s3cr3t'}}", "", "no path"},
		"endpoint scheme": {"profiles: {a: {endpoint: 'ftp://host'}}", "", "http or https"},
		"payer":           {"profiles: {a: {request_payer: owner}}", "", "must be requester"},
		"nobody pays": {
			"profiles: {a: {request_payer: requester, credentials: anonymous}}",
			"", "needs credentials",
		},
		"type":           {"profiles: {a: {type: s3cr3t}}", "", "profile a: type: unknown type; use s3"},
		"type of number": {"profiles: {a: {type: 3}}", "", "profile a: type: unknown type; use s3"},
		"no profile":     {"profiles: {a: {type: file}}", "", "profile a: type: unknown type; use s3"},
		"variable type":  {"", "PENSTOCK_STORAGE_A_TYPE=s3cr3t", "PENSTOCK_STORAGE_A_TYPE: unknown type; use s3"},
		"catalogue":      {"catalogs: {a: {uri: 'https://me:s3cr3t@host'}}", "", "catalog a: uri is not a URL"},
		"catalogues":     {"catalogs: {a-b: {}, A_B: {}}", "", "catalogs: several"},
		"its field":      {"catalogs: {a: {token: s3cr3t}}", "", "token"},
		"retry":          {"retry: {attempts: -1}", "", "negative"},
	} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "storage.yaml")
			if err := os.WriteFile(path, []byte(tc.yaml), 0o600); err != nil {
				t.Fatal(err)
			}
			cfg, err := storage.LoadConfig(path, []string{tc.env})
			if err == nil {
				_, err = storage.New(cfg)
			}
			if err == nil || !strings.Contains(err.Error(), tc.want) {
				t.Fatalf("error %v, want one with %q", err, tc.want)
			}
			if strings.Contains(err.Error(), "s3cr3t") {
				t.Errorf("the error shows what might be a secret: %v", err)
			}
		})
	}
}

func TestURIMistakes(t *testing.T) {
	s := newStore(t)
	for uri, want := range map[string]string{
		"":              "empty",
		"ftp://b/x":     "unknown scheme; use file://, s3://",
		"s3a://b/x":     "unknown scheme; write s3://",
		"abfs://c@a/x":  "scheme abfs cannot be taken: unknown scheme; write abfss://container@account",
		"file://data/x": "absolute path",
		"s3://":         "bucket",
		"s3://b*/x":     "bucket",
		"s3://my_/*/x":  "bucket",
	} {
		if _, err := s.List(t.Context(), "", []string{uri}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: error %v, want one with %q", uri, err, want)
		}
	}
	if _, err := s.List(t.Context(), "", nil); err == nil {
		t.Error("no URIs: no error")
	}
}

func TestPlainPathsAndLinks(t *testing.T) {
	dir := t.TempDir()
	put(t, dir, "real/a.parquet", []byte("a"))
	for link, to := range map[string]string{
		"real/up": "..", "link": "real", "real/b.parquet": "a.parquet",
		"real/c.parquet": "nowhere",
	} {
		if err := os.Symlink(to, filepath.Join(dir, link)); err != nil {
			t.Fatal(err)
		}
	}
	t.Chdir(dir)
	files, err := newStore(t).List(t.Context(), "", []string{"./link//", filepath.Join(dir, "link", "a.parquet")})
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, f := range files {
		got = append(got, strings.TrimPrefix(f.Uri, "file://"+dir+"/"))
	}
	if want := []string{"link/a.parquet", "link/b.parquet"}; !slices.Equal(got, want) {
		t.Errorf("listed %v, want %v", got, want)
	}
}

// TestFilesOfSeveralFormats: they are read if they are named, but a directory that has some may have the same rows
// twice.
func TestFilesOfSeveralFormats(t *testing.T) {
	dir := t.TempDir()
	for _, name := range []string{"a.parquet", "sub/b.PQ", "sub/c.arrow"} {
		put(t, dir, name, []byte(name))
	}
	s := newStore(t)
	for _, uri := range []string{dir, dir + "/", dir + "/**/"} {
		_, err := s.List(t.Context(), "", []string{uri})
		if err == nil || !strings.Contains(err.Error(), "2 of Parquet, such as file://"+dir+"/a.parquet, and 1 of "+
			"Arrow, such as file://"+dir+"/sub/c.arrow: to read Parquet alone, write dataset.format: parquet (in "+
			"Python file_format=\"parquet\"), or name the files as file://"+strings.TrimSuffix(uri, "/")+"/**/*.parquet") {
			t.Errorf("%s: %v, want an error that says which to name", uri, err)
		}
		files, _, err := s.Tell(t.Context(), &pb.Dataset{Uri: []string{uri}, Format: &pb.Format{Name: "parquet"}})
		if err != nil || len(files) != 2 {
			t.Errorf("%s as Parquet: %v, %v", uri, files, err)
		}
	}
	for uri, want := range map[string]int{dir + "/**/*.arrow": 1, dir + "/**/*": 3, dir + "/**/*.p*": 1} {
		files, err := s.List(t.Context(), "", []string{uri})
		if err != nil || len(files) != want {
			t.Errorf("%s: %d files, %v; want %d", uri, len(files), err, want)
		}
	}
}
