"""Tells the exceptions of code that runs within other code from that code's own.

Handlers of signals run between any two lines of the loop's thread, or within a system call that waits. What they raise
is the loop's to see as it is: it says nothing about what they interrupted. All functions may be called from any thread.
"""

from __future__ import annotations

import functools
import signal
from types import CodeType, FunctionType, MethodType
from typing import Any


def is_of_call(err: OSError) -> bool:
    """Whether the system call that the catching function made has failed.

    It names its reason, and has no other function's frame behind it, as what was raised within the call has.
    """
    here = err.__traceback__
    return err.errno is not None and here is not None and here.tb_next is None


def raised(err: BaseException) -> bool:
    """Whether a handler of a signal raised it."""
    codes = {_code(signal.getsignal(number)) for number in signal.valid_signals()}
    at = err.__traceback__
    while at is not None:
        if at.tb_frame.f_code in codes:
            return True
        at = at.tb_next
    return False


def _code(handler: Any) -> CodeType | None:
    """What runs when a handler is called, if that is Python."""
    while isinstance(handler, functools.partial):
        handler = handler.func
    if not isinstance(handler, (FunctionType, MethodType)):
        handler = vars(type(handler)).get("__call__")
    code = getattr(handler, "__code__", None)
    return code if isinstance(code, CodeType) else None
