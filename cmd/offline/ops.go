package offline

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/penstock-ml/penstock/internal/cli"
	"github.com/penstock-ml/penstock/worker/transform"
)

// Ops returns `penstock ops`, which prints the catalogue of transforms.
func Ops(ops *transform.Registry) *cobra.Command {
	return cli.Setup(&cobra.Command{
		Use:     "ops",
		Short:   "List the transforms: inputs, outputs, parameters, examples",
		Example: "  penstock ops\n  penstock ops --output json",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			output, err := cli.Output(cmd)
			if err != nil {
				return err
			}
			if output == "json" {
				return cli.PrintJSON(cmd.OutOrStdout(), ops.Describe())
			}
			if err := ops.WriteTable(cmd.OutOrStdout()); err != nil {
				return fmt.Errorf("ops: %w", err)
			}
			return nil
		},
	})
}
