#!/usr/bin/env bash
# Makes a folder with Python, the penstock package and others, for an image that takes no container engine and no registry of images:
#
#   deploy/image/python.sh FOLDER REQUIREMENT...    such as pyarrow==26.0.1 ./wheels/ours.whl; PYTHON has pip and hatchling
#
# Python and its libraries are Debian's, of the release that this machine has; the packages are wheels. The binary is not among them.
set -euo pipefail
root=$(realpath -m "$1")
made=$root.part debs=$root.debs wheels=$root.wheels source=$(dirname "$0")/../../client/python
PYTHON=$("${PYTHON:-python3}" -c 'import sys; print(sys.executable)')
shift
rm -rf "$root" "$made" "$debs" "$wheels"
mkdir -p "$made" "$debs" "$wheels"

# What Python needs of Debian are libraries. Packages that do not begin so are tools to install others.
python=$(apt-cache depends python3-minimal | awk '/Depends: python3\./ {sub("-minimal", "", $2); print $2}')
mapfile -t packages < <(apt-cache depends --recurse --no-recommends --no-suggests --no-conflicts --no-breaks --no-replaces --no-enhances \
	"$python-minimal" "lib$python-stdlib" libstdc++6 | grep -E '^(lib|python3|zlib)' | grep -v perl | sort -u)
download() { (cd "$debs" && apt-get download -qq "${packages[@]}" 2>"$debs/log"); }
download || { apt-get update -qq && download; } || { cat "$debs/log" >&2; exit 1; } # the list was older than what is there
for deb in "$debs"/*.deb; do
	dpkg-deb --extract "$deb" "$made"
done
rm -rf "$made"/usr/share/{doc-base,lintian,man,locale,perl5} "$made"/usr/lib/*/gconv "$made"/lib/*/gconv
ln -sf "$python" "$made/usr/bin/python3"
ln -sf "$python" "$made/usr/bin/python"

cp -r "$source" "$wheels/source" # beside no sources of Go, so that it comes without the binary
(cd "$wheels/source" && "$PYTHON" -m hatchling build --target wheel --directory .. 2>"$debs/log") || { cat "$debs/log" >&2; exit 1; }
modules=$made/usr/local/lib/$python/dist-packages
"$PYTHON" -m pip install --quiet --disable-pip-version-check --root-user-action=ignore --no-compile --target "$modules" \
	--python-version "${python#python}" --platform "manylinux_2_28_$(uname -m)" --platform "manylinux2014_$(uname -m)" \
	--only-binary=:all: "$wheels"/*.whl "$@"
rm -rf "$modules"/bin "$modules"/pyarrow/{include,tests}

# Bytecode is never compared with its source: files of an image have no times. The image's own Python compiles, by its own libraries.
loader=$(echo "$made"/lib/*-linux-gnu/ld-linux-*.so.*)
PYTHONHOME=$made/usr "$loader" --library-path "${loader%/*}:$(echo "$made"/usr/lib/*-linux-gnu)" "$made/usr/bin/$python" -s -S \
	-m compileall -q --invalidation-mode unchecked-hash -s "$made" "$made/usr/lib/$python" "$modules"
rm -rf "$debs" "$wheels"
mv "$made" "$root"
