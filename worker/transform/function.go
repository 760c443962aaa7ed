package transform

import (
	"context"

	"github.com/penstock-ml/penstock/api/pb"
	"github.com/penstock-ml/penstock/api/spec"
	"github.com/penstock-ml/penstock/worker/vector"
)

// Functions gives the user's functions that a Program's steps call.
type Functions interface {
	// Function returns what a step calls with inputs of the given types, for one Chain.
	Function(step *pb.Step, in []spec.Type) (Function, error)
}

// Function is a function of the user's. It belongs to one Chain; its Call is not called concurrently.
type Function interface {
	// Call fills c.Out, and c.Parents if the function does not make one row of each. It returns when the function has,
	// or soon after ctx has ended. A RowError names a row of the inputs.
	Call(ctx context.Context, c *Call) error
	// Close gives up what is kept from one call to the next.
	Close()
}

// Call is one call of a Function: a window's rows that passed what stands before it, in the file's order.
type Call struct {
	Rows Rows // where they lie
	N    int  // how many
	In   []*vector.Vector
	// Out has a vector for each result, of the type that the step says. The function makes the rest of it: rows,
	// values, and all bitmaps and offsets anew. What it assigns is its own, and stays as it is until the next call.
	Out []*vector.Vector
	// Parents has the row of the inputs that each row of the results is of, never falling; nil: row i is of row i.
	Parents []int32
	// Room is asked before results take so many bytes more than in the calls before. An error ends the call.
	Room func(bytes int64) error
	// Wait is called now and then while the function runs, by who called. An error ends the call.
	Wait func() error
}
