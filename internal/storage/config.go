package storage

import (
	"fmt"
	"iter"
	"os"
	"strings"

	"github.com/goccy/go-yaml"

	"github.com/penstock-ml/penstock/internal/storage/keys"
	"github.com/penstock-ml/penstock/internal/storage/object"
	"github.com/penstock-ml/penstock/internal/tables/iceberg/rest"
)

// DefaultProfile is the profile that "" names. It always exists.
const DefaultProfile = "default"

// Profile says how a store is reached, such as a *s3.Profile. It holds no secrets, only where to find them.
type Profile = object.Profile

// Config is a process's storage configuration (docs/reference/storage.md). The zero value works: the profile "default"
// follows the environment variables of AWS.
type Config struct {
	// Profiles by name. Names do not tell case, nor "-" from "_". One that is nil is empty.
	Profiles map[string]Profile
	// Keys says, by profile, where the keys of encrypted files come from. Profiles that it lacks have those of
	// "default".
	Keys map[string]keys.Config
	// Catalogs by name: they know where tables are. Names are as those of profiles.
	Catalogs map[string]rest.Config
	Retry    Retry
	Listing  Listing
}

// configFile is a Config as it is written.
type configFile struct {
	Profiles map[string]writtenProfile `yaml:"profiles"`
	Keys     map[string]keys.Config    `yaml:"keys"`
	Catalogs map[string]rest.Config    `yaml:"catalogs"`
	Retry    Retry                     `yaml:"retry"`
	Listing  Listing                   `yaml:"listing"`
}

// writtenProfile decodes the profile that its type says.
type writtenProfile struct {
	Profile
	err error // of its type: who knows the profile's name tells
}

func (p *writtenProfile) UnmarshalYAML(unmarshal func(any) error) error {
	var fields map[string]any
	if err := unmarshal(&fields); err != nil {
		return err
	}
	typ, ok := fields["type"].(string)
	if !ok && fields["type"] != nil {
		typ = "?" // none that there is
	}
	if p.Profile, p.err = profileOfType(typ); p.Profile == nil {
		return nil
	}
	return unmarshal(p.Profile)
}

// envPrefix begins the environment variables of profiles: PENSTOCK_STORAGE_<PROFILE>_<FIELD>.
const envPrefix = "PENSTOCK_STORAGE_"

// LoadConfig reads a YAML or JSON file, if path is not empty, and then the environment ("KEY=value" strings, as of
// os.Environ), whose variables win.
func LoadConfig(path string, environ []string) (Config, error) {
	var cfg Config
	if path != "" {
		data, err := os.ReadFile(path)
		if err != nil {
			return cfg, fmt.Errorf("storage configuration: %w", err)
		}
		var written configFile
		if err := yaml.UnmarshalWithOptions(data, &written, yaml.Strict()); err != nil {
			// Only the message: what surrounds the place in the file is not shown, it might be a secret.
			return cfg, fmt.Errorf("storage configuration %s: %s", path, yaml.FormatError(err, false, false))
		}
		if cfg, err = written.config(); err != nil {
			return cfg, fmt.Errorf("storage configuration %s: %w", path, err)
		}
	}
	profiles, err := byName(cfg.Profiles)
	if err != nil {
		return cfg, fmt.Errorf("storage configuration %s: %w", path, err)
	}
	if err := setFromEnv(profiles, environ); err != nil {
		return cfg, fmt.Errorf("storage configuration: %w", err)
	}
	cfg.Profiles = profiles
	if cfg.Catalogs, err = catalogsFromEnv(cfg.Catalogs, environ); err != nil {
		return cfg, fmt.Errorf("storage configuration: %w", err)
	}
	return cfg, nil
}

func (f configFile) config() (Config, error) {
	cfg := Config{Keys: f.Keys, Catalogs: f.Catalogs, Retry: f.Retry, Listing: f.Listing}
	for name, p := range f.Profiles {
		if p.err != nil {
			return cfg, fmt.Errorf("profile %s: type: %w", name, p.err)
		}
		if cfg.Profiles == nil {
			cfg.Profiles = make(map[string]Profile)
		}
		cfg.Profiles[name] = p.Profile
	}
	return cfg, nil
}

// ProfileName is a profile's name as it is looked up.
func ProfileName(name string) string {
	if name == "" {
		return DefaultProfile
	}
	return strings.ReplaceAll(strings.ToLower(name), "-", "_")
}

// byName has the names as they are looked up.
func byName[T any](profiles map[string]T) (map[string]T, error) {
	out := make(map[string]T)
	for name, p := range profiles {
		key := ProfileName(name)
		if _, double := out[key]; double {
			return nil, fmt.Errorf("several profiles are named %s: names do not tell case, nor - from _", key)
		}
		out[key] = p
	}
	return out, nil
}

// setFromEnv sets the fields of profiles that variables name. The types come first: they say which fields there are.
func setFromEnv(profiles map[string]Profile, environ []string) error {
	var fields []variable
	for _, e := range environ {
		v := variable{}
		v.key, v.value, _ = strings.Cut(e, "=")
		rest, ok := strings.CutPrefix(v.key, envPrefix)
		if !ok || v.value == "" {
			continue
		}
		v.name = rest
		profile, ok := strings.CutSuffix(rest, "_TYPE")
		if !ok || profile == "" {
			fields = append(fields, v)
			continue
		}
		if err := setType(profiles, ProfileName(profile), v.value); err != nil {
			return fmt.Errorf("%s: %w", v.key, err)
		}
	}
	var unset []variable
	for _, v := range fields {
		known, err := v.set(profiles)
		if err != nil {
			return fmt.Errorf("%s: %w", v.key, err)
		}
		if !known {
			unset = append(unset, v)
		}
	}
	for _, v := range unset { // all profiles are known by then
		if err := v.misspelt(profiles); err != nil {
			return fmt.Errorf("%s: %w", v.key, err)
		}
	}
	return nil
}

func setType(profiles map[string]Profile, profile, typ string) error {
	empty, err := profileOfType(typ)
	if err != nil {
		return err
	}
	switch p := profiles[profile]; {
	case p == nil:
		profiles[profile] = empty
	case typeOf(p) != typeOf(empty):
		return fmt.Errorf("it says %s, but the profile is one of type %s in the file", typeOf(empty), typeOf(p))
	}
	return nil
}

// variable is one of the environment: key is envPrefix and name, and name is <PROFILE>_<FIELD>.
type variable struct{ key, name, value string }

// cuts are the ways to read the variable's name, the shortest profile first: profiles and fields have "_" in their
// names, too.
func (v variable) cuts() iter.Seq2[string, string] {
	return func(yield func(profile, field string) bool) {
		for i, c := range v.name {
			if c == '_' && i > 0 && !yield(ProfileName(v.name[:i]), v.name[i+1:]) {
				return
			}
		}
	}
}

// set sets a profile's field, and reports whether there is one of that name.
func (v variable) set(profiles map[string]Profile) (known bool, err error) {
	for profile, field := range v.cuts() {
		p := profiles[profile]
		if p == nil {
			p = emptyProfile()
		}
		if known, err = setField(p, field, v.value); known {
			profiles[profile] = p
			return true, err
		}
	}
	return false, nil
}
