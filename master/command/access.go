package command

import (
	"errors"
	"fmt"
	"log/slog"

	"github.com/spf13/pflag"

	"github.com/penstock-ml/penstock/internal/identity"
	"github.com/penstock-ml/penstock/internal/rpc"
	"github.com/penstock-ml/penstock/master/access"
)

// accessFlags are the settings that say who may do what.
type accessFlags struct {
	TokenFlags
	namespaces, workers string
}

// TokenFlags are the settings that say whose a token is.
type TokenFlags struct {
	tokens string
	review access.ReviewConfig
}

func (f *accessFlags) register(flags *pflag.FlagSet) {
	flags.StringVar(&f.workers, "worker-token-file", "",
		"file with the token of the workers, which lets its bearers report as such and do nothing else; it is the "+
			"--token-file of penstock worker (default: that of this master). It is read anew when it changes")
	f.Register(flags)
	flags.StringVar(&f.namespaces, "namespaces", "",
		"YAML file that says what each namespace may read and take; read anew when it changes (default: all may "+
			"read everything)")
}

// Register adds the flags to a command.
func (f *TokenFlags) Register(flags *pflag.FlagSet) {
	flags.StringVar(&f.tokens, "tokens", "",
		"YAML file with the tokens of callers, their namespaces and roles (see docs/reference/access.md); read anew "+
			"when it changes")
	flags.BoolVar(&f.review.On, "token-review", false,
		"let service accounts of Kubernetes in by their tokens: each is a trainer in the namespace of its name")
	flags.StringSliceVar(&f.review.Audiences, "token-review-audience", []string{"penstock"},
		"audiences, one of which service accounts' tokens must be for")
	flags.StringVar(&f.review.Server, "token-review-server", "",
		"URL of the Kubernetes API (default: that of the cluster this process runs in)")
	flags.StringVar(&f.review.CA, "token-review-ca", "",
		"PEM authorities of the Kubernetes API (default: the cluster's)")
	flags.StringVar(&f.review.TokenFile, "token-review-token-file", "",
		"token of this process at the Kubernetes API, which may create tokenreviews (default: its service account's)")
}

// open reads what the flags name.
func (f *accessFlags) open(fleet rpc.Secret, logger *slog.Logger) (*access.Control, error) {
	cfg := access.Config{Fleet: fleet, Namespaces: f.namespaces, Logger: logger}
	if f.workers != "" {
		var err error
		if cfg.Workers, err = rpc.ReadSecret(f.workers); err != nil {
			return nil, fmt.Errorf("--worker-token-file: %w", err)
		}
		for _, w := range cfg.Workers.All() {
			if fleet.Takes(w) {
				return nil, errors.New(
					"--worker-token-file: its token is one of --token-file, which lets workers do everything; give " +
						"them one of their own (openssl rand -hex 32)")
			}
		}
	}
	if f.review.On && f.namespaces == "" {
		logger.Warn("the service accounts of all namespaces may read everything; --namespaces says what each may")
	}
	return f.TokenFlags.open(cfg)
}

// Open reads what the flags name. The fleet's token opens all.
func (f *TokenFlags) Open(fleet rpc.Secret, logger *slog.Logger) (identity.Authenticator, error) {
	c, err := f.open(access.Config{Fleet: fleet, Logger: logger})
	if err != nil {
		return nil, err
	}
	return c.Authenticator(), nil
}

func (f *TokenFlags) open(cfg access.Config) (*access.Control, error) {
	cfg.Tokens = f.tokens
	if f.review.On {
		review, err := access.NewReview(f.review)
		if err != nil {
			return nil, err
		}
		cfg.Review = review
	}
	return access.New(cfg)
}
