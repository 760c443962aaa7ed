package storage

import (
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"

	"github.com/goccy/go-yaml"

	"github.com/penstock-ml/penstock/internal/storage/keys"
	"github.com/penstock-ml/penstock/internal/storage/s3"
)

// DefaultProfile is the profile that "" names. It always exists.
const DefaultProfile = "default"

// Profile says how to reach S3. It holds no secrets, only where to find them.
type Profile = s3.Profile

// Config is a process's storage configuration (README.md). The zero value works: the profile "default" follows
// the environment variables of AWS.
type Config struct {
	// Profiles by name. Names do not tell case, nor "-" from "_".
	Profiles map[string]Profile `yaml:"profiles"`
	// Keys says, by profile, where the keys of encrypted files come from. Profiles that it lacks have those of "default".
	Keys    map[string]keys.Config `yaml:"keys"`
	Retry   Retry                  `yaml:"retry"`
	Listing Listing                `yaml:"listing"`
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
		if err := yaml.UnmarshalWithOptions(data, &cfg, yaml.Strict()); err != nil {
			// Only the message: what surrounds the place in the file is not shown, it might be a secret.
			return cfg, fmt.Errorf("storage configuration %s: %s", path, yaml.FormatError(err, false, false))
		}
	}
	profiles, err := byName(cfg.Profiles)
	if err != nil {
		return cfg, fmt.Errorf("storage configuration %s: %w", path, err)
	}
	for _, e := range environ {
		if err := setFromEnv(profiles, e); err != nil {
			return cfg, fmt.Errorf("storage configuration: %w", err)
		}
	}
	cfg.Profiles = profiles
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

// setFromEnv sets a profile's field if e is a variable that names one.
func setFromEnv(profiles map[string]Profile, e string) error {
	key, value, _ := strings.Cut(e, "=")
	rest, ok := strings.CutPrefix(key, envPrefix)
	if !ok || value == "" {
		return nil
	}
	for _, field := range []struct {
		suffix string
		set    func(p *Profile) error
	}{
		{"_ENDPOINT", func(p *Profile) error { p.Endpoint = value; return nil }},
		{"_REGION", func(p *Profile) error { p.Region = value; return nil }},
		{"_CA_FILE", func(p *Profile) error { p.CAFile = value; return nil }},
		{"_CREDENTIALS", func(p *Profile) error { p.Credentials = value; return nil }},
		{"_AWS_PROFILE", func(p *Profile) error { p.AWSProfile = value; return nil }},
		{"_ACCESS_KEY_ENV", func(p *Profile) error { p.AccessKeyEnv = value; return nil }},
		{"_SECRET_KEY_ENV", func(p *Profile) error { p.SecretKeyEnv = value; return nil }},
		{"_SESSION_TOKEN_ENV", func(p *Profile) error { p.SessionTokenEnv = value; return nil }},
		{"_REQUEST_PAYER", func(p *Profile) error { p.RequestPayer = value; return nil }},
		{"_PATH_STYLE", func(p *Profile) error {
			b, err := strconv.ParseBool(value)
			if err != nil {
				return errors.New("it must be true or false")
			}
			p.PathStyle = &b
			return nil
		}},
	} {
		name, ok := strings.CutSuffix(rest, field.suffix)
		if !ok || name == "" {
			continue
		}
		p := profiles[ProfileName(name)]
		if err := field.set(&p); err != nil {
			return fmt.Errorf("%s: %w", key, err)
		}
		profiles[ProfileName(name)] = p
		return nil
	}
	return nil
}
