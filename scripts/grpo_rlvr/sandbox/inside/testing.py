"""The process that runs test code against a candidate in another sandbox (Python 3.8 or newer).

The verdict comes from here, and nothing that a model wrote ever runs here: `candidate` is a module of stand-ins whose
calls travel out as plain data. Test code may be plain asserts, functions named `test_*`, `unittest` cases, or a
`check(candidate)` function; `pytest` is a small stand-in with `raises`, `approx` and `mark.parametrize`.
"""

import builtins
import inspect
import linecache
import math
import re
import sys
import threading
import types

from sandbox_inside import frames, values

FILE = "tests.py"
MODULES = ("candidate", "solution")


class CandidateError(Exception):
    """An exception of the candidate's that is no built-in one and was not defined where the tests can see it."""


class Link:
    """The way to the candidate's sandbox; objects over there by their number."""

    def __init__(self, incoming, out):
        self.incoming, self.out, self.handles, self.errors, self.stops = incoming, out, {}, {}, False
        self.turn = threading.RLock()

    def ask(self, request, args=(), kwargs=None):
        encoder = values.Encoder(self._outward)
        request["args"] = [encoder.encode(arg) for arg in args]
        if kwargs:
            request["kwargs"] = {name: encoder.encode(value) for name, value in kwargs.items()}
        with self.turn:  # test code may use threads
            frames.send(self.out, request)
            message = frames.receive(self.incoming)
        if message is None:
            raise CandidateError("the candidate is gone")
        if "e" in message:
            error = self.error(message["e"])
            if issubclass(error, StopIteration) and request["op"] != "next" and not self.stops:
                error = RuntimeError  # it would end a loop or an `all(map(...))` of the test's before its time, unseen
            raise error(message.get("m", ""))
        for place, now in message.get("args", []):
            _update(args[place], values.decode(now, self._inward))
        return values.decode(message["v"], self._inward)

    def error(self, names):
        """The exception class for the names of a class's line of ancestors."""
        known = next((place for place, name in enumerate(names) if _builtin_error(name)), None)
        if known is None:
            return CandidateError
        kind = _builtin_error(names[known])
        for name in reversed(names[:known]):
            kind = self.errors.get(name) or self._define(name, kind)
        return kind

    def _define(self, name, base):
        self.errors[name] = type(name.lstrip("."), (base,), {"__module__": "candidate"})
        return self.errors[name]

    def _outward(self, value):
        if isinstance(value, Handle):
            return {"h": object.__getattribute__(value, "_number")}
        raise TypeError(f"a {type(value).__name__} cannot be handed to the candidate: only plain data and its own objects can")

    def _inward(self, body):
        number, kind, name = body
        if kind.startswith("exception "):
            return self.error(kind.split()[1:])
        if number not in self.handles:
            self.handles[number] = Handle(self, number, kind, name)
        return self.handles[number]


def _builtin_error(name):
    kind = getattr(builtins, name, None) if isinstance(name, str) else None
    return kind if isinstance(kind, type) and issubclass(kind, BaseException) else None


def _update(mine, theirs):
    """What the candidate did to an argument, done to ours."""
    if type(mine) is list or type(mine) is bytearray:
        mine[:] = theirs
    else:
        mine.clear()
        mine.update(theirs)


class Handle:
    """A function, class or object of the candidate's. Equal to itself alone; it has no order."""

    # _made: the test made it, by calling a class. _told: it may know a value that the test compares with.
    __slots__ = ("_link", "_number", "_kind", "_name", "_made", "_told", "_function")

    def __init__(self, link, number, kind, name):
        slots = (("_link", link), ("_number", number), ("_kind", kind), ("_name", name), ("_made", False), ("_told", False), ("_function", False))
        for slot, value in slots:
            object.__setattr__(self, slot, value)

    def __call__(self, *args, **kwargs):
        result = self._ask("call", args, kwargs)
        if self._kind == "class" and not self._function and isinstance(result, Handle):
            object.__setattr__(result, "_made", True)
        return result

    def _known_as(self, name):
        """The test calls it `name`: what is written like a function is one to the test, though the candidate made it a class."""
        if not name.lstrip("_")[:1].isupper():
            object.__setattr__(self, "_function", True)

    def _ask(self, op, args=(), kwargs=None, **more):
        return self._link.ask({"op": op, "object": self._number, **more}, args, kwargs)

    def __getattr__(self, name):
        if name == "__name__" and self._kind in ("function", "class"):
            return self._ask("get", name=name)
        if name.startswith("__") and name.endswith("__"):
            raise AttributeError(name)
        if name in _PREDICATES and not self._made:
            raise AttributeError(f"{name}: a {self._name} is no plain value, and decides nothing about itself")
        value = self._ask("get", name=name)
        if isinstance(value, Handle):
            value._known_as(name)
        return value

    def __setattr__(self, name, value):
        self._ask("set", (value,), name=name)

    def __contains__(self, item):
        if not self._made:
            raise TypeError("'in' asks only objects that the test made itself")
        return bool(self._ask("contains", (item,)))

    def __bool__(self):
        if self._told:
            raise TypeError(f"a {self._name} that was told the other operand cannot say what came of it")
        return bool(self._ask("bool"))

    def __instancecheck__(self, other):
        return isinstance(other, Handle) and bool(self._ask("isinstance", (other,)))

    def __eq__(self, other):
        return self is other

    def __hash__(self):
        return id(self)

    def __exit__(self, *exc_info):
        return bool(self._ask("exit"))

    def __repr__(self):
        return str(self._ask("repr"))


def _remote(name):
    def method(self, *args):
        if self._told and name in _TELLS:
            raise TypeError(f"a {self._name} that was told the other operand cannot say what came of it")
        return self._ask(name, args)

    return method


