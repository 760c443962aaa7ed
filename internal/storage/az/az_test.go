package az_test

import (
	"fmt"
	"testing"

	"go.uber.org/goleak"

	"github.com/penstock-ml/penstock/internal/storage"
	"github.com/penstock-ml/penstock/internal/storage/az"
	"github.com/penstock-ml/penstock/internal/storage/storagetest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func newStore(t *testing.T, cfg storage.Config) *storage.Store {
	t.Helper()
	s, err := storage.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	return s
}

func TestAzurite(t *testing.T) {
	a := storagetest.StartAzurite(t)
	t.Setenv("KEY", a.Key)
	made := 0
	for scheme, root := range map[string]string{
		"az": "az://%s/", "abfss": "abfss://%s@" + a.Account + ".dfs.core.windows.net/",
	} {
		t.Run(scheme, func(t *testing.T) {
			storagetest.Run(t, func(t *testing.T) storagetest.Fixture {
				made++
				name := fmt.Sprintf("container-%d", made)
				a.MakeContainer(t, name, false)
				base := fmt.Sprintf(root, name) + "some/place"
				return storagetest.Fixture{
					Storage: newStore(t, storage.Config{Profiles: map[string]storage.Profile{"default": &az.Profile{
						Account: a.Account, Endpoint: a.Endpoint, AccountKeyEnv: "KEY", Write: []string{base},
					}}}),
					Base:   base,
					Put:    func(t *testing.T, n string, content []byte) { a.Put(t, name, "some/place/"+n, content, nil) },
					Remove: func(t *testing.T, n string) { a.Remove(t, name, "some/place/"+n) },
				}
			})
		})
	}
}
