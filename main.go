// Penstock brings data to trainers: a fleet of workers reads, decodes and transforms training data away from the
// accelerators and streams ready tensors to them. This is its one binary.
//
// To run it with ops of your own, write such a main in a module of yours, and add them to the registry:
//
//	ops, err := transform.Builtin().With(myOp)
package main

import (
	"github.com/penstock-ml/penstock/cmd"
	"github.com/penstock-ml/penstock/worker/transform"
)

// release is set by builds of packages (-ldflags "-X main.release=1.2.3").
var release string //nolint:gochecknoglobals // the linker's way in

func main() { cmd.Main(release, transform.Builtin()) }
