"""Prints a function that takes long without a processor: the part of a spec that calls it, and its code."""

import base64
import json
import time

import penstock
from penstock import _bundle, _identity


@penstock.op(out={"slow": penstock.float32}, timeout=60)
def sleeps(kind):
    """Waits for longer than anything else takes."""
    time.sleep(3)
    return {"slow": kind.cast("float32")}


spec = {
    "transforms": [sleeps("kind").message([sleeps])],
    "code": _identity.of([(sleeps.name, sleeps.entry())]),
}
print(json.dumps({"spec": spec, "code": base64.b64encode(_bundle.pickled([sleeps])).decode()}))
