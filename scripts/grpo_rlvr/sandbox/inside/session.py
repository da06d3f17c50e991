"""The candidate's end of a conversation with test code that runs in another sandbox (Python 3.8 or newer).

Requests name functions and objects by number. Plain values cross as values, everything else as a handle; comparisons are
never asked for.
"""

import operator
import types

from sandbox_inside import candidate, frames, values

# What test code may ask of an object. No comparison is among them: whether two things are equal is decided outside.
OPERATIONS = {
    "len": len, "iter": iter, "next": next, "str": str, "repr": repr, "bool": bool, "int": int, "float": float, "abs": abs, "round": round,
    "getitem": operator.getitem, "setitem": operator.setitem, "delitem": operator.delitem, "contains": operator.contains,
    "add": operator.add, "sub": operator.sub, "mul": operator.mul, "truediv": operator.truediv, "floordiv": operator.floordiv,
    "mod": operator.mod, "pow": operator.pow, "matmul": operator.matmul, "and": operator.and_, "or": operator.or_, "xor": operator.xor,
    "lshift": operator.lshift, "rshift": operator.rshift, "neg": operator.neg, "pos": operator.pos, "invert": operator.invert,
    "isinstance": lambda kind, value: isinstance(value, kind), "reversed": reversed, "format": format,
    "enter": lambda manager: type(manager).__enter__(manager), "exit": lambda manager: type(manager).__exit__(manager, None, None, None),
}  # fmt: skip
for _name in ("add", "sub", "mul", "truediv", "floordiv", "mod", "pow", "matmul", "and", "or", "xor", "lshift", "rshift"):
    OPERATIONS["i" + _name] = getattr(operator, "i" + _name)
_MUTABLE = (list, dict, set, bytearray)


class Session:
    """The loaded module and the objects that were handed out."""

    def __init__(self, module):
        self.module, self.objects, self.numbers = module, [], {}

    def answer(self, request):
        kind = request["op"]
        if kind == "names":
            return {"v": {"l": [{"l": [name, self._kind(value)]} for name, value in self.module.__dict__.items() if not name.startswith("__")]}}
        if kind == "entry":
            return {"v": self._encode(candidate.entry(self.module, request["name"]))}
        if kind == "global":
            return {"v": self._encode(self.module.__dict__[request["name"]])}
        arguments = [values.decode(arg, self._object) for arg in request.get("args", [])]
        before = [self._encode(arg) if type(arg) in _MUTABLE else None for arg in arguments]
        if kind == "call":
            function = self._object(request["object"])
            if request.get("method") is not None:
                function = getattr(function, request["method"])
            result = function(*arguments, **{k: values.decode(v, self._object) for k, v in request.get("kwargs", {}).items()})
        elif kind == "get":
            result = getattr(self._object(request["object"]), request["name"])
        elif kind == "set":
            result = setattr(self._object(request["object"]), request["name"], arguments[0])
        else:
            operands = [self._object(request["object"]), *arguments]
            result = OPERATIONS[kind](*(operands[::-1] if request.get("reflected") else operands))
        message = {"v": self._encode(result)}
        changed = [[place, self._encode(arg)] for place, arg in enumerate(arguments) if before[place] is not None]
        changed = [[place, now] for place, now in changed if now != before[place]]
        if changed:
            message["args"] = changed
        return message

    def _encode(self, value):
        values.deep_enough()
        return values.Encoder(self._handle).encode(value)

    def _handle(self, value):
        number = self.numbers.get(id(value))
        if number is None:
            if len(self.objects) > 100_000:
                raise values.TooLarge("more than 100000 objects")
            number = self.numbers[id(value)] = len(self.objects)
            self.objects.append(value)  # kept, so that its id stays its own
        return {"h": [number, self._kind(value), values.type_name(value)]}

    def _kind(self, value):
        if isinstance(value, type):
            if issubclass(value, BaseException):
                return "exception " + " ".join(candidate.ancestors(value))
            return "class"
        return "function" if isinstance(value, (types.FunctionType, types.BuiltinFunctionType, types.MethodType)) else "object"

    def _object(self, body):
        return self.objects[body[0] if isinstance(body, list) else body]


def run_session(job, incoming, out):
    """One message after loading, then one for each request."""
    try:
        session = Session(candidate.load(job["code"], job["names"]))
    except BaseException as exc:
        frames.send(out, candidate.failure(exc))
        return
    frames.send(out, {"v": None})
    while True:
        request = frames.receive(incoming)
        if request is None:
            return
        try:
            message = session.answer(request)
        except BaseException as exc:
            message = candidate.failure(exc)
        frames.send(out, message)
