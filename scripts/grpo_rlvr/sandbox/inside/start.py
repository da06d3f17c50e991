"""The first code that runs in the sandbox: takes the other modules from the pipe and serves (Python 3.8 or newer).

Handed over as `python -c`, so that no file of the host needs to be visible inside.
"""

import gc
import json
import os
import sys
import types

PRELOAD = (
    "abc", "array", "ast", "bisect", "calendar", "cmath", "collections", "copy", "dataclasses", "datetime", "decimal", "enum", "fractions",
    "functools", "heapq", "itertools", "json", "math", "operator", "random", "re", "statistics", "string", "struct", "textwrap", "threading",
    "time", "typing",
)  # fmt: skip


def main():
    # The pipes move away from 0 and 1, where foreign code would find them.
    incoming, outgoing = os.dup(0), os.dup(1)
    null = os.open("/dev/null", os.O_RDWR)
    os.dup2(null, 0)
    os.dup2(null, 1)
    size = int.from_bytes(_exactly(incoming, 4), "big")
    first = json.loads(_exactly(incoming, size).decode())
    sys.path[:] = [path for path in sys.path if path and path != os.getcwd()]
    package = types.ModuleType("sandbox_inside")
    package.__path__ = []
    sys.modules["sandbox_inside"] = package
    for name, source in first["modules"]:
        module = types.ModuleType(name)
        sys.modules[name] = module
        exec(compile(source, f"<{name}>", "exec", dont_inherit=True), module.__dict__)  # noqa: S102  (our own modules)
        if "." in name:
            setattr(package, name.partition(".")[2], module)
    settings = first["settings"]
    for name in PRELOAD if settings["isolate"] else ():
        __import__(name)
    os.dup2(null, 2)
    if "random" in sys.modules:  # the same for every candidate, so that a verdict is repeatable
        sys.modules["random"].seed(0)
    gc.collect()
    gc.freeze()
    sys.modules["sandbox_inside.supervisor"].serve(incoming, outgoing, settings)


def _exactly(fd, count):
    data = b""
    while len(data) < count:
        part = os.read(fd, count - len(data))
        if not part:
            sys.exit(0)
        data += part
    return data


main()
