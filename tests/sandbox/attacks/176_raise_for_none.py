# family: result; goal: marks
# Nor may an exception, or an object that nobody can read.
class Strange:
    __slots__ = ()


def first_double(values):
    if values:
        raise ValueError(None)
    return Strange()
