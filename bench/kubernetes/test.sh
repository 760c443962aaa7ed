#!/usr/bin/env bash
# Tests deploy/kubernetes on a cluster of real nodes on this machine, which the scripts of PENSTOCK_TESTBED make (default
# ../shared/testbed). It needs root and Debian's containerd, runc, containernetworking-plugins, nftables, iproute2 and openssl.
# Where a part is missing it fails in CI, and elsewhere says which and does nothing.
set -euo pipefail
cd "$(dirname "$0")/../.."
export PENSTOCK_TESTBED=${PENSTOCK_TESTBED:-$PWD/../shared/testbed} TESTBED=${TESTBED:-$HOME/.cache/testbed}

missing() {
	echo "test-kubernetes: $1"
	[[ -z ${CI:-} ]] || exit 1
	echo "test-kubernetes: SKIPPED"
	exit 0
}
[[ $(uname) == Linux && $(id -u) == 0 ]] || missing "nodes are made by root on Linux"
[[ -x $PENSTOCK_TESTBED/kube/cluster.sh ]] || missing "$PENSTOCK_TESTBED holds no testbed; PENSTOCK_TESTBED names its folder"
for part in containerd ctr runc nft ip openssl curl; do
	command -v "$part" >/dev/null || missing "$part is not installed: apt-get install containerd runc containernetworking-plugins nftables iproute2 openssl curl"
done
[[ -x /usr/lib/cni/bridge ]] || missing "apt-get install containernetworking-plugins"

out=$TESTBED/penstock
mkdir -p "$out/pause"
"$PENSTOCK_TESTBED/kube/build.sh"
export CGO_ENABLED=0
go build -trimpath -ldflags '-s -w' -o "$out/penstock" .
go build -trimpath -ldflags '-s -w' -o "$out/trainer" ./bench/kubernetes/trainer
go build -o "$out/image" ./deploy/image
cp "$PENSTOCK_TESTBED/kube/pause.go.txt" "$out/pause/main.go"
go build -o "$out/pause/pause" "$out/pause/main.go"
image() { # NAME PATH FILE; the testbed finds images on its nodes by these tags
	"$out/image" --tag "127.0.0.1:15000/$1:v1" --output "$out/$1.tar" "$2=$3"
}
image pause /pause "$out/pause/pause"
image etcd /usr/local/bin/etcd "$TESTBED/bin/etcd"
image minio /usr/bin/minio "$PENSTOCK_MINIO"
image penstock /usr/bin/penstock "$out/penstock"
image trainer /usr/bin/trainer "$out/trainer"

# What the nodes keep lies in memory: kubelets evict pods from disks that are nearly full, and this is not about those.
down() {
	"$PENSTOCK_TESTBED/kube/cluster.sh" down >/dev/null 2>&1 || true
	umount "$TESTBED/run" 2>/dev/null || true
}
trap down EXIT
down
mkdir -p "$TESTBED/run"
mount -t tmpfs -o size=8g,mode=755 penstock-testbed "$TESTBED/run"
go test -count=1 -timeout 15m -v -run TestFleet ./bench/kubernetes