def _arithmetic(name, reflected):
    compares = name in _COMPARES or name[1:] in _COMPARES

    def method(self, other):
        result = self._ask(name, (other,), reflected=reflected)
        told = self._told or (compares and not self._made and not isinstance(other, Handle))
        if told and isinstance(result, Handle):
            object.__setattr__(result, "_told", True)
        elif told:
            raise TypeError(f"{name} of a {self._name}: whether it is the value that the test expects is not for it to say")
        return result

    return method


# A result that takes the part of a number, a set or a text must not judge itself: `abs(f(2) - 1.414) < 1e-3` would hand it
# the value that is expected and believe the difference; `f(2).startswith("ab")` would believe a word.
_COMPARES = ("sub", "truediv", "floordiv", "mod", "and", "xor", "or")
_TELLS = ("len", "iter", "next", "int", "float", "abs", "round", "reversed", "format", "getitem", "neg", "pos", "invert")
_PREDICATES = {n for kind in (str, set, float) for n in dir(kind) if n.startswith(("is", "startswith", "endswith"))} | {"equals"}
_ARITHMETIC = ("add", "sub", "mul", "truediv", "floordiv", "mod", "pow", "matmul", "and", "or", "xor", "lshift", "rshift")
for _name in _ARITHMETIC:
    setattr(Handle, f"__{_name}__", _arithmetic(_name, False))
    setattr(Handle, f"__r{_name}__", _arithmetic(_name, True))
    setattr(Handle, f"__i{_name}__", _arithmetic("i" + _name, False))
_ASKED = (
    "len", "iter", "next", "str", "int", "float", "abs", "round", "getitem", "setitem", "delitem", "reversed", "format", "enter",
    "neg", "pos", "invert",
)  # fmt: skip
for _name in _ASKED:
    setattr(Handle, f"__{_name}__", _remote(_name))


def run_tests(job, incoming, out):
    """Run the test code; the last message is {"verdict": true} or {"verdict": false, "why": ...}."""
    link = Link(incoming, out)
    try:
        ran = _run(job, link)
        verdict = {"verdict": ran > 0, "why": "" if ran else "no test ran"}
    except BaseException as exc:
        verdict = {"verdict": False, "why": f"{type(exc).__name__}: {str(exc)[:300]}"}
    frames.send(out, verdict)


def _run(job, link):
    """How many tests ran (the module's own statements are one); raises what a test raises."""
    names = dict(link.ask({"op": "names"}))
    link.stops = "StopIteration" in job["source"]
    space = {name: _global(link, name) for name in job["names"] if name in names}
    for name in MODULES:
        module = types.ModuleType(name)
        module.__dict__.update(space)
        module.__getattr__ = lambda wanted: _late(link, names, wanted)
        module.__all__ = list(space)
        sys.modules[name] = module
    sys.modules["pytest"] = _pytest_stand_in()
    source = job["source"]
    if "unittest" in source:
        import unittest

        unittest.main = lambda *args, **kwargs: None  # its cases are run below
    linecache.cache[FILE] = (len(source), None, [line + "\n" for line in source.split("\n")], FILE)
    tests = types.ModuleType("tests")
    tests.__dict__.update(space)
    sys.modules["tests"] = tests
    exec(compile(source, FILE, "exec", dont_inherit=True), tests.__dict__)
    ran = 1 if job["top_level"] else 0
    if job.get("entry") and inspect.isfunction(tests.__dict__.get("check")):
        entry = link.ask({"op": "entry", "name": job["entry"]})
        if isinstance(entry, Handle):
            entry._known_as(job["entry"].rpartition(".")[2])
        tests.check(entry)
        ran += 1
    return ran + _run_functions(tests) + _run_cases(tests)


def _late(link, names, wanted):
    if wanted not in names:
        raise AttributeError(wanted)
    return _global(link, wanted)


def _global(link, name):
    value = link.ask({"op": "global", "name": name})
    if isinstance(value, Handle):
        value._known_as(name)
    return value


def _run_functions(tests):
    ran = 0
    for name, function in list(tests.__dict__.items()):
        if not name.startswith("test") or not inspect.isfunction(function) or function.__module__ != "tests":
            continue
        for args in getattr(function, "_rows", [{}]):
            function(**args)
            ran += 1
    for name, kind in list(tests.__dict__.items()):
        if name.startswith("Test") and isinstance(kind, type) and not _is_case(kind):
            for method in [m for m in vars(kind) if m.startswith("test")]:
                for args in getattr(getattr(kind, method), "_rows", [{}]):
                    made = kind()
                    for step in ("setup_method", method, "teardown_method"):
                        if hasattr(made, step):
                            getattr(made, step)(**(args if step == method else {}))
                    ran += 1
    return ran


def _is_case(kind):
    import unittest

    return issubclass(kind, unittest.TestCase)


def _run_cases(tests):
    if "unittest" not in sys.modules:
        return 0
    import unittest

    kinds = [k for k in tests.__dict__.values() if isinstance(k, type) and issubclass(k, unittest.TestCase) and k.__module__ == "tests"]
    result = unittest.TestResult()
    suite = unittest.TestSuite(unittest.defaultTestLoader.loadTestsFromTestCase(kind) for kind in kinds)
    suite.run(result)
    failed = result.failures + result.errors + result.skipped + [(test, "expected to fail") for test in result.unexpectedSuccesses]
    if failed:
        raise AssertionError(str(failed[0][1]).strip()[-200:])
    return result.testsRun


# ---- pytest, as far as test code of data sets uses it
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


def _pytest_stand_in():
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
