"""Writes the code that the tests call: a bundle as a session has it, and the names of its functions in order."""

import json
import sys

import cloudpickle


def same(*columns):
    return columns if len(columns) > 1 else columns[0]


def sliced(column):
    """The same values, as arrays that begin in the middle of others."""
    import pyarrow as pa

    whole = pa.concat_arrays([column[:3], column, column[:2]])
    return whole[min(3, len(column)) :][: len(column)]


def chunked(column):
    import pyarrow as pa

    middle = len(column) // 2
    return pa.chunked_array([column[:middle], column[middle:]], column.type)


def double(x):
    return x * 2


def two(x):
    import pyarrow.compute as pc

    return pc.add(x, 1), [str(value) for value in x.to_pylist()]


def texts(raw, text):
    """Tensors of shape [2, 1] for each row."""
    import numpy as np

    assert [str(raw.type), str(text.type)] == ["binary", "string"]
    return np.arange(2 * len(raw), dtype=np.int32).reshape(len(raw), 2, 1)


class Count:
    """Counts its calls: it is made once a process."""

    def __init__(self, start):
        self.count = start

    def __call__(self, x):
        import os

        self.count += 1
        return [self.count] * len(x), [os.getpid()] * len(x)


class Unmade:
    def __init__(self):
        raise FileNotFoundError("model.bin")


def bad(x):
    raise ValueError("bad text")


def bad_row(x):
    if x == 3:
        raise ValueError("bad row")
    return x


def bad_rows(x):
    if x == 4:
        return "four"  # which is no int
    return bad_row(x)


def bad_among(x):
    x = x.tolist()
    if 3 in x:
        raise ValueError("bad row")
    return ["four"] * len(x) if 4 in x else x


def bad_parts(x):
    if x in (3, 4):
        raise ValueError("bad row")
    yield x, "a"
    yield x, "b"


def damaged(x):
    raise OSError("image file is truncated")


def absent(x):
    open("/no/such/file")  # noqa: PTH123


def long(x):
    return list(range(len(x) + 1))


def segfault(x):
    import ctypes

    ctypes.string_at(0)


def leave(x):
    import os

    print("last words")
    os._exit(3)


def once(path):
    """Dies at the first call, says how often it was called at the second one."""
    import os
    import signal

    with open(path[0].as_py(), "a+") as file:
        file.write(".")
        file.seek(0)
        calls = len(file.read())
    if calls == 1:
        os.kill(os.getpid(), signal.SIGKILL)
    return [calls] * len(path)


def hang(path):
    """Hangs from when on the file is there, until it is interrupted."""
    import time

    open(path[0].as_py(), "w").close()
    while True:
        time.sleep(0.01)


def deaf(path):
    import time

    open(path[0].as_py(), "w").close()
    while True:
        try:
            time.sleep(0.01)
        except BaseException:
            pass


def pid(x):
    import os

    return [os.getpid()] * len(x)


def forks(path):
    """Leaves children: one returns as if it were its parent, one hangs; their numbers are in the result."""
    import os
    import time

    first = os.fork()
    if first == 0:
        return [0] * len(path)
    os.waitpid(first, 0)
    second = os.fork()
    if second == 0:
        while True:
            time.sleep(1)
    return [second] * len(path)


def prints(x):
    import sys

    for i in range(20_000):
        print("line", i, "x" * 1000)
    print("on standard error", file=sys.stderr)
    return x


def hog(x):
    import time

    kept = []
    while True:
        kept.append(bytearray(b"x" * (8 << 20)))
        time.sleep(0.001)


def child_hog(x):
    """Leaves the memory to a child."""
    import subprocess
    import sys

    subprocess.run([sys.executable, "-c", "import time; kept = b'x' * (400 << 20); time.sleep(60)"], check=True)


class Keeps:
    """Keeps its inputs, and returns those of the call before."""

    def __init__(self):
        self.kept = None

    def __call__(self, x):
        before, self.kept = self.kept, x
        return x if before is None else before


class Leaks:
    """Keeps all inputs, which lie in memory of the worker's."""

    def __init__(self):
        self.kept = []

    def __call__(self, x):
        import os

        import numpy as np

        self.kept.append(x)
        return np.full(len(x), os.getpid(), np.int32)


def large(n):
    return [b"x" * (n[0].as_py())] * len(n)


def writes(x):
    """Tries to change its input."""
    import numpy as np

    values = x.to_numpy()
    values.flags.writeable = True
    values[0] = 7
    return x


