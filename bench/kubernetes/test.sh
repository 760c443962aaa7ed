#!/usr/bin/env bash
# Tests deploy/kubernetes on a cluster of three real nodes, which cluster.sh makes of what it finds and builds. Where a part is missing
# this fails in CI, and elsewhere says which and does nothing.
set -euo pipefail
cd "$(dirname "$0")/../.."
trap 'bench/kubernetes/cluster.sh down' EXIT
cluster=$(bench/kubernetes/cluster.sh up 3) || {
	code=$?
	[[ $code == 78 && -z ${CI:-} ]] || exit "$code"
	echo "test-kubernetes: SKIPPED"
	exit 0
}
eval "$cluster"
go test -count=1 -timeout 15m -v -run "TestKubernetes${1:+/$1}" ./bench/kubernetes
