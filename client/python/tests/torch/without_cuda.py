"""Lets torch's CUDA build run where CUDA is not installed, by stand-ins for the libraries that it links.

    python without_cuda.py SITE_PACKAGES

PyPI's torch for Linux links cuBLAS, cuDNN, NCCL and others: gigabytes that a test on CPUs loads and never calls.
Each becomes a small library with the symbols and versions that torch's own libraries name; to call one aborts the
process, and says which. Only the CUDA runtime must be real (nvidia-cuda-runtime, 2 MB): it is asked for devices at
import, and answers that there are none. Needs binutils and a C compiler, as `go test -race` does.
"""

from __future__ import annotations

import re
import subprocess
import sys
import tempfile
from collections import defaultdict
from pathlib import Path

LIBRARY = re.compile(r"lib(cu(?!da)|nccl|nv)\S*\.so\.\d+")  # libcublas.so.13; neither the runtime nor the driver
SYMBOL = re.compile(r"cu[A-Z]|cusparseLt|nccl|nvshmem")  # of libraries that do not version their symbols
UNVERSIONED = "libnccl.so.2"  # stands in for all of those

Symbols = dict[str, dict[str, set[str]]]  # library, version, names


def run(*command: str) -> str:
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


def add_missing(library: Path, missing: Symbols) -> None:
    """Adds what library needs of CUDA to missing."""
    for name in re.findall(r"\(NEEDED\).*\[(.*)\]", run("readelf", "--dynamic", "--wide", str(library))):
        if LIBRARY.fullmatch(name):
            missing[name]  # even one without versioned symbols has to be there
    owners: dict[str, str] = {}
    for owner, version in re.findall(r"File: (\S+)|Name: (\S+)", run("readelf", "--version-info", str(library))):
        if owner:
            file = owner
        else:
            owners[version] = file
    for line in run("nm", "--dynamic", "--undefined-only", "--with-symbol-versions", str(library)).splitlines():
        symbol, _, version = line.split()[-1].partition("@")
        if not version and SYMBOL.match(symbol):
            missing[UNVERSIONED][""].add(symbol)
        elif LIBRARY.fullmatch(owners.get(version, "")):
            missing[owners[version]][version].add(symbol)


def build(library: Path, versions: dict[str, set[str]]) -> None:
    """Compiles a library of which each function says its name and aborts."""
    names = sorted(set().union(*versions.values()))
    source = ["#include <stdio.h>", "#include <stdlib.h>"]
    source += [f'void {name}(void) {{ fputs("{name}: CUDA is not installed\\n", stderr); abort(); }}' for name in names]
    script = [f"{version} {{ global: {'; '.join(sorted(names))}; }};" for version, names in versions.items() if version]
    with tempfile.TemporaryDirectory() as folder:
        code, exports = Path(folder, "code.c"), Path(folder, "exports")
        code.write_text("\n".join(source))
        exports.write_text("\n".join(script))
        flags = [f"-Wl,--version-script={exports}"] if script else []
        run("cc", "-shared", "-fPIC", "-w", f"-Wl,-soname={library.name}", *flags, "-o", str(library), str(code))


def main() -> None:
    site = Path(sys.argv[1])
    missing: Symbols = defaultdict(lambda: defaultdict(set))
    for library in sorted(site.glob("torch/lib/*.so")):
        add_missing(library, missing)
    folder = next(site.glob("nvidia/cu*/lib"))  # the runtime's, where torch looks for all of them
    for name, versions in missing.items():
        build(folder / name, versions)
    print(f"stand-ins for {', '.join(sorted(missing))} in {folder}")


if __name__ == "__main__":
    main()
