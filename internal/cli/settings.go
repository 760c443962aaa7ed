package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"github.com/spf13/viper"
)

// Setup gives a command and those below it the flags that all have, and lets environment and file set whatever flag
// the command line does not: --listen is PENSTOCK_LISTEN, or `listen:` in the YAML file named by --config. Commands
// may share a file: each takes the settings that it has. Setup returns the command.
func Setup(cmd *cobra.Command) *cobra.Command {
	cmd.SetFlagErrorFunc(misused)
	for _, c := range append(cmd.Commands(), cmd) {
		c.SilenceUsage = true // an error is one line, not a page
		if check := c.Args; check != nil {
			c.Args = func(cmd *cobra.Command, args []string) error { return misused(cmd, check(cmd, args)) }
		}
	}
	flags := cmd.PersistentFlags()
	flags.String("config", "", "YAML file with settings, named like the flags (PENSTOCK_CONFIG)")
	flags.String("log-level", "info", "debug, info, warn or error")
	flags.String("log-format", "text", "text or json")
	flags.StringP("output", "o", "text", "text for people, json for programs")
	flags.Bool("end-with-stdin", false,
		"end when standard input closes or the process that started this one ends, so that a child never outlives "+
			"its parent")
	cmd.PersistentPreRunE = func(cmd *cobra.Command, _ []string) error {
		if err := settings(cmd); err != nil {
			return err
		}
		if end, _ := cmd.Flags().GetBool("end-with-stdin"); end {
			ctx, cancel := context.WithCancel(cmd.Context())
			cmd.SetContext(ctx)
			parent := os.Getppid()
			go func() { // lives as long as the process, as does the next
				defer cancel()
				_, _ = io.Copy(io.Discard, os.Stdin)
			}()
			go func() { // a process that inherited the pipe may hold standard input open for longer
				defer cancel()
				awaitEndOf(parent)
			}()
		}
		return nil
	}
	return cmd
}

// misused adds to an error of flags or arguments what the command takes.
func misused(cmd *cobra.Command, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%w; want %s: see %s --help", err, cmd.UseLine(), cmd.CommandPath())
}

// settings fills in the flags that the command line left, from environment and file.
func settings(cmd *cobra.Command) error {
	v := viper.New()
	v.SetEnvPrefix("PENSTOCK")
	v.SetEnvKeyReplacer(strings.NewReplacer("-", "_"))
	v.AutomaticEnv()
	file := cmd.Flags().Lookup("config").Value.String()
	if file == "" {
		file = v.GetString("config")
	}
	if file != "" {
		v.SetConfigFile(file)
		v.SetConfigType("yaml")
		if err := v.ReadInConfig(); err != nil {
			return fmt.Errorf("--config: %w", err)
		}
		if err := unknown(v.AllKeys(), cmd.Root()); err != nil {
			return fmt.Errorf("--config: %s: %w", file, err)
		}
	}
	var errs []error
	cmd.Flags().VisitAll(func(f *pflag.Flag) {
		if f.Changed || !v.IsSet(f.Name) || !isSetting(f) {
			return
		}
		if err := set(cmd.Flags(), f, v.Get(f.Name)); err != nil {
			errs = append(errs, fmt.Errorf("setting %s (PENSTOCK_%s, or %s in --config): %w",
				f.Name, strings.ToUpper(strings.ReplaceAll(f.Name, "-", "_")), f.Name, err))
		}
	})
	return errors.Join(errs...)
}

// set gives a flag a value from elsewhere; lists are text with commas, or lists of the file.
func set(flags *pflag.FlagSet, f *pflag.Flag, value any) error {
	list, isList := value.([]any)
	into, takesLists := f.Value.(pflag.SliceValue)
	switch {
	case isList != (isList && takesLists):
		return errors.New("want one value, found a list")
	case !isList:
		return flags.Set(f.Name, fmt.Sprint(value))
	}
	texts := make([]string, len(list))
	for i, x := range list {
		texts[i] = fmt.Sprint(x)
	}
	if err := into.Replace(texts); err != nil {
		return err
	}
	f.Changed = true
	return nil
}

// perCall marks flags that PerCall named.
const perCall = "per call"

// PerCall says that flags are of a single call: neither environment nor file sets them, where the same names are those
// of other settings.
func PerCall(flags *pflag.FlagSet, names ...string) {
	for _, name := range names {
		_ = flags.SetAnnotation(name, perCall, nil) // it is there
	}
}

// isSetting leaves out the flags that ask for something else than the command, and those of a call.
func isSetting(f *pflag.Flag) bool {
	_, once := f.Annotations[perCall]
	return f.Name != "help" && f.Name != "version" && !once
}

// unknown names the keys that no command has.
func unknown(keys []string, root *cobra.Command) error {
	known := map[string]bool{}
	var walk func(*cobra.Command)
	walk = func(cmd *cobra.Command) {
		for _, flags := range []*pflag.FlagSet{cmd.Flags(), cmd.PersistentFlags()} {
			flags.VisitAll(func(f *pflag.Flag) { known[f.Name] = known[f.Name] || isSetting(f) })
		}
		for _, child := range cmd.Commands() {
			walk(child)
		}
	}
	walk(root)
	var errs []error
	for _, key := range keys {
		if !known[key] {
			errs = append(errs, fmt.Errorf("no command has a setting %q; settings are named like flags, see --help",
				key))
		}
	}
	return errors.Join(errs...)
}
