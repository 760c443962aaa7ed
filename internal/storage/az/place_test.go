package az

import (
	"bytes"
	"errors"
	"io"
	"net/url"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/penstock-ml/penstock/api/pb"
	"github.com/penstock-ml/penstock/internal/storage/object"
)

// Whatever a blob's name is, the service is asked for it, and for nothing else.
func TestURLs(t *testing.T) {
	c, err := New(&Profile{Account: "account1", Credentials: Anonymous})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	rapid.Check(t, func(t *rapid.T) {
		name := rapid.String().Draw(t, "name")
		for _, root := range []string{"az://container/", "abfss://container@account1.dfs.core.windows.net/"} {
			where, err := c.locate(root + name)
			if err != nil {
				continue // it says why
			}
			asked, err := url.Parse(where.url(url.Values{"comp": {"block"}}).String())
			if err != nil || asked.Path != "/container/"+name && name != "" || asked.RawQuery != "comp=block" ||
				asked.Host != "account1.blob.core.windows.net" || asked.Scheme != "https" || asked.Fragment != "" {
				t.Fatalf("%q: %v, %v", root+name, asked, err)
			}
		}
	})
}

func TestPlaces(t *testing.T) {
	for uri, want := range map[string]string{
		"az://container":                                 "az://container/",
		"az://container/a?b/[c].*":                       "az://container/a?b/[c].*",
		"abfss://c-1@account1.dfs.core.windows.net/x":    "abfss://c-1@account1.dfs.core.windows.net/x",
		"abfss://c-1@account1.dfs.core.chinacloudapi.cn": "abfss://c-1@account1.dfs.core.chinacloudapi.cn/",
		"az://":              "its container is none",
		"az://Container/x":   "its container is none",
		"az://a--b/x":        "its container is none",
		"az://c*/x":          "its container is none",
		"abfss://container/": "as in abfss://container@account.dfs",
		"abfss://container@account1.dfs.example.org/":             "as in abfss://container@account.dfs",
		"abfss://container@account1.dfs.core.windows.net.evil/":   "as in abfss://container@account.dfs",
		"abfss://container@evil.org:1.dfs.core.windows.net/":      "as in abfss://container@account.dfs",
		"abfss://user:secret@account1.dfs.core.windows.net/":      "holds credentials",
		"abfss://user:secret@c@account1.dfs.core.windows.net/":    "holds credentials",
		"abfss://c-1@account1.dfs.core.windows.net/x?sp=r&sig=se": "holds a shared access signature",
		"az://container/x.parquet?sv=1&sig=secret":                "holds a shared access signature",
	} {
		got, err := canonical(uri)
		if err != nil {
			got = err.Error()
		}
		if strings.HasPrefix(want, "holds ") && !errors.Is(err, object.ErrSecret) {
			t.Errorf("%s: %v is no ErrSecret: commands would repeat the URI", uri, err)
		}
		if !strings.Contains(got, want) || strings.Contains(got, "secret") || strings.Contains(got, "sig=se") {
			t.Errorf("%s: %s, want %s", uri, got, want)
		}
	}
}

// A key or a signature is one of an account's, and no other account's URIs go with it; an identity's token goes to any.
func TestAccounts(t *testing.T) {
	t.Setenv("KEY", "a2V5")
	t.Setenv("SAS", "sig=x")
	const other = "abfss://container@other.dfs.core.windows.net/x"
	for _, tc := range []struct {
		profile   Profile
		variable  string // AZURE_STORAGE_ACCOUNT
		uri, want string
	}{
		{Profile{Account: "mine1"}, "", "az://container/x", "mine1.blob.core.windows.net"},
		{Profile{}, "mine1", "az://container/x", "mine1.blob.core.windows.net"},
		{Profile{}, "", "az://container/x", "no account is named"},
		{Profile{}, "mine1", other, "other.blob.core.windows.net"},
		{Profile{Account: "mine1"}, "", other, "name a profile of that account"},
		{Profile{AccountKeyEnv: "KEY"}, "mine1", other, "name a profile of that account"},
		{Profile{SASEnv: "SAS"}, "mine1", other, "name a profile of that account"},
		{Profile{Account: "mine1"}, "", "az://container/a/../x", "level .."},
		{Profile{Account: "mine1"}, "", `az://container/a\..\..\other\x`, "level .."},
		{Profile{Account: "mine1", Endpoint: "https://proxy/mine1/"}, "", "az://container/x", "https://proxy/mine1/container/x"},
	} {
		t.Setenv("AZURE_STORAGE_ACCOUNT", tc.variable)
		c, err := New(&tc.profile)
		if err != nil {
			t.Fatal(err)
		}
		where, err := c.locate(tc.uri)
		got := ""
		if err != nil {
			got = err.Error()
		} else {
			got = where.url(nil).String()
		}
		c.Close()
		if !strings.Contains(got, tc.want) {
			t.Errorf("%+v, %s: %s, want %s", tc.profile, tc.uri, got, tc.want)
		}
	}
}

