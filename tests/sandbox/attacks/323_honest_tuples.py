# family: honest; goal: none
# Tuples where the tests say lists: JSON, in which the tests are written, has no tuples.
from itertools import groupby


def groups(values):
    return tuple(tuple(run) for _, run in groupby(values))
