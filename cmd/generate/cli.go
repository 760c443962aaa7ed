package main

import (
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/penstock-ml/penstock/cmd"
	"github.com/penstock-ml/penstock/worker/transform"
)

// commands is the page of all commands, each with what --help says of it.
func commands() string {
	root := cmd.Command("", transform.Builtin())
	var b strings.Builder
	b.WriteString("# Commands\n\nAll of Penstock is one binary. `penstock COMMAND --help` says the same as this page.\n\n" +
		"Each flag can also be set by an environment variable (`--listen` is `PENSTOCK_LISTEN`) or in the YAML file that\n" +
		"`--config` names. A flag counts more than the environment, and that more than the file.\n")
	all := below(root)
	b.WriteString("\n| command | what it does |\n| --- | --- |\n")
	for _, c := range all {
		anchor := strings.ReplaceAll(c.CommandPath(), " ", "-")
		fmt.Fprintf(&b, "| [`%s`](#%s) | %s |\n", c.CommandPath(), anchor, cell(c.Short))
	}
	common := shared(all)
	b.WriteString("\n## Flags of all commands\n")
	flags(&b, common)
	for _, c := range all {
		command(&b, c, common)
	}
	return b.String()
}

// below are a command's, and theirs.
func below(c *cobra.Command) []*cobra.Command {
	var all []*cobra.Command
	for _, sub := range c.Commands() {
		if sub.IsAvailableCommand() {
			all = append(append(all, sub), below(sub)...)
		}
	}
	return all
}

// shared are the flags that all commands that run have, and that mean the same.
func shared(all []*cobra.Command) *pflag.FlagSet {
	out := pflag.NewFlagSet("", pflag.ContinueOnError)
	runs := slices.DeleteFunc(slices.Clone(all), func(c *cobra.Command) bool { return !c.Runnable() })
	runs[0].NonInheritedFlags().VisitAll(func(f *pflag.Flag) {
		lacks := func(c *cobra.Command) bool { return !has(c, f) }
		if !slices.ContainsFunc(runs, lacks) {
			out.AddFlag(f)
		}
	})
	return out
}

func has(c *cobra.Command, f *pflag.Flag) bool {
	own := c.Flag(f.Name)
	return own != nil && own.Usage == f.Usage && own.DefValue == f.DefValue
}

// command describes one command.
func command(b *strings.Builder, c *cobra.Command, common *pflag.FlagSet) {
	level := len(strings.Fields(c.CommandPath()))
	fmt.Fprintf(b, "\n%s %s\n\n", strings.Repeat("#", level), c.CommandPath())
	if c.Long != "" {
		b.WriteString(c.Long + "\n")
	} else {
		b.WriteString(c.Short + ".\n")
	}
	if c.Runnable() {
		fmt.Fprintf(b, "\n```text\n%s\n```\n", c.UseLine())
	}
	if c.Example != "" {
		fmt.Fprintf(b, "\n```console\n%s\n```\n", unindent(c.Example))
	}
	own := pflag.NewFlagSet("", pflag.ContinueOnError)
	c.LocalFlags().VisitAll(func(f *pflag.Flag) {
		if common.Lookup(f.Name) == nil {
			own.AddFlag(f)
		}
	})
	flags(b, own)
}

// flags are a command's, in a table.
func flags(b *strings.Builder, all *pflag.FlagSet) {
	first := true
	all.VisitAll(func(f *pflag.Flag) {
		if f.Hidden || f.Name == "help" {
			return
		}
		if first {
			b.WriteString("\n| flag | default | what it is |\n| --- | --- | --- |\n")
			first = false
		}
		kind, usage := pflag.UnquoteUsage(f)
		name := "--" + f.Name
		if f.Shorthand != "" {
			name = "-" + f.Shorthand + ", " + name
		}
		fmt.Fprintf(b, "| `%s` | %s | %s |\n", strings.TrimSpace(name+" "+kind), preset(f), cell(usage))
	})
}

// preset is the default of a flag, where it has one that says something.
func preset(f *pflag.Flag) string {
	switch f.DefValue {
	case "", "0", "0s", "false", "[]":
		return ""
	}
	return "`" + f.DefValue + "`"
}

// cell is text for a table.
func cell(text string) string {
	return strings.NewReplacer("|", "\\|", "\n", " ", "<", "&lt;", "*", "\\*").Replace(text)
}

// unindent takes the indentation of examples away.
func unindent(text string) string {
	lines := strings.Split(text, "\n")
	for i, l := range lines {
		lines[i] = strings.TrimPrefix(l, "  ")
	}
	return strings.Join(lines, "\n")
}
