"""The console script `penstock`: becomes the Go binary of the same name.

So `penstock doctor`, `penstock local` and all other commands are there wherever the package is installed.
"""

from __future__ import annotations

import os
import sys

from penstock import _binary


def main() -> int:
    """Runs the binary with this process's arguments in place of this process. Returns only if that fails."""
    try:
        binary = _binary.find()
        if binary is None:
            print(f"penstock: {_binary.advice()}", file=sys.stderr)
        else:
            os.execv(binary, ["penstock", *sys.argv[1:]])
    except OSError as err:
        print(f"penstock: {err}", file=sys.stderr)
    return 1
