"""What test code holds in the place of a candidate's functions, classes and objects (Python 3.8 or newer).

Each call travels out as plain data and is answered by the candidate's sandbox; nothing that a model wrote runs here.
"""

import builtins
import threading

from sandbox_inside import frames, values


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
