package az_test

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/penstock-ml/penstock/api/pb"
	"github.com/penstock-ml/penstock/internal/storage"
	"github.com/penstock-ml/penstock/internal/storage/az"
	"github.com/penstock-ml/penstock/internal/storage/storagetest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestAzurite(t *testing.T) {
	a := storagetest.StartAzurite(t)
	t.Setenv("KEY", a.Key)
	made := 0
	storagetest.Run(t, func(t *testing.T) storagetest.Fixture {
		made++
		name := fmt.Sprintf("container-%d", made)
		a.MakeContainer(t, name, false)
		base := "abfss://" + name + "@" + a.Account + ".dfs.core.windows.net/some/place"
		return storagetest.Fixture{
			Storage: storagetest.New(t, storage.Config{Profiles: map[string]storage.Profile{"default": &az.Profile{
				Account: a.Account, Endpoint: a.Endpoint, AccountKeyEnv: "KEY", Write: []string{base},
			}}}),
			Base:   base,
			Put:    func(t *testing.T, n string, content []byte) { a.Put(t, name, "some/place/"+n, content, nil) },
			Remove: func(t *testing.T, n string) { a.Remove(t, name, "some/place/"+n) },
		}
	})
	t.Run("Credentials", func(t *testing.T) { testCredentials(t, a) })
	t.Run("Folders", func(t *testing.T) { testFolders(t, a) })
	t.Run("Uploads", func(t *testing.T) { testUploads(t, a) })
}

func testCredentials(t *testing.T, a *storagetest.Azurite) {
	a.MakeContainer(t, "closed", false)
	a.MakeContainer(t, "open", true)
	for _, container := range []string{"closed", "open"} {
		a.Put(t, container, "x.parquet", []byte("x"), nil)
	}
	for name, value := range map[string]string{
		"WRONG_KEY": "bm90IHRoZSBrZXk=", "NO_KEY": "not-base64!", "SAS": a.SAS("rl", time.Now().Add(time.Hour)),
		"OVER": a.SAS("rl", time.Now().Add(-time.Hour)), "WRITES": a.SAS("w", time.Now().Add(time.Hour)),
		"FORGED": strings.Replace(a.SAS("rl", time.Now().Add(time.Hour)), "sig=", "sig=AAAA", 1),
		"URL":    "https://a.blob.core.windows.net/?sv=1&sig=2",
	} {
		t.Setenv(name, value)
	}
	for name, tc := range map[string]struct {
		profile   az.Profile
		container string
		want      string // of the error; "" for none
	}{
		"sas":          {az.Profile{SASEnv: "SAS"}, "closed", ""},
		"anonymous":    {az.Profile{Credentials: az.Anonymous}, "open", ""},
		"nobody":       {az.Profile{Credentials: az.Anonymous}, "closed", "x.parquet"},
		"wrong key":    {az.Profile{AccountKeyEnv: "WRONG_KEY"}, "closed", "check the account key in WRONG_KEY"},
		"no key":       {az.Profile{AccountKeyEnv: "NO_KEY"}, "closed", "NO_KEY holds no account key"},
		"unset":        {az.Profile{AccountKeyEnv: "UNSET"}, "closed", "that the profile's account_key_env names is not set"},
		"over":         {az.Profile{SASEnv: "OVER"}, "closed", "the shared access signature in OVER ended at"},
		"writes":       {az.Profile{SASEnv: "WRITES"}, "closed", "access denied"},
		"forged":       {az.Profile{SASEnv: "FORGED"}, "closed", "FORGED is not one of this container"},
		"URL":          {az.Profile{SASEnv: "URL"}, "closed", "without the URL before it"},
		"no container": {az.Profile{SASEnv: "SAS"}, "none", "no container none in account account1"},
	} {
		t.Run(name, func(t *testing.T) {
			p := tc.profile
			p.Endpoint = a.Endpoint
			if p.Account == "" {
				p.Account = a.Account
			}
			s := storagetest.New(t, storage.Config{Profiles: map[string]storage.Profile{"default": &p}})
			_, err := s.List(t.Context(), "", []string{"az://" + tc.container + "/x.parquet"})
			if tc.container == "none" {
				_, err = s.List(t.Context(), "", []string{"az://none/x/"})
			}
			switch {
			case tc.want == "" && err != nil:
				t.Error(err)
			case tc.want != "" && (err == nil || !strings.Contains(err.Error(), tc.want)):
				t.Errorf("error %v, want one with %q", err, tc.want)
			}
			for _, name := range []string{"WRONG_KEY", "NO_KEY", "SAS", "OVER", "WRITES", "FORGED", "URL"} {
				if err != nil && strings.Contains(err.Error(), os.Getenv(name)) {
					t.Errorf("the error holds the secret: %v", err)
				}
			}
		})
	}
}

// testFolders: entries that Hadoop's and Spark's writers make for directories are no files.
func testFolders(t *testing.T, a *storagetest.Azurite) {
	a.MakeContainer(t, "hadoop", false)
	for _, dir := range []string{"data", "data/day=1"} {
		a.Put(t, "hadoop", dir, nil, map[string]string{"X-Ms-Meta-hdi_isfolder": "true"})
	}
	a.Put(t, "hadoop", "data/day=1/x.parquet", []byte("x"), nil)
	s := storagetest.New(t, storage.Config{Profiles: map[string]storage.Profile{
		"default": &az.Profile{Account: a.Account, Endpoint: a.Endpoint, AccountKeyEnv: "KEY"},
	}})
	for _, uri := range []string{"data", "data/", "data/*/", "data/day=1"} {
		files, left, err := storage.Tell(t.Context(), s, &pb.Dataset{Uri: []string{"az://hadoop/" + uri}})
		if err != nil || len(files) != 1 || fmt.Sprint(left) != fmt.Sprint(storage.LeftOut{}) {
			t.Errorf("%s: %v, left out %v, %v", uri, files, left, err)
		}
	}
}

// testUploads: of two uploads of a name one becomes the file, and the other says why it does not.
func testUploads(t *testing.T, a *storagetest.Azurite) {
	a.MakeContainer(t, "uploads", false)
	c, err := az.New(&az.Profile{Account: a.Account, Endpoint: a.Endpoint, AccountKeyEnv: "KEY"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	for _, bodies := range [][2]string{{"first", "second"}, {"", "second"}, {"first", ""}, {"", ""}} {
		uri := fmt.Sprintf("az://uploads/%q-%q", bodies[0], bodies[1])
		var uploads, tags [2]string
		for i, body := range bodies {
			if uploads[i], err = c.Begin(t.Context(), uri); err == nil {
				tags[i], err = c.Part(t.Context(), uri, uploads[i], 1, []byte(body))
			}
			if err != nil {
				t.Fatal(err)
			}
		}
		finish := func(i int) error { return c.Finish(t.Context(), uri, uploads[i], tags[i:i+1]) }
		if err := finish(0); err != nil {
			t.Errorf("%s: %v", uri, err)
		}
		if err := finish(0); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("%s: finished again: %v", uri, err)
		}
		if err := finish(1); !errors.Is(err, fs.ErrExist) {
			t.Errorf("%s: the other upload: %v", uri, err)
		}
		if f, err := c.Stat(t.Context(), uri); err != nil || f.GetSize() != int64(len(bodies[0])) {
			t.Errorf("%s: %v, %v", uri, f, err)
		}
	}
}
