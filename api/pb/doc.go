// Package pb holds the protobuf messages and services of Penstock's control plane, its tickets and its
// records in etcd. The .proto files beside it are the documentation of each field; `make proto` regenerates
// the Go code. Messages are plain data: they are safe for concurrent reads, not for concurrent writes.
package pb
