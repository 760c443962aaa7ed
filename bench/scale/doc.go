// Package scale measures what the control plane costs at the sizes that it is made for: a session of a million shards,
// a thousand trainers. Masters run in the benchmark's process, etcd in processes of its own (master/store/storetest),
// and the trainers are calls: they consume what they are granted without a worker. There is nothing here but
// benchmarks.
package scale
