package command

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/spf13/cobra"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/penstock-ml/penstock/api/pb"
	"github.com/penstock-ml/penstock/internal/cli"
	"github.com/penstock-ml/penstock/internal/rpc"
	"github.com/penstock-ml/penstock/internal/storage"
	"github.com/penstock-ml/penstock/internal/terminal"
	"github.com/penstock-ml/penstock/master/features"
)

// readFeatures is `penstock features`.
type readFeatures struct {
	masters []string
	ports   cli.RPCFlags
	limit   int
	order   bool
}

// Features returns `penstock features`, which prints what sessions read of datasets.
func Features() *cobra.Command {
	f := &readFeatures{}
	cmd := &cobra.Command{
		Use:   "features [URI]",
		Short: "Print which features of a dataset sessions read, how often, which never, and which together",
		Long: "Print what the sessions of a namespace read of the files below a directory: each feature with the " +
			"sessions, rows and stored\n" +
			"bytes, the sets of features that were read together, and the columns that no session read. Without a " +
			"URI, print the datasets.\n" +
			"The masters count it, over sessions, and keep it in etcd: the row groups that trainers were given to " +
			"read.",
		Example: "  penstock features\n  penstock features s3://bucket/train/\n" +
			"  penstock features s3://bucket/train/ --output json | jq -r '.never[].name'\n" +
			"  penstock features s3://bucket/train/ --order > order.txt",
		Args: cobra.MaximumNArgs(1),
		RunE: f.run,
	}
	flags := cmd.Flags()
	flags.StringSliceVar(&f.masters, "master", []string{"127.0.0.1:7070"}, "addresses of masters")
	flags.IntVar(&f.limit, "limit", 20, "print so many features, sets and columns at most (0: all)")
	flags.BoolVar(&f.order, "order", false, "print the columns alone, a name on each line, in an order that puts "+
		"those that are read together next to each other, most read first")
	f.ports.RegisterClient(flags)
	return cli.Setup(cmd)
}

func (f *readFeatures) run(cmd *cobra.Command, args []string) error {
	output, err := cli.Output(cmd)
	if err != nil {
		return err
	}
	uri := ""
	if len(args) > 0 {
		if uri, err = storage.Canonical(args[0]); err != nil { // relative paths begin here
			return err
		}
	}
	if f.order && (uri == "" || output == "json") {
		return errors.New("--order prints the columns of one dataset, a name on each line: give its URI, and no " +
			"--output")
	}
	reply, err := f.ask(cmd.Context(), uri)
	if err != nil {
		return err
	}
	out := cmd.OutOrStdout()
	switch {
	case f.order:
		return printOrder(out, reply.GetDatasets()[0])
	case output == "json":
		for _, d := range reply.GetDatasets() {
			report := features.ReportOf(d, uri != "")
			if report.ReportDetails != nil {
				report.Order = features.OrdersOf(d)
			}
			if err := cli.PrintJSON(out, report); err != nil {
				return err
			}
		}
		return nil
	case uri == "":
		return printDatasets(out, reply.GetDatasets())
	}
	return f.print(out, reply.GetDatasets()[0])
}

func (f *readFeatures) ask(ctx context.Context, uri string) (reply *pb.ListFeaturesReply, err error) {
	cfg, err := f.ports.Config()
	if err != nil {
		return nil, err
	}
	return ListFeatures(ctx, f.masters, cfg, uri)
}

// NotReadError says that no session read anything of a dataset.
type NotReadError struct{ error }

// ListFeatures asks masters what sessions read below a URI, which is one dataset, or, without one, of all datasets.
func ListFeatures(
	ctx context.Context, masters []string, cfg rpc.Config, uri string,
) (reply *pb.ListFeaturesReply, err error) {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	var code codes.Code
	err = rpc.AtLeader(ctx, masters, cfg, func(ctx context.Context, m pb.MasterClient) (err error) {
		reply, err = m.ListFeatures(ctx, &pb.ListFeaturesRequest{Uri: uri})
		code = status.Code(err)
		return err
	})
	if err != nil && code == codes.NotFound {
		return nil, NotReadError{err}
	}
	if err == nil && uri != "" && len(reply.GetDatasets()) != 1 {
		err = fmt.Errorf("the master answers with %d datasets; is it of another release?", len(reply.GetDatasets()))
	}
	return reply, err
}

func printDatasets(w io.Writer, all []*pb.DatasetReads) error {
	if len(all) == 0 {
		_, err := fmt.Fprintln(w, "no session has read anything yet")
		return err
	}
	t := terminal.Table(w)
	fmt.Fprintln(t, "DATASET\tSESSIONS\tROWS\tBYTES\tLAST READ")
	for _, d := range all {
		terminal.Printf(t, "%s\t%s\n", d.GetPrefix(), counts(d))
	}
	return t.Flush()
}
