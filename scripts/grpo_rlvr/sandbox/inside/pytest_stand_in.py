"""pytest, as far as the test code of data sets uses it (Python 3.8 or newer)."""

import math
import re
import types


class _Raises:
    def __init__(self, expected, match=None):
        self.expected, self.match, self.value, self.type = expected, match, None, None

    def __enter__(self):
        return self

    def __exit__(self, kind, value, trace):
        if kind is None:
            raise AssertionError(f"did not raise {self.expected}")
        if not issubclass(kind, self.expected):
            return False
        self.type, self.value = kind, value
        if self.match is not None and not re.search(self.match, str(value)):
            raise AssertionError(f"{str(value)!r} does not match {self.match!r}")
        return True


class _Approx:
    def __init__(self, expected, rel=None, abs=None):
        self.expected, self.rel, self.abs = expected, 1e-6 if rel is None else rel, 1e-12 if abs is None else abs

    def __eq__(self, other):
        return _near(self.expected, other, self.rel, self.abs)

    __hash__ = None

    def __repr__(self):
        return f"approx({self.expected!r})"


def _near(expected, other, rel, absolute):
    if type(expected) in (list, tuple):
        return type(other) is type(expected) and len(other) == len(expected) and all(_near(a, b, rel, absolute) for a, b in zip(expected, other))
    if type(expected) is dict:
        return type(other) is dict and other.keys() == expected.keys() and all(_near(v, other[k], rel, absolute) for k, v in expected.items())
    if type(other) not in (int, float) or type(expected) not in (int, float):
        return type(other) is type(expected) and other == expected
    return math.isclose(expected, other, rel_tol=rel, abs_tol=absolute)


def _parametrize(names, rows, **_):
    names = [name.strip() for name in names.split(",")] if isinstance(names, str) else list(names)

    def mark(function):
        new = [dict(zip(names, row if len(names) > 1 else (row,))) for row in rows]
        function._rows = [{**old, **args} for old in getattr(function, "_rows", [{}]) for args in new]
        return function

    return mark


def make():
    module = types.ModuleType("pytest")
    module.raises = _raises
    module.approx = _Approx
    module.mark = types.SimpleNamespace(parametrize=_parametrize)
    module.main = lambda *args, **kwargs: 0
    return module


def _raises(expected, function=None, *args, match=None, **kwargs):
    context = _Raises(expected, match)
    if function is None:
        return context
    with context:
        function(*args, **kwargs)
    return context
