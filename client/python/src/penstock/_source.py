"""What a loader was told to read: as a spec, and in few words.

It stands between the loader's arguments and penstock.spec. Everything is pure, but for looks at files.
"""

from __future__ import annotations

import dataclasses
import inspect
import os
from collections.abc import Iterable, Mapping
from typing import Any

from penstock import _bundle, _dataset
from penstock import spec as builders
from penstock._op import Transform, functions_of
from penstock.errors import UsageError
from penstock.features import Features
from penstock.groups import Data


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
    data: Data,
    options: dict[str, Any],
) -> tuple[dict[str, Any] | None, str, bytes | None]:
    """The spec as a message, or as text, and the code of its Python functions, if it has any."""
    if spec is not None:
        _check_alone(uri, features, batch_size, data, options)
        return None, builders.read_text(spec), None
    if uri is not None and features is None:
        raise UsageError(
            "features= says what to read, and batch_size= in how many rows at once (or data=penstock.Data("
            "global_batch_size=...); a spec file, as spec=, says all of it). "
            f"{_dataset.described(uri, data.storage, options['split'], options['subset'])}"
        )
    if uri is None or (batch_size is None) == (data.global_batch_size is None):
        raise UsageError(
            "say what to read: a URI, features= and batch_size= (or data=penstock.Data(global_batch_size=...), of all "
            "ranks together), or spec= with a spec file"
        )
    assert features is not None
    given = options.get("transforms", ())
    transforms: list[Transform] = list(given) if isinstance(given, Iterable) else [given]
    made = builders.build(uri, features, batch_size=batch_size, data=data, **{**options, "transforms": transforms})
    functions = builders.by_value(functions_of(transforms))
    return made, "", _bundle.pickled(functions) if functions else None


def _check_alone(
    uri: Any, features: Features | None, batch_size: int | None, data: Data, options: Mapping[str, Any]
) -> None:
    """Refuses what stands beside a spec and would say otherwise."""
    defaults = inspect.signature(builders.build).parameters
    given = [name for name, value in {"uri": uri, "features": features, "batch_size": batch_size}.items() if value]
    given += [name for name, value in options.items() if value != defaults[name].default and value != []]
    given += [repr(data)] if dataclasses.replace(data, accept_code_change=False, try_functions=True) != Data() else []
    if given:
        raise UsageError(f"spec= says all of what to read, but there is also {', '.join(given)}; give one of them")
