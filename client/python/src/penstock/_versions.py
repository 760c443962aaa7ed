"""Versions of Python and of packages: what a function's environment is, and how this one differs from it."""

from __future__ import annotations

import importlib
import importlib.metadata
import re
import sys
from collections.abc import Iterable, Iterator


def python() -> str:
    """Python's version, as far as code depends on it: "3.11"."""
    return f"{sys.version_info.major}.{sys.version_info.minor}"


def public(package: str, module: str) -> str:
    """A package's public version, without what tells its builds apart (+cu121); "" if none is known.

    module: one of it, which may say the version if the package says none.
    """
    try:
        version = importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        version = str(getattr(sys.modules.get(module), "__version__", ""))
    return version.partition("+")[0]


def normalised(package: str) -> str:
    """A package's name as all spellings of it have it."""
    return re.sub("[-_.]+", "-", package).lower()


def difference(wanted: str, distributions: Iterable[str]) -> str:
    """What differs here from an environment, in words; "": nothing.

    Args:
        wanted: the version of Python there; "" if it is not known.
        distributions: the packages there, as "numpy==2.1.0", or as "numpy" if their version is not known.
    """
    return ", ".join(_differences(wanted, distributions))


def _differences(wanted: str, distributions: Iterable[str]) -> Iterator[str]:
    there = "where the session was opened"
    if wanted not in ("", python()):
        yield f"Python is {python()} here, and {wanted} {there}"
    for distribution in distributions:
        name, _, version = distribution.partition("==")
        found = _here(name) if version else ""
        if version and not found:
            yield f"{name} is not here, and {version} {there}"
        elif found != version:
            yield f"{name} is {found} here, and {version} {there}"


def _here(name: str) -> str:
    """The version that is installed here, or that a module of this name says."""
    if not public(name, name):
        try:
            importlib.import_module(name)
        except Exception:  # of any kind: it runs what is there
            return ""
    return public(name, name)
