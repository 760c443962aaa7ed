"""Functions by name of the pool's tests."""

import numpy as np

import penstock


@penstock.op(out={"many": penstock.int64}, by="numpy", memory=200 << 20, threads=1)
def times(x, *, by=1, plus=()):
    return x * by + np.int64(sum(plus))


class Add:
    def __init__(self, value=1):
        self.value = value

    def __call__(self, x):
        return x + self.value


add = penstock.op(Add, out=penstock.int64, by="numpy", kwargs={"value": 5})


def not_marked(x):
    return x
