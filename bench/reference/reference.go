// Package reference verifies what a fleet delivered, independently: it interprets a spec row by row, in the plainest
// way that can be, over the dataset's files, and compares the rows that should come out with the ledgers that
// trainers wrote. It shares no code with the worker: its own globs, filter, ops and tensors' rules, parquet-go for
// Parquet, and for all other formats readers of its own, which hold a whole file in memory. These look for types at
// what lies in a file's first 256 KiB, decompressed.
//
// An Interpreter says what is Expected; Records hashes what was delivered, batch by batch, and a Ledger keeps it;
// Compare tells whether the two are the same multiset of (file, row, content). A Hasher, a Ledger and a Records belong
// to one goroutine; an Interpreter may be used by many.
package reference
