package zoneinfo

import (
	"crypto/sha256"
	"encoding/hex"
	"slices"
	"testing"
	"time"
)

// TestDatabaseIsPinned fails for whoever replaces the database: its release and the versions of the ops that use it
// change with it.
func TestDatabaseIsPinned(t *testing.T) {
	sum := sha256.Sum256(database)
	if got, want := hex.EncodeToString(
		sum[:]), "8f55634d05f8bca1f7bc7c69c5933428c69357e0bdf565e5ba224e3f88ff12e8"; got != want {
		t.Errorf("the database's SHA-256 is %s, want %s", got, want)
	}
}

// TestEveryZoneLoads reads each zone as the time package does.
func TestEveryZoneLoads(t *testing.T) {
	names, err := Names()
	if err != nil {
		t.Fatal(err)
	}
	if len(names) < 400 || !slices.Contains(names, "Europe/Berlin") || !slices.Contains(names, "UTC") {
		t.Errorf("%d zones: %v", len(names), names)
	}
	for _, name := range names {
		data, ok, err := Load(name)
		if !ok || err != nil {
			t.Errorf("%s: %v, %v", name, ok, err)
			continue
		}
		if _, err := time.LoadLocationFromTZData(name, data); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestUnknownZones(t *testing.T) {
	for _, name := range []string{"", "Local", "Europe", "Europe/", "../UTC", "utc"} {
		if _, ok, err := Load(name); ok || err != nil {
			t.Errorf("%q: %v, %v", name, ok, err)
		}
	}
}
