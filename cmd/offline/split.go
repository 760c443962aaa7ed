package offline

import "github.com/spf13/pflag"

// splitFlags are those that choose among the files of a folder.
func splitFlags(flags *pflag.FlagSet, split, subset *string) {
	flags.StringVar(split, "split", "",
		"of a folder, the files of a split, as a spec's dataset.split: train, or all (default: all files)")
	flags.StringVar(subset, "subset", "",
		"of a folder, the subset of the split, as a spec's dataset.subset (default: the only one, or the default one)")
}
