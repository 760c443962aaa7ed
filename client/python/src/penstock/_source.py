"""What a loader was told to read: as a spec, and in few words.

It stands between the loader's arguments and penstock.spec. Everything is pure, but for looks at files.
"""

from __future__ import annotations

import inspect
import os
from typing import Any

from penstock import _dataset
from penstock import spec as builders
from penstock.errors import UsageError
from penstock.features import Features


def words(uri: Any, spec: Any) -> str:
    """What a loader reads, in few words."""
    if spec is not None:
        text = os.fspath(spec)
        return "spec=..." if "\n" in text or text.lstrip().startswith("{") else f"spec={text!r}"
    uris = [uri] if isinstance(uri, (str, os.PathLike)) else list(uri)
    some = [os.fspath(u) for u in uris[:3]]
    more = f" and {len(uris) - 3} more" if len(uris) > 3 else ""
    return (repr(some[0]) if len(uris) == 1 else repr(some)) + more


def spec_of(
    spec: str | os.PathLike[str] | None,
    uri: Any,
    features: Features | None,
    batch_size: int | None,
    options: dict[str, Any],
) -> tuple[dict[str, Any] | None, str]:
    """The spec as a message, or as text."""
    defaults = inspect.signature(builders.build).parameters
    if spec is not None:
        given = [name for name, value in {"uri": uri, "features": features, "batch_size": batch_size}.items() if value]
        given += [name for name, value in options.items() if value != defaults[name].default and value != []]
        if given:
            raise UsageError(f"spec= says all of what to read, but there is also {', '.join(given)}; give one of them")
        return None, builders.read_text(spec)
    if uri is not None and features is None:
        raise UsageError(
            "features= says what to read, and batch_size= in how many rows at once (or global_batch_size=; a spec "
            f"file, as spec=, says all of it). {_dataset.described(uri, options['storage'])}"
        )
    if uri is None or (batch_size is None) == (options["global_batch_size"] is None):
        raise UsageError(
            "say what to read: a URI, features= and batch_size= (or global_batch_size=, of all ranks together), or "
            "spec= with a spec file"
        )
    assert features is not None
    return builders.build(uri, features, batch_size=batch_size, **options), ""
