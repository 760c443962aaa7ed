// Package cli is what the commands of master, worker and client share: settings from flags, environment and
// file, the flags that open ports and storage, logging, and output for people or programs. It is used from one
// goroutine, at start-up.
package cli

import (
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"golang.org/x/term"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"

	"github.com/penstock-ml/penstock/internal/fleet"
	"github.com/penstock-ml/penstock/internal/process"
	"github.com/penstock-ml/penstock/internal/rpc"
	"github.com/penstock-ml/penstock/internal/storage"
	"github.com/penstock-ml/penstock/internal/terminal"
)

// Logger logs to w as the flags of Setup say, and so does what logs by slog's default from then on.
func Logger(cmd *cobra.Command, w io.Writer) (*slog.Logger, error) {
	var level slog.Level
	name, _ := cmd.Flags().GetString("log-level")
	if err := level.UnmarshalText([]byte(name)); err != nil {
		return nil, fmt.Errorf("--log-level: want debug, info, warn or error, found %q", name)
	}
	opts := &slog.HandlerOptions{Level: level}
	switch format, _ := cmd.Flags().GetString("log-format"); format {
	case "text":
		slog.SetDefault(slog.New(slog.NewTextHandler(w, opts)))
	case "json":
		slog.SetDefault(slog.New(slog.NewJSONHandler(w, opts)))
	default:
		return nil, fmt.Errorf("--log-format: want text or json, found %q", format)
	}
	return slog.Default(), nil
}

// RPCFlags are the settings of a port or a connection.
type RPCFlags struct {
	cert, key, ca, clientCA, namespace, serverName, token string
	tls                                                   bool
}

// Register adds the flags of connections to a command.
func (f *RPCFlags) Register(flags *pflag.FlagSet) {
	flags.StringVar(&f.cert, "tls-cert", "", "PEM certificate of this process")
	flags.StringVar(&f.key, "tls-key", "", "PEM key of --tls-cert")
	flags.StringVar(&f.ca, "tls-ca", "", "PEM authorities that the certificates of the ports called must come from")
	flags.StringVar(&f.serverName, "tls-server-name", "",
		"name that the certificates of the ports called must bear (default: the host of each address)")
	flags.BoolVar(&f.tls, "tls", false, "use TLS with the system's authorities")
	flags.StringVar(&f.token, "token-file", "",
		"file with the token that is shown to masters; a master's own lets its bearers do everything. It is read "+
			"anew when it changes")
}

// RegisterPorts adds those of a process that has ports.
func (f *RPCFlags) RegisterPorts(flags *pflag.FlagSet) {
	f.Register(flags)
	flags.StringVar(&f.clientCA, "tls-client-ca", "",
		"PEM authorities; ports ask their callers for a certificate of theirs")
}

// RegisterClient adds those of a command that asks masters.
func (f *RPCFlags) RegisterClient(flags *pflag.FlagSet) {
	f.Register(flags)
	flags.StringVar(&f.namespace, "namespace", "",
		"namespace that the command is about, where the token is for all of them (default: the token's own)")
}

// Config reads what the flags name.
func (f *RPCFlags) Config() (rpc.Config, error) {
	cfg := rpc.Config{
		Cert: f.cert, Key: f.key, CA: f.ca, ClientCA: f.clientCA, ServerName: f.serverName, TLS: f.tls,
		Namespace: f.namespace,
	}
	if f.token == "" {
		return cfg, nil
	}
	var err error
	cfg.Token, err = rpc.ReadSecret(f.token)
	return cfg, err
}

// StorageFlags are the settings of storage profiles.
type StorageFlags struct{ file string }

// Register adds the flags to a command.
func (f *StorageFlags) Register(flags *pflag.FlagSet) {
	flags.StringVar(&f.file, "storage-config", "",
		"YAML file with storage profiles (default: the usual AWS environment and files)")
}

// Open returns a storage with the profiles that the flags name.
func (f *StorageFlags) Open() (*storage.Store, error) {
	cfg, err := storage.LoadConfig(f.file, os.Environ())
	if err != nil {
		return nil, err
	}
	return storage.New(cfg)
}

// Output returns the --output of a command that takes text, json and whatever else it names.
func Output(cmd *cobra.Command, others ...string) (string, error) {
	out, _ := cmd.Flags().GetString("output")
	if allowed := append([]string{"text", "json"}, others...); !slices.Contains(allowed, out) {
		return "", fmt.Errorf("--output: want one of %s, found %q", strings.Join(allowed, ", "), out)
	}
	return out, nil
}

// PrintJSON writes one JSON object on one line.
func PrintJSON(w io.Writer, v any) error {
	enc := json.NewEncoder(w)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		return fmt.Errorf("print JSON: %w", err)
	}
	return nil
}

// PrintProto writes a message as one JSON object on one line, with the names of the .proto files.
func PrintProto(w io.Writer, m proto.Message) error {
	text, err := protojson.MarshalOptions{UseProtoNames: true}.Marshal(m)
	if err != nil {
		return fmt.Errorf("print JSON: %w", err)
	}
	_, err = fmt.Fprintf(w, "%s\n", text)
	return err
}

// FleetFlags are the settings of gossip.
type FleetFlags struct {
	name, zone, bind, advertise, key string
	join                             []string
}

// Register adds the flags to a command; bind is the default gossip address.
func (f *FleetFlags) Register(flags *pflag.FlagSet, bind string, join ...string) {
	flags.StringVar(&f.name, "name", "", "name of this process in the fleet (default: role and address)")
	flags.StringVar(&f.zone, "zone", "", "zone of this process; trainers read from workers of their own zone first")
	flags.StringVar(&f.bind, "gossip", bind, "gossip address to listen on; port 0 takes a free one")
	flags.StringVar(&f.advertise, "gossip-advertise", "", "gossip address that others can reach (default: --gossip)")
	flags.StringVar(&f.key, "gossip-key-file", "",
		"file with the key of gossip, the same for all of the fleet: one a line, of which the first encrypts and "+
			"all decrypt (default: the token)")
	flags.StringSliceVar(&f.join, "join", join, "gossip addresses of masters or workers; one that answers is enough")
}

// Config is what the flags say. The token, if there is one, encrypts the gossip if there is no key of its own.
func (f *FleetFlags) Config(token rpc.Secret) (fleet.Config, error) {
	cfg := fleet.Config{
		Self: fleet.Member{Name: f.name, Zone: f.zone},
		Bind: f.bind, Advertise: f.advertise, Join: f.join, Secret: token,
	}
	if f.key == "" {
		return cfg, nil
	}
	var err error
	if cfg.Secret, err = rpc.ReadSecret(f.key); err != nil {
		return cfg, fmt.Errorf("--gossip-key-file: %w", err)
	}
	return cfg, nil
}

// Status replaces the line of progress on a terminal; "" ends it. Elsewhere nothing is shown.
func Status(f *os.File, format string, args ...any) {
	if term.IsTerminal(int(f.Fd())) {
		terminal.Printf(f, "\r\033[K"+format, args...)
	}
}

// Announce prints where a server can be reached, one JSON object on one line, for the program that started it; http may
// be nil.
func Announce(w io.Writer, address, gossip string, http net.Listener) error {
	out := process.Announcement{Address: address, Gossip: gossip}
	if http != nil {
		out.HTTP = http.Addr().String()
	}
	return PrintJSON(w, out)
}
