package cli

import (
	"context"
	"errors"
	"os"
	"os/signal"
	"strings"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/penstock-ml/penstock/internal/storage"
	"github.com/penstock-ml/penstock/internal/terminal"
)

// Main runs a program's command until it ends, or until SIGINT or SIGTERM interrupts it; the second one kills it. It
// prints the error that it ends with, and returns the exit status.
func Main(root *cobra.Command) int {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	context.AfterFunc(ctx, stop) // a second signal ends what does not end at the first
	root.SilenceErrors = true
	err := root.ExecuteContext(ctx)
	if err == nil {
		return 0
	}
	if errors.Is(err, context.Canceled) && ctx.Err() != nil {
		err = errors.New("interrupted")
	}
	terminal.Printf(os.Stderr, "%s: %s\n", root.Name(), terminal.Lines(withoutSecrets(err.Error(), os.Args[1:])))
	return 1
}

// withoutSecrets is the text of an error that does not repeat those of its arguments which give access: errors of
// commands reach logs, and repeat URIs that are given where something else is wanted.
func withoutSecrets(text string, args []string) string {
	for _, arg := range args {
		if flag, value, ok := strings.Cut(arg, "="); ok && strings.HasPrefix(flag, "-") {
			arg = value
		}
		_, err := storage.Canonical(arg)
		if errors.Is(err, storage.ErrSecret) && strings.Contains(text, arg) {
			text = strings.ReplaceAll(text, arg, "URI") + "; " + err.Error()
		}
	}
	return text
}
