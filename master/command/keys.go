package command

import (
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/penstock-ml/penstock/internal/cli"
)

const (
	authorityLife   = 10 * 365 * 24 * time.Hour
	certificateLife = 365 * 24 * time.Hour
	// fleetName is the name in the certificate that all processes of a fleet share, for --tls-server-name.
	fleetName = "penstock"
)

// keyMaker is `penstock keys`.
type keyMaker struct {
	dir, namespace string
	names          []string
	renew          bool
	step           string // of a rotation
	now            time.Time
	made           []string
}

// Keys returns `penstock keys`, which makes all secrets of a fleet.
func Keys() *cobra.Command {
	k := &keyMaker{now: time.Now()}
	cmd := &cobra.Command{
		Use:   "keys DIR",
		Short: "Make the keys, certificates and tokens of a fleet",
		Long: "Make the keys, certificates and tokens of a fleet in DIR, one directory for each kind of process:\n\n" +
			"  fleet/      of masters and workers: the authority ca.crt, the certificate tls.crt and its key " +
			"tls.key, worker.token, gossip.key\n" +
			"  master/     of masters alone: the token that opens everything, ticket.key, and the certificate " +
			"etcd.crt that they show etcd\n" +
			"  storage/    a user and a password for an object store of the fleet's own, such as the laptop " +
			"overlay's\n" +
			"  etcd/       of etcd: certificates for its ports, and one that its members show each other\n" +
			"  authority/  the authorities' own keys, of which no process needs one: keep them in a safe place\n\n" +
			"All processes of a fleet share one certificate, whose name is penstock: callers set --tls-server-name " +
			"penstock, wherever\n" +
			"processes run. What is there stays as it is; --renew makes certificates anew, of the same authorities. " +
			"Processes read\n" +
			"renewed files without a restart.\n\n" +
			"--rotate replaces the tokens of masters and workers, the keys of gossip and tickets, and the fleet's " +
			"authority with its\n" +
			"certificate, in three steps: add puts the new ones beside the old ones, use puts them first, drop " +
			"takes the old ones out.\n" +
			"Take the next step once all processes, trainers' too, have the files of the one before. Before drop " +
			"let 6 hours pass,\n" +
			"in which the last ticket of the old key expires.",
		Example: "  penstock keys deploy/kubernetes/keys\n  penstock keys deploy/kubernetes/keys --renew\n  " +
			"penstock keys deploy/kubernetes/keys --rotate add",
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			k.dir = args[0]
			output, err := cli.Output(cmd)
			if err != nil {
				return err
			}
			if err := k.run(); err != nil {
				return err
			}
			if output == "json" {
				return cli.PrintJSON(cmd.OutOrStdout(), struct {
					Made []string `json:"made"`
				}{k.made})
			}
			for _, path := range k.made {
				fmt.Fprintln(cmd.OutOrStdout(), path)
			}
			return nil
		},
	}
	flags := cmd.Flags()
	flags.StringVar(&k.namespace, "namespace", "penstock", "Kubernetes namespace of the fleet")
	flags.StringSliceVar(&k.names, "also", nil, "further names or IP addresses by which callers know the fleet's ports")
	flags.BoolVar(&k.renew, "renew", false, "make certificates anew; authorities, tokens and the ticket key stay")
	flags.StringVar(&k.step, "rotate", "", "take a step of replacing the fleet's secrets: add, use or drop")
	cmd.MarkFlagsMutuallyExclusive("renew", "rotate")
	return cli.Setup(cmd)
}

