#!/usr/bin/env bash
# A cluster of real nodes on this machine that takes deploy/kubernetes as it is: images under the names that the manifests have, names
# of Services, and volumes. The scripts of PENSTOCK_TESTBED (default ../shared/testbed) make its nodes of containerd and kubelet. As root:
#
#   bench/kubernetes/cluster.sh up [NODES]      builds what is missing; prints how to reach the cluster
#   bench/kubernetes/cluster.sh down            always: it gives back addresses, mounts and firewall chains
set -euo pipefail
cd "$(dirname "$0")/../.."
export PENSTOCK_TESTBED=${PENSTOCK_TESTBED:-$PWD/../shared/testbed} PENSTOCK_MINIO=${PENSTOCK_MINIO:-$PWD/.cache/tools/bin/minio} CGO_ENABLED=0
parts=${TESTBED:-$HOME/.cache/testbed} # its binaries are shared with others
home=$parts/penstock
export TESTBED=$home/cluster # bin and run of this cluster
run=$TESTBED/run

needs() {
	echo "cluster: $1" >&2
	exit 78 # and nothing has begun
}

check() {
	[[ $(uname) == Linux && $(id -u) == 0 ]] || needs "nodes are made by root on Linux"
	[[ -x $PENSTOCK_TESTBED/kube/cluster.sh ]] || needs "$PENSTOCK_TESTBED holds no testbed; PENSTOCK_TESTBED names its folder"
	for part in containerd ctr runc nft ip openssl curl setpriv; do
		command -v "$part" >/dev/null || needs "$part is not installed: apt-get install containerd runc containernetworking-plugins nftables iproute2 openssl curl util-linux"
	done
	[[ -x /usr/lib/cni/portmap ]] || needs "apt-get install containernetworking-plugins"
	[[ -x $PENSTOCK_MINIO ]] || needs "$PENSTOCK_MINIO is no MinIO server: make tools builds one"
}

# named prints the name with the tag that the manifests have for an image.
named() { # NAME
	awk -v name="$1" '$1 == "newName:" {n = $2} $1 == "newTag:" && n == name {print n ":" $2}' deploy/kubernetes/*/kustomization.yaml
}

build() {
	TESTBED=$parts "$PENSTOCK_TESTBED/kube/build.sh"
	mkdir -p "$home/pause" "$home/images" "$TESTBED/bin"
	ln -sf "$parts"/bin/* "$TESTBED/bin/"
	# Pods ask the node for names. A kubelet that ends is started again, as an init does it; it ends with this program.
	rm -f "$TESTBED/bin/kubelet"
	cat >"$TESTBED/bin/kubelet" <<-K
		#!/bin/sh
		while :; do
			setpriv --pdeathsig KILL '$parts/bin/kubelet' "\$@" --cluster-dns=10.99.0.1 --cluster-domain=cluster.local
			echo "kubelet ended with \$?"
			sleep 1
		done
	K
	chmod +x "$TESTBED/bin/kubelet"
	go build -trimpath -ldflags '-s -w' -o "$home/penstock" .
	go build -trimpath -ldflags '-s -w' -o "$home/trainer" ./bench/kubernetes/trainer
	go build -o "$home/names" ./bench/kubernetes/names
	go build -o "$home/image" ./deploy/image
	cp "$PENSTOCK_TESTBED/kube/pause.go.txt" "$home/pause/main.go"
	go build -o "$home/pause/pause" "$home/pause/main.go"
	image 127.0.0.1:15000/pause:v1 ../pause /pause="$home/pause/pause" # the testbed's name for it
	image penstock:dev penstock /usr/bin/penstock="$home/penstock"
	image penstock-test-trainer:dev trainer /usr/bin/trainer="$home/trainer"
	image "$(named gcr.io/etcd-development/etcd)" etcd /usr/local/bin/etcd="$parts/bin/etcd"
	image "$(named quay.io/minio/minio)" minio /usr/bin/minio="$PENSTOCK_MINIO"
	python_image
}

# python_image makes the image with Python, in which a package of functions is, for workers, for sidecars, and for the example's trainer.
# That one trains nothing, and has no torch.
python_image() {
	local root=$home/python venv=$PWD/.venv packages modules
	[[ -x $venv/bin/python ]] || needs "there is no .venv: make python"
	read -ra packages <<<"${PENSTOCK_PYTHON_PACKAGES:-pyarrow numpy cloudpickle}"
	if [[ ! -d $root || -n $(find client/python/src client/python/*.py client/python/pyproject.toml Makefile deploy/image/python.sh -newer "$root" -print -quit) ]]; then
		PYTHON=$venv/bin/python deploy/image/python.sh "$root" "${packages[@]}"
	fi
	modules=$(echo "$root"/usr/local/lib/python3*/dist-packages)
	image penstock-python:dev,penstock-trainer:dev python --entrypoint /usr/bin/penstock /="$root" /usr/bin/penstock="$home/penstock" \
		"${modules#"$root"}/clicks=bench/kubernetes/testdata/clicks"
}

