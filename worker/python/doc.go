// Package python runs users' functions in Python processes beside the worker. The pipeline takes functions from a Pool
// for the chains of its streams (transform.Function); each call hands a window's columns to a process and copies the
// results out.
//
// A process belongs to a key: an environment, a namespace and the code that it has loaded. It serves all chains of its
// key, one call at a time, and no chain holds one between its calls: so whoever has a process waits for nobody else.
// The worker makes the memory that both have mapped. What a process answers is checked as what a stranger sends.
//
// Pool.Run owns the goroutines: one starts processes, on a thread that lives as long as they, one watches their memory,
// and of each process one waits for its end, one reads its answers and one what it prints. A Pool may be used by many
// goroutines; a Function belongs to its chain.
package python
