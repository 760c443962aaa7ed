// Package kubernetes tests what deploy/ ships on a real cluster: nodes are containerd and kubelet, several on one
// machine, pods are real. `make test-kubernetes` runs it, as root on Linux. It is one test, whose steps run one after
// the other.
package kubernetes
