"""The Python function that a run with --functions calls, in this one module for all, and how its trainers say so."""

import base64
import json
import time
from pathlib import Path

import numpy as np
import penstock
import pyarrow as pa
import pyarrow.compute as pc
from penstock import _bundle, _identity


@penstock.op(out={"x": penstock.float32, "ids": penstock.int64.list()}, timeout=5)
def mark(key, x, ids):
    """Halves x, and puts the row's key before its ids; recount.go and recount.py have the same."""
    Path("/proc/self/comm").write_text("called")  # so that faults see that it is ready for calls
    time.sleep(0.01)  # so that they find it at work
    offsets = ids.offsets.to_numpy()
    offsets = offsets - offsets[0]
    values = np.insert(ids.flatten().to_numpy(), offsets[:-1], key.to_numpy())
    longer = (offsets + np.arange(len(offsets))).astype(np.int32)
    return {
        "x": pc.multiply(x, pa.scalar(0.5, pa.float32())),
        "ids": pa.ListArray.from_arrays(longer, values),
    }


def spec():
    """What a spec has of it: its transforms, and its code's identity."""
    return {"transforms": [mark("key", "x", "ids").message([mark])], "code": _identity.of([(mark.name, mark.entry())])}


def code():
    """What it is made of."""
    return _bundle.pickled([mark])


def show():
    """Prints both, for trainers in Go."""
    print(json.dumps({"spec": spec(), "code": base64.b64encode(code()).decode()}))
