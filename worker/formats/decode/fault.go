package decode

// Fault is a row of a window that cannot be decoded because of its bytes: on any worker it is the same.
type Fault struct {
	Row int   // of the window
	Err error // what is wrong, and in which column or at which byte; whoever reads it names file and row
}
