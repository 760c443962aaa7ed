"""What gRPC's C++ libraries, grpcio's and pyarrow's, are told by the environment, which they read when they are loaded.

The package imports this first. Settings that are there already stay.
"""

from __future__ import annotations

import os

# Failed connections are told by exceptions: gRPC need not print each to stderr as well.
os.environ.setdefault("GRPC_VERBOSITY", "ERROR")
# A fork's child has no use of the parent's connections (see _session/forks.py), but the handlers that would carry them
# over stop all calls while a process forks, or print that they cannot.
os.environ.setdefault("GRPC_ENABLE_FORK_SUPPORT", "0")