image() { # TAG NAME PATH=FILE...
	"$home/image" --tag "$1" --output "$home/images/$2.tar" "${@:3}" >/dev/null
}

up() {
	check
	build >&2
	down
	# What the nodes keep lies in memory: kubelets evict pods from disks that are nearly full, and this is not about those.
	mkdir -p "$run"
	mount -t tmpfs -o size=10g,mode=755 penstock-testbed "$run"
	IMAGES=$home/pause.tar "$PENSTOCK_TESTBED/kube/cluster.sh" up "$1" >"$home/cluster.log" 2>&1 </dev/null
	for i in $(seq "$1"); do
		host_ports "$i"
		for archive in "$home"/images/*.tar; do
			ctr -a "$run/n$i/c.sock" -n k8s.io images import "$archive" >/dev/null
		done
	done
	setsid "$home/names" 10.99.0.1:53 https://10.99.0.1:16443 admintoken >"$run/names.log" 2>&1 </dev/null &
	echo $! >"$run/names.pid"
	volumes
	echo "export KUBECONFIG=$run/kubeconfig PENSTOCK_CLUSTER=$home PATH=$TESTBED/bin:\$PATH"
}

# host_ports has the node's network give pods ports of the node: of its own address, since all nodes share this machine's network.
host_ports() { # NODE
	local plugin='{"type":"portmap","capabilities":{"portMappings":true},"snat":true,"conditionsV4":["-d","10.99.0.1'$1'"]}'
	sed -i "s|\]}\$|,$plugin]}|" "$run/n$1/net.d/10.conflist"
}

# volumes are folders of this machine, for claims of no class.
volumes() {
	local i
	for i in $(seq 12); do
		mkdir -p -m 777 "$run/volumes/$i"
		cat <<-V
			{"apiVersion": "v1", "kind": "PersistentVolume", "metadata": {"name": "volume-$i"}, "spec": {"capacity": {"storage": "20Gi"},
			"accessModes": ["ReadWriteOnce"], "hostPath": {"path": "$run/volumes/$i"}}}
		V
	done | KUBECONFIG=$run/kubeconfig "$TESTBED/bin/kubectl" create -f - >/dev/null
}

down() {
	[[ ! -f $run/names.pid ]] || kill "$(cat "$run/names.pid")" 2>/dev/null || true
	"$PENSTOCK_TESTBED/kube/cluster.sh" down >/dev/null 2>&1 || true
	umount "$run" 2>/dev/null || true
	local chain what # of portmap, which adds a rule twice where two pods come at once
	for chain in PREROUTING OUTPUT; do
		while iptables -t nat -D "$chain" -m addrtype --dst-type LOCAL -j CNI-HOSTPORT-DNAT 2>/dev/null; do :; done
	done
	while iptables -t nat -D POSTROUTING -m comment --comment "CNI portfwd requiring masquerade" -j CNI-HOSTPORT-MASQ 2>/dev/null; do :; done
	for what in -F -X; do
		iptables -t nat -S 2>/dev/null | awk -v what="$what" '$1 == "-N" && $2 ~ /^CNI-(HOSTPORT|DN)-/ {print what, $2}' |
			xargs -r -L1 iptables -t nat
	done
}

case ${1:-} in
up) up "${2:-3}" ;;
down) down ;;
*)
	echo "usage: cluster.sh up [NODES] | down" >&2
	exit 2
	;;
esac
