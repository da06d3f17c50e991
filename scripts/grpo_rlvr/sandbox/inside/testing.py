"""The process that runs test code against a candidate in another sandbox (Python 3.8 or newer).

The verdict comes from here, and nothing that a model wrote ever runs here: `candidate` is a module of stand-ins whose
calls travel out as plain data. Test code may be plain asserts, functions named `test_*`, `unittest` cases, or a
`check(candidate)` function; `pytest` is a small stand-in with `raises`, `approx` and `mark.parametrize`.
"""

import inspect
import linecache
import sys
import types

from sandbox_inside import frames, pytest_stand_in
from sandbox_inside.stand_ins import Handle, Link

FILE = "tests.py"
MODULES = ("candidate", "solution")


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
    sys.modules["pytest"] = pytest_stand_in.make()
    source = job["source"]
    if "unittest" in source:
        import unittest

        unittest.main = lambda *args, **kwargs: None  # its cases are run below
    linecache.cache[FILE] = (len(source), None, [line + "\n" for line in source.split("\n")], FILE)
    tests = types.ModuleType("tests")
    tests.__dict__.update(space)
    sys.modules["tests"] = tests
    exec(compile(source, FILE, "exec", dont_inherit=True), tests.__dict__)  # noqa: S102  (in the sandbox)
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