func (k *keyMaker) run() error {
	k.made = []string{}
	fleet, err := k.authority("authority/ca", "Penstock fleet", "fleet/ca.crt")
	if err != nil {
		return err
	}
	etcd, err := k.authority("authority/etcd-ca", "Penstock etcd", "etcd/ca.crt")
	if err != nil {
		return err
	}
	members := append(k.service("penstock-etcd"), "*.penstock-etcd", "*.penstock-etcd."+k.namespace+".svc",
		"*.penstock-etcd."+k.namespace+".svc.cluster.local")
	for _, c := range []struct {
		signer *authority
		path   string
		names  []string
	}{
		{fleet, "fleet/tls", k.ports()},
		{etcd, "etcd/tls", append([]string{"localhost", "127.0.0.1"}, members...)},
		// Certificates that are only shown bear no name: etcd would look for it at the address that a peer calls from.
		{etcd, "etcd/peer", nil},
		{etcd, "master/etcd", nil},
	} {
		if err := k.certificate(c.signer, c.path, c.names); err != nil {
			return err
		}
	}
	for path, signer := range map[string]*authority{
		"fleet/ca.crt": fleet, "etcd/ca.crt": etcd,
		"master/etcd-ca.crt": etcd,
	} {
		if err := k.keep(path, func() ([]byte, error) { return signer.pem, nil }); err != nil {
			return err
		}
	}
	for _, path := range []string{
		"master/token", "fleet/worker.token", "fleet/gossip.key", "storage/AWS_ACCESS_KEY_ID",
		"storage/AWS_SECRET_ACCESS_KEY",
	} {
		if err := k.keep(path, func() ([]byte, error) { return []byte(rand.Text()), nil }); err != nil {
			return err
		}
	}
	if err := k.keep("master/ticket.key", ticketKeyText); err != nil || k.step == "" {
		return err
	}
	return k.rotate(k.step)
}

// ports are the names by which callers know the fleet's ports.
func (k *keyMaker) ports() []string {
	return slices.Concat([]string{fleetName, "localhost", "127.0.0.1", "::1"}, k.service("penstock-master"),
		k.service("penstock-minio"), k.names)
}

// service is the names of a Service, as its own namespace, others and other clusters' domains have them.
func (k *keyMaker) service(name string) []string {
	return []string{name, name + "." + k.namespace, name + "." + k.namespace + ".svc", name + "." + k.namespace +
		".svc.cluster.local"}
}

// keep writes a file unless it is there.
func (k *keyMaker) keep(path string, text func() ([]byte, error)) error {
	switch _, err := os.Stat(k.at(path)); {
	case err == nil:
		return nil
	case !errors.Is(err, fs.ErrNotExist):
		return fmt.Errorf("keys: %w", err)
	}
	b, err := text()
	if err != nil {
		return err
	}
	return k.write(path, b)
}

func (k *keyMaker) at(path string) string { return filepath.Join(k.dir, filepath.FromSlash(path)) }

// write replaces a file as a whole, so that nobody reads half of a key.
func (k *keyMaker) write(path string, text []byte) error {
	at := k.at(path)
	if err := os.MkdirAll(filepath.Dir(at), 0o700); err != nil {
		return fmt.Errorf("keys: %w", err)
	}
	if err := os.WriteFile(at+".new", text, 0o600); err != nil { //nolint:gosec // the directory is the user's choice
		return fmt.Errorf("keys: %w", err)
	}
	if err := os.Rename(at+".new", at); err != nil {
		return fmt.Errorf("keys: %w", err)
	}
	k.made = append(k.made, at)
	return nil
}

// certificate issues a certificate that ends in .crt, and its key, unless they are there. It keeps the names of one
// that it replaces.
func (k *keyMaker) certificate(signer *authority, path string, names []string) error {
	before, noCert := os.ReadFile(k.at(path + ".crt"))
	_, noKey := os.Stat(k.at(path + ".key"))
	if noCert == nil && noKey == nil && !k.renew {
		return nil
	}
	for _, name := range namesIn(before) {
		if !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	cert, key, err := signer.issue(strings.ReplaceAll(path, "/", " "), names, k.now)
	if err != nil {
		return err
	}
	if err := k.write(path+".key", key); err != nil {
		return err
	}
	return k.write(path+".crt", cert)
}

// namesIn are the names and addresses that a certificate bears; none, if it cannot be read.
func namesIn(cert []byte) []string {
	block, _ := pem.Decode(cert)
	if block == nil {
		return nil
	}
	c, err := x509.ParseCertificate(block.Bytes)
	if err != nil {
		return nil
	}
	names := c.DNSNames
	for _, ip := range c.IPAddresses {
		names = append(names, ip.String())
	}
	return names
}