def says(text):
    """Answers for itself: with these messages, that have the number of the call."""
    import os
    import struct
    import sys

    frame = sys._getframe()
    while "request" not in frame.f_locals:
        frame = frame.f_back
    number = frame.f_locals["request"]["number"]
    for each in text.to_pylist():
        body = each.replace(b"NUMBER", str(number).encode())
        os.write(3, struct.pack("<I", len(body)) + body)
    os.read(3, 1 << 20)
    raise SystemExit


def huge(x):
    import os

    os.write(3, b"\xff\xff\xff\xff")
    os.read(3, 1)


def environment(x):
    import os
    import resource

    status = open("/proc/self/status").read()
    privileges = [line for line in status.splitlines() if line.startswith("NoNewPrivs")][0].split()[1]
    told = [f"{name}={value}" for name, value in sorted(os.environ.items())]
    told += [f"privileges={privileges}", f"core={resource.getrlimit(resource.RLIMIT_CORE)[0]}"]
    told += [f"session={os.getsid(0) == os.getpid()}"]
    return ["\n".join(told)] * len(x)


def odd(x):
    """A filter."""
    return x % 2 == 1


def odd_row(x):
    return x % 2 == 1


def repeat(x):
    """A flat_map that makes as many rows of each as its value says."""
    import numpy as np

    parents = np.repeat(np.arange(len(x)), x)
    return parents, x[parents] * 10 + np.arange(len(parents)), [str(parent) for parent in parents]


def repeat_row(x):
    for i in range(x):
        yield x * 10 + i, str(x)


def falls(x):
    return [1, 0], [1, 2], ["a", "b"]


def endless(x):
    while True:
        yield x, ""


def drawn(x, rng):
    return int(rng.integers(1 << 62))


def drawn_seeds(x, seeds):
    import numpy as np

    assert isinstance(seeds, np.ndarray) and seeds.dtype == np.uint64 and not seeds.flags.writeable
    return seeds.view(np.int64)


def leaves(x):
    """Leaves a program in a session of its own, whose parent has ended."""
    import subprocess
    import sys

    program = """
import subprocess
print(subprocess.Popen(["sleep", "1000"], start_new_session=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL).pid)
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    return [int(done.stdout)] * len(x)


def peeks(x):
    """What a user without privileges reads of its own process, and of its parent."""
    import ctypes
    import os

    header, nothing = (ctypes.c_uint32 * 2)(0x20080522, 0), (ctypes.c_uint32 * 6)()
    if ctypes.CDLL(None).capset(header, nothing) != 0:
        raise OSError("capset")
    told = []
    for pid in (os.getpid(), os.getppid()):
        for name in ("environ", "mem", "fd/0"):
            try:
                path = f"/proc/{pid}/{name}"
                told.append(f"{name} {os.readlink(path) if name == 'fd/0' else open(path, 'rb')}")
            except OSError as err:
                told.append(f"{name} {type(err).__name__}")
    return ["; ".join(told)] * len(x)


def lives(x):
    """Who it is, and where."""
    import os

    with open(os.path.join(os.environ["TMPDIR"], "mine"), "w") as file:
        file.write("x")
    return [f"{os.getuid()} {os.getgid()} {os.getgroups()} {os.environ['HOME']}"] * len(x)


def sums(photo):
    return -1 if photo is None else int(photo.sum()) + 1000 * photo.shape[0] + 100 * photo.shape[1]


functions = [
    (leaves, (), {}), (peeks, (), {}), (lives, (), {}),
    (same, (), {}), (sliced, (), {}), (chunked, (), {}), (double, (), {}), (two, (), {}), (texts, (), {}), (Count, (10,), {}),
    (Unmade, (), {}), (bad, (), {}), (bad_row, (), {}), (long, (), {}), (segfault, (), {}), (leave, (), {}),
    (once, (), {}), (hang, (), {}), (deaf, (), {}), (pid, (), {}), (forks, (), {}), (prints, (), {}), (hog, (), {}), (child_hog, (), {}),
    (Keeps, (), {}), (Leaks, (), {}), (large, (), {}), (writes, (), {}), (says, (), {}), (huge, (), {}),
    (environment, (), {}), (odd, (), {}), (odd_row, (), {}), (repeat, (), {}), (repeat_row, (), {}), (falls, (), {}),
    (endless, (), {}), (drawn, (), {}), (drawn_seeds, (), {}), (sums, (), {}), (bad_rows, (), {}),
    (bad_among, (), {}), (bad_parts, (), {}), (damaged, (), {}), (absent, (), {}),
]  # fmt: skip
bundle = cloudpickle.dumps([{"call": call, "args": args, "kwargs": kwargs} for call, args, kwargs in functions])
json.dump({"names": [call.__name__ for call, _, _ in functions], "bundle": bundle.hex()}, sys.stdout)
