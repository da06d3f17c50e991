"""The process that runs what a model wrote: loads it, calls it, or runs it as a program (Python 3.8 or newer).

Nothing in this process decides anything. It never holds an expected value, and whatever it reports is only a claim of
what a call returned; the comparison happens outside.
"""

import _sitebuiltins
import builtins
import gc
import io
import linecache
import os
import signal
import sys
import threading
import types
import typing

from code_blocks import choose
from sandbox_inside import frames, jail, values

FILE = "solution.py"
# What LeetCode has ready for its `class Solution`, and completions in its form do not import.
TYPING = (
    "Any",
    "Callable",
    "Deque",
    "DefaultDict",
    "Dict",
    "FrozenSet",
    "Iterable",
    "Iterator",
    "List",
    "Optional",
    "Sequence",
    "Set",
    "Tuple",
    "Union",
)


def enter(stdin, stdout, stderr, keep, limits):
    """Become a process fit to run foreign code; `keep` are descriptors that stay open (numbers change), returned in their order."""
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGPIPE, signal.SIGCHLD):
        signal.signal(number, signal.SIG_DFL if number != signal.SIGPIPE else signal.SIG_IGN)
    high = [os.dup2(fd, 100 + place, inheritable=False) for place, fd in enumerate(keep)]
    for target, fd in ((0, stdin), (1, stdout), (2, stderr)):
        os.dup2(fd, target)
    os.closerange(3, 100)
    os.closerange(100 + len(high), 1024)
    kept = [os.dup2(fd, 3 + place, inheritable=False) for place, fd in enumerate(high)]
    os.closerange(100, 100 + len(high))
    os.chdir(limits.get("cwd", "/tmp"))
    jail.limit(limits["memory_mib"], limits["processes"], limits["file_mib"], limits["cpu_s"])
    jail.set_dumpable(True)
    sys.stdin = sys.__stdin__ = _stream(0, "<stdin>", "r", "surrogateescape")
    sys.stdout = sys.__stdout__ = _stream(1, "<stdout>", "w", "surrogateescape")
    sys.stderr = sys.__stderr__ = _stream(2, "<stderr>", "w", "backslashreplace")
    sys.argv = [FILE]
    for name in ("exit", "quit"):  # of the module `site`, which may not be there
        setattr(builtins, name, _sitebuiltins.Quitter(name, "Ctrl-D (i.e. EOF)"))
    return kept


def _stream(fd, name, mode, errors):
    """As the interpreter's own: with a name and a mode, which code for fast input and output looks at."""
    raw = io.FileIO(fd, mode, closefd=False)
    raw.name = name
    stream = io.TextIOWrapper(io.BufferedReader(raw) if mode == "r" else io.BufferedWriter(raw), "utf-8", errors, line_buffering=fd == 2)
    stream.mode = mode
    return stream


def load(text, names, module_name="candidate", program=False):
    """Run the code that a completion (UTF-8, also of surrogates) hands in, as the module `module_name`; returns the module."""
    code = choose(text.decode("utf-8", "surrogatepass"), names, program)
    if code is None:
        raise SyntaxError("no finished block of code")
    compiled = compile(code, FILE, "exec", dont_inherit=True, optimize=0)
    linecache.cache[FILE] = (len(code), None, [line + "\n" for line in code.split("\n")], FILE)
    module = types.ModuleType(module_name)
    module.__file__ = FILE
    sys.modules[module_name] = module
    if "class Solution" in code:
        module.__dict__.update((name, getattr(typing, name)) for name in TYPING)
    if sys.version_info >= (3, 14) and ("multiprocessing" in code or "ProcessPool" in code):
        import multiprocessing

        multiprocessing.set_start_method("fork")  # the other ways read the code from a file, and there is none
    gc.enable()
    exec(compiled, module.__dict__)  # noqa: S102  (in the sandbox)
    return module


def run_calls(job, out):
    """One message after loading, then one a call: {"v": tagged value} or {"e": exception's name, "m": message}."""
    try:
        module = load(job["code"], [job["entry"].split(".")[0]])
        function = entry(module, job["entry"])
    except BaseException as exc:
        frames.send(out, failure(exc))
        return
    frames.send(out, {"v": None})
    for args, kwargs in job["calls"]:
        try:
            value = function(*values.decode(args), **values.decode(kwargs))
            values.deep_enough()
            message = {"v": values.Encoder(opaque).encode(value)}
        except BaseException as exc:
            message = failure(exc)
        frames.send(out, message)
        value = None


def opaque(value):
    """What stands for an object that cannot cross: its type's name, and whether it counts as true (None if that fails)."""
    try:
        truth = bool(value)
    except Exception:
        truth = None
    return {"o": [values.type_name(value), truth]}


def entry(module, name):
    """The callable that the tests name: a function, `Class.method`, or a method of `class Solution`."""
    space = module.__dict__
    holder, _, method = name.rpartition(".")
    if holder:
        return lambda *args, **kwargs: getattr(space[holder](), method)(*args, **kwargs)
    if name in space:
        return space[name]
    solution = space.get("Solution")
    if isinstance(solution, type) and hasattr(solution, name):
        return lambda *args, **kwargs: getattr(solution(), name)(*args, **kwargs)
    raise NameError(f"name {name!r} is not defined")


def failure(exc):
    """An exception as plain data: the names of its line of classes (see `ancestors`), and its text."""
    try:
        names = ancestors(type(exc))
        text = str(exc)[:500]
    except BaseException:
        names, text = ["Exception"], ""
    return {"e": [name for name in names if isinstance(name, str)], "m": text if type(text) is str else ""}


def run_program(job):
    """Run the completion as a program: `__main__`, standard input and output. Does not return."""
    code = 0
    try:
        load(job["code"], (), "__main__", program=True)
    except SystemExit as exc:
        code = _exit_code(exc)
    except BaseException:
        code = 1
    try:
        threading._shutdown()
        import atexit

        atexit._run_exitfuncs()
    except BaseException:
        code = code or 1
    try:
        sys.stdout.flush()
    except BaseException:
        code = code or 1
    os._exit(code)


def ancestors(kind):
    """Names of a class and those it inherits from; a dot before those that are not built in, whatever they are called."""
    line = [(each, each.__name__[:100]) for each in kind.__mro__[:20]]
    return [name if vars(builtins).get(name) is each else "." + name for each, name in line]


def _exit_code(exc):
    value = exc.code
    if value is None:
        return 0
    return value & 0xFF if type(value) is int else 1