func TestProfileMistakes(t *testing.T) {
	t.Setenv("AZURE_STORAGE_ACCOUNT", "")
	for want, p := range map[string]Profile{
		"unknown kind of credentials":            {Credentials: "aws"},
		"credentials: key needs account_key_env": {Account: "a11", Credentials: FromKey},
		"credentials: sas needs sas_env":         {Account: "a11", Credentials: FromSAS},
		"sas_env goes with credentials: sas":     {Account: "a11", Credentials: Anonymous, SASEnv: "X"},
		"client_id goes with":                    {ClientID: "x"},
		"the account is not named":               {AccountKeyEnv: "X"},
		"3 to 24 lower-case letters":             {Account: "https://x"},
		"write: it lists what is no folder":      {Write: []string{"s3://bucket/x/"}},
		"the endpoint is not a URL":              {Account: "a11", Endpoint: "azurite:10000"},
		"the endpoint holds credentials":         {Account: "a11", Endpoint: "https://a.example/?sig=secret"},
		"others could read what credentials: sas": {
			Account: "a11", SASEnv: "X", Endpoint: "http://azurite:10000/a11",
		},
		"others could read what credentials: default": {Account: "a11", Endpoint: "http://azurite:10000/a11"},
	} {
		if err := p.Validate(); err == nil || !strings.Contains(err.Error(), want) ||
			strings.Contains(err.Error(), "secret") {
			t.Errorf("%+v: error %v, want %q", p, err, want)
		}
	}
}

// A page without end is read up to a bound.
func TestEndlessPage(t *testing.T) {
	from := io.MultiReader(strings.NewReader("<EnumerationResults><Blobs><Blob><Name>"), endless{})
	_, err := readPage(from, 1<<20)
	if err == nil || !strings.Contains(err.Error(), "more than 1 MiB") || object.IsTransient(err) {
		t.Errorf("error %v", err)
	}
}

type endless struct{}

func (endless) Read(p []byte) (int, error) {
	for i := range p {
		p[i] = 'x'
	}
	return len(p), nil
}

func FuzzURIs(f *testing.F) {
	for _, uri := range []string{
		"az://container/a", "abfss://c-1@account1.dfs.core.windows.net/x", "az://c?x=1&sig=s", "abfss://a:b@c/",
	} {
		f.Add(uri)
	}
	f.Fuzz(func(t *testing.T, uri string) {
		got, err := canonical(uri)
		if err != nil {
			return
		}
		if again, err := canonical(got); err != nil || again != got {
			t.Errorf("%q is %q, and then %q, %v", uri, got, again, err)
		}
	})
}

func FuzzPage(f *testing.F) {
	f.Add([]byte(`<EnumerationResults><Blobs><Blob><Name Encoded="true">a%20b</Name><Properties><Etag>e</Etag>` +
		`<Content-Length>0</Content-Length></Properties><Metadata><hdi_isfolder>true</hdi_isfolder></Metadata></Blob>` +
		`<BlobPrefix><Name>c/</Name></BlobPrefix></Blobs><NextMarker>m</NextMarker></EnumerationResults>`))
	f.Fuzz(func(t *testing.T, text []byte) {
		p, err := readPage(bytes.NewReader(text), 1<<20)
		if err != nil {
			return
		}
		where := at{place: place{root: "az://container/", blob: "a"}}
		_ = p.mayMark()
		_ = where.hand(p, object.Query{}, func(file *pb.File) error {
			if !strings.HasPrefix(file.GetUri(), "az://container/a") || file.GetSize() < 0 || file.GetEtag() == "" {
				t.Errorf("it lists %v", file)
			}
			return nil
		})
	})
}
