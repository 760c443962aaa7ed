package main

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"io"
	"net/http"
	"os"
	"syscall"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/sync/errgroup"

	"github.com/penstock-ml/penstock/internal/cli"
	stores "github.com/penstock-ml/penstock/internal/storage" // storage is a stage here
)

// download reads a file by ranges, again and again.
type download struct {
	config, profile, ca string
	plain               bool // by net/http alone
	size, part, bytes   int64
	atOnce, passes      int
}

// spent is what a pass took.
type spent struct {
	Bytes      int64   `json:"bytes"`
	CPUSeconds float64 `json:"cpu"`
	Seconds    float64 `json:"seconds"`
}

func downloadCommand() *cobra.Command {
	d := &download{}
	cmd := &cobra.Command{
		Use:   "download URI",
		Short: "Read a file by ranges, several at once, and print for each pass the CPU time of this process as JSON",
		Args:  cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if d.part <= 0 || d.part > d.size {
				return fmt.Errorf("--range %d: want 1 to --size, which is %d", d.part, d.size)
			}
			read, err := d.reader(cmd.Context(), args[0])
			if err != nil {
				return err
			}
			for i := range 1 + d.passes {
				s, err := d.pass(cmd.Context(), read)
				if err != nil {
					return err
				}
				if i == 0 { // connections are made in it
					continue
				}
				if err := cli.PrintJSON(cmd.OutOrStdout(), s); err != nil {
					return err
				}
			}
			return nil
		},
	}
	f := cmd.Flags()
	f.StringVar(&d.config, "storage-config", "", "a file of storage profiles")
	f.StringVar(&d.profile, "storage", "", "the profile")
	f.BoolVar(&d.plain, "plain", false, "net/http and io.Copy alone, without a store; the URI is a URL")
	f.StringVar(&d.ca, "ca-file", "", "with --plain: the certificate that is trusted")
	f.Int64Var(&d.size, "size", 0, "of the file")
	f.Int64Var(&d.part, "range", 8<<20, "bytes of a range")
	f.Int64Var(&d.bytes, "bytes", 1<<30, "of a pass")
	f.IntVar(&d.atOnce, "at-once", 4, "ranges")
	f.IntVar(&d.passes, "passes", 3, "that are printed, behind one that is not")
	return cmd
}

// readRange reads a range of the file; buf is as long as it.
type readRange func(ctx context.Context, buf []byte, offset int64) error

func (d *download) reader(ctx context.Context, uri string) (readRange, error) {
	if d.plain {
		return d.byHTTP(uri)
	}
	cfg, err := stores.LoadConfig(d.config, nil)
	if err != nil {
		return nil, err
	}
	store, err := stores.New(cfg)
	if err != nil {
		return nil, err
	}
	files, err := store.List(ctx, d.profile, []string{uri})
	if err != nil {
		return nil, err
	}
	if len(files) != 1 || files[0].GetSize() != d.size {
		return nil, fmt.Errorf("%s is %v; want one file of %d bytes", uri, files, d.size)
	}
	return func(ctx context.Context, buf []byte, offset int64) error {
		return store.ReadAt(ctx, d.profile, files[0], buf, offset)
	}, nil
}

// byHTTP is the least that reading takes in Go: nothing is kept of the bytes.
func (d *download) byHTTP(url string) (readRange, error) {
	transport := &http.Transport{MaxIdleConnsPerHost: d.atOnce}
	if d.ca != "" {
		pem, err := os.ReadFile(d.ca)
		if err != nil {
			return nil, err
		}
		transport.TLSClientConfig = &tls.Config{RootCAs: x509.NewCertPool()}
		transport.TLSClientConfig.RootCAs.AppendCertsFromPEM(pem)
	}
	client := &http.Client{Transport: transport}
	return func(ctx context.Context, buf []byte, offset int64) error {
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
		if err != nil {
			return err
		}
		req.Header.Set("Range", fmt.Sprintf("bytes=%d-%d", offset, offset+int64(len(buf))-1))
		resp, err := client.Do(req)
		if err != nil {
			return err
		}
		defer resp.Body.Close()
		n, err := io.Copy(io.Discard, resp.Body)
		if err == nil && n != int64(len(buf)) {
			err = fmt.Errorf("%s at %d: %s, with %d bytes of %d", url, offset, resp.Status, n, len(buf))
		}
		return err
	}, nil
}

func (d *download) pass(ctx context.Context, read readRange) (*spent, error) {
	ranges := d.size / d.part
	total := max(1, d.bytes/d.part)
	cpu, began := cpuSeconds(), time.Now()
	g, ctx := errgroup.WithContext(ctx)
	for worker := range d.atOnce {
		g.Go(func() error {
			buf := make([]byte, d.part)
			for i := int64(worker); i < total; i += int64(d.atOnce) {
				if err := read(ctx, buf, i%ranges*d.part); err != nil {
					return err
				}
			}
			return nil
		})
	}
	if err := g.Wait(); err != nil {
		return nil, err
	}
	return &spent{total * d.part, cpuSeconds() - cpu, time.Since(began).Seconds()}, nil
}

// cpuSeconds is what this process has taken so far.
func cpuSeconds() float64 {
	var used syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &used); err != nil {
		panic(err) // it knows itself
	}
	return float64(used.Utime.Nano()+used.Stime.Nano()) / 1e9
}
