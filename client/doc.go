// Package client is the Go library inside a trainer: it opens a session on the master, streams the shards that
// the master granted from workers, and hands over batches of the spec's size in tensor layout.
//
// On the control path it talks to master (Sync: what was consumed out, what to hold in); on the data path it reads
// the Arrow Flight streams of worker. Positions and sets come from api/position.
//
// A session owns four kinds of goroutines, all waited for by Close (or by the end of Open's context): one that Syncs
// and waits for the others, one that opens streams, one for each open stream, and one reader for each of these (two
// while a worker is late). (gRPC has one more for each stream, which ends by itself once that does.) Rows travel
//
//	stream goroutine ─ piece.queue (bounded in bytes) ─▶ Next: copied once into a pooled batch ─▶ training loop
//
// The trainer owns the cursor: rows count as consumed when Next returns their batch, and not before. Streams fail over
// between a ticket's workers by themselves, so that they go on while no master can be reached. A stream that is late is
// opened a second time, on the next worker: the first to bring rows after the cursor wins, and what comes twice is
// dropped.
//
// Next, NextOfEpoch, Prepare, Batches, Close and Abandon belong to one goroutine; Info, RestoredFrom, State,
// StateAfter, Stats, Schema, Waiting, Epoch, EpochBatches and Batch.Release may be called from any.
//
// Session is the face of four parts:
//
//	control   talks to the master, and has the others take over what it answers
//	fetcher   opens streams of what is granted, and races a late one
//	ledger    keeps what is held, received, taken and consumed; it is pure bookkeeping
//	handover  makes batches of what came, and hands them over under the lease
//
// What they share stands behind one mutex, shared.mu: the ledger, and those of their fields that say so.
//
// When a process is stopped inside Next (SIGSTOP, a frozen container) and wakes after its lease ended, the one batch
// that was about to be returned may have been given to another rank too. Where the clock stood still, as on a machine
// that was suspended, these may be the batches up to its next Sync.
package client
