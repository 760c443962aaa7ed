"""Finds the penstock binary: for sessions, for the local fleet (penstock._onbox) and for the command (penstock._cli).

Nothing here changes anything; all functions may be called from any thread.
"""

from __future__ import annotations

import os
import platform
import subprocess
from importlib import metadata
from pathlib import Path

VARIABLE = "PENSTOCK_BINARY"
WHEELS = ("x86_64", "aarch64")  # the Linux machines that there are wheels with the binary for
NATIVE = (b"\x7fELF", b"\xcf\xfa\xed\xfe")  # how programs begin on Linux and macOS; scripts begin with #!


def find() -> Path | None:
    """The binary that PENSTOCK_BINARY names, else the one in this package, else one on PATH. None if there is none.

    Raises FileNotFoundError if PENSTOCK_BINARY names something that cannot be run.
    """
    named = os.environ.get(VARIABLE)
    if named:
        if not _is_program(Path(named)):
            raise FileNotFoundError(f"{VARIABLE}={named} is no program for this machine; name the penstock binary")
        return Path(named).absolute()
    bundled = Path(__file__).with_name("_bin") / "penstock"
    folders = [Path(folder) for folder in os.get_exec_path() if folder]
    candidates = [bundled, *(folder / "penstock" for folder in folders)]
    return next((path.absolute() for path in candidates if _is_program(path)), None)


def version() -> str:
    """The package's."""
    try:
        return metadata.version("penstock")
    except metadata.PackageNotFoundError:  # imported from its source folder
        return "VERSION"


def release(binary: Path) -> str:
    """What a binary says of which release it is."""
    try:
        done = subprocess.run([binary, "--version"], capture_output=True, text=True, timeout=10, check=False)
    except (OSError, ValueError, subprocess.TimeoutExpired):
        return "unknown"
    return done.stdout.strip().rpartition(" ")[2] or "unknown"


def advice() -> str:
    """What to do where there is no binary."""
    return f"this installation of penstock is without the penstock binary: {ways()}"


def ways() -> str:
    """How to get the binary that goes together with this package."""
    found = [f"build it with Go (`go install github.com/penstock-ml/penstock@latest`) and name it in {VARIABLE}"]
    if platform.system() == "Linux" and platform.machine() in WHEELS:
        wheel = (
            f"penstock-{version()}-py3-none-manylinux_2_17_{platform.machine()}.musllinux_1_1_{platform.machine()}.whl"
        )
        found.insert(0, f"install the wheel that has it ({wheel}; `make wheel` in penstock's repository builds it)")
    return "; or ".join(found)


def _is_program(path: Path) -> bool:
    """Tells the binary from the console script of the same name, which would only call itself."""
    try:
        with path.open("rb") as file:
            return file.read(4) in NATIVE and os.access(path, os.X_OK)
    except OSError:
        return False
