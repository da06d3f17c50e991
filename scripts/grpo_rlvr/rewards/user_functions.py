"""A user's own reward function: found by its address, bound to its arguments, picklable, with the files that decide it."""

from __future__ import annotations

import ast
import hashlib
import importlib
import importlib.util
import inspect
import sys
import sysconfig
import threading
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from grpo_rlvr.errors import GrpoRlvrError, Problem, UserError
from grpo_rlvr.rewards.base import Reward
from grpo_rlvr.rewards.library_files import builtin_source_files
from grpo_rlvr.rewards.own_methods import guarded
from grpo_rlvr.rewards.wrapped import wrapped_rewards

# What TRL hands over besides the data's columns.
CALL_ARGUMENTS = ("prompts", "completions", "completion_ids", "trainer_state", "log_extra", "log_metric", "environments")
OF_THE_DATA_CHECK = ("honest_forms", "honest_forms_of_row", "clearly_different", "decoys", "test_count", "words_needed", "read_gold", "correctness")
_loading = threading.Lock()
_folders: set[Path] = set()  # where user files were loaded from
_brought: dict[Path, set[Path]] = {}  # a user's file -> the files of the modules that came with its import
_PACKAGE = Path(__file__).resolve().parents[1]


class UserReward:
    """A user's function with `args` bound by keyword and a name of its own.

    Arguments that the function does not name are kept from it, so it needs no `**kwargs` to be called by TRL. The
    function's own return value passes through unchanged.
    """

    def __init__(self, name: str, use: str, base: Path, args: Mapping[str, Any]):
        self.__name__ = name
        self.use, self.base, self.args = use, Path(base), dict(args)
        self._bind()

    def _bind(self) -> None:
        self.function, self.path = load_function(self.use, self.base)
        try:
            parameters = inspect.signature(self.function).parameters
        except (ValueError, TypeError) as exc:  # written in C, without a signature
            raise UserError("config", Problem(f"rewards.use {self.use!r}", str(exc), "wrap it: def reward(completions, **columns)")) from exc
        self._takes_all = any(p.kind is p.VAR_KEYWORD for p in parameters.values())
        self._names = {n for n, p in parameters.items() if p.kind in (p.POSITIONAL_OR_KEYWORD, p.KEYWORD_ONLY)}
        asked = [n for n, p in parameters.items() if n in self._names and p.default is p.empty]
        if isinstance(self.function, Reward):  # it says what it reads; its __call__ takes any column
            asked += self.function.columns
        self.columns = tuple(n for n in dict.fromkeys(asked) if n not in CALL_ARGUMENTS and n not in self.args)
        problems = []
        for key in self.args:
            if key in CALL_ARGUMENTS:
                problems.append(Problem(self.__name__, f"args.{key} would hide what the trainer passes", "rename the parameter"))
            elif key not in self._names and not self._takes_all:
                fix = f"its parameters: {', '.join(sorted(self._names))}"
                problems.append(Problem(self.__name__, f"args.{key} is not a parameter of {self.use}", fix))
        if "completions" not in self._names and not self._takes_all:
            problems.append(Problem(self.__name__, f"{self.use} has no parameter named completions", "write def reward(completions, **columns)"))
        if problems:
            raise UserError("config", problems)

    def __call__(self, completions: Any, **columns: Any) -> Any:
        given = {"completions": completions, **columns, **self.args}
        return self.function(**(given if self._takes_all else {k: v for k, v in given.items() if k in self._names}))

    def prepare(self) -> None:
        """The function's own `prepare`, if it has one, and those of the rewards that it wraps. Raises MissingError for what this machine lacks."""
        own = getattr(self.function, "prepare", None)
        if callable(own):
            try:
                own()
            except GrpoRlvrError:
                raise
            except (Exception, SystemExit) as exc:
                raise UserError("reward", Problem(self.__name__, f"its prepare raises {type(exc).__name__}: {exc}")) from exc
        for reward in wrapped_rewards(self.function):
            reward.prepare()

    def gold_problem(self, row: dict) -> str | None:
        """A missing column, or what the function's own `gold_problem` says, if it has one."""
        missing = [c for c in self.columns if c not in row]
        if missing:
            return f"column {missing[0]!r} is missing"
        own = getattr(self.function, "gold_problem", None)
        if not callable(own):
            return None
        return guarded(self.__name__, "gold_problem", own, self.path)(row)

    def __getattr__(self, name: str) -> Any:
        # The function's own methods for the data check, where it is an object that has them.
        if name in OF_THE_DATA_CHECK and "function" in self.__dict__:
            try:
                own = getattr(self.function, name)
            except AttributeError:
                raise
            except (Exception, SystemExit) as exc:  # a property
                raise UserError("reward", Problem(self.__name__, f"its {name} raises {type(exc).__name__}: {exc}")) from exc
            if name == "correctness":
                return own
            if callable(own):
                return guarded(self.__name__, name, own, self.path)
        raise AttributeError(name)

    def __getstate__(self) -> dict:
        return {"name": self.__name__, "use": self.use, "base": self.base, "args": self.args}

    def __setstate__(self, state: dict) -> None:
        # The function is looked up again: a module loaded from a file cannot be pickled by reference.
        self.__init__(**state)


def load_function(use: str, base: Path) -> tuple[Callable, Path | None]:
    """The function at `file.py:function` (relative to `base`) or `module:function`, and its file."""
    where, _, attribute = use.rpartition(":")
    if not where or not attribute:
        raise UserError("config", Problem(f"rewards.use {use!r}", "this is no address of a function", "write file.py:function or module:function"))
    if where.endswith(".py"):
        path = (Path(base) / Path(where).expanduser()).resolve()
        if not path.is_file():
            raise UserError("config", Problem(f"rewards.use {use!r}", f"there is no file {path}", "the path is relative to the config's folder"))
        module = _load_file(path, use)
    else:
        before = set(sys.modules)
        try:
            module = importlib.import_module(where)
        except (Exception, SystemExit) as exc:
            raise UserError("config", Problem(f"rewards.use {use!r}", f"importing {where} failed: {type(exc).__name__}: {exc}")) from exc
        path = Path(module.__file__).resolve() if getattr(module, "__file__", None) else None
        if path:
            _remember(path, before)
    function = getattr(module, attribute, None)
    if not callable(function):
        names = [n for n, v in vars(module).items() if callable(v) and not n.startswith("_") and getattr(v, "__module__", None) == module.__name__]
        message = f"{where} has no function {attribute!r}" if function is None else f"{attribute} is a {type(function).__name__}, not a function"
        raise UserError("config", Problem(f"rewards.use {use!r}", message, f"it has: {', '.join(names) or 'no function'}"))
    return function, path


def _load_file(path: Path, use: str) -> Any:
    """The module of a file, loaded once; its folder stays on sys.path so that it can import its siblings, also later."""
    name = f"_grpo_rlvr_user_{hashlib.sha256(str(path).encode()).hexdigest()[:12]}"
    with _loading:
        if name in sys.modules:
            return sys.modules[name]
        spec = importlib.util.spec_from_file_location(name, path)
        module = importlib.util.module_from_spec(spec)
        folder = str(path.parent)
        added = folder not in sys.path
        if added:
            sys.path.insert(0, folder)
        sys.modules[name] = module
        _forget_namesakes(path.parent)
        before = set(sys.modules)
        try:
            spec.loader.exec_module(module)
        except (Exception, SystemExit) as exc:
            del sys.modules[name]
            raise UserError("config", Problem(f"rewards.use {use!r}", f"importing {path} failed: {type(exc).__name__}: {exc}")) from exc
        finally:
            if added and folder in sys.path:
                # Last place: while training, a file of the user must not shadow a library.
                sys.path.remove(folder)
                sys.path.append(folder)
        _remember(path, before)
        return module


def _forget_namesakes(folder: Path) -> None:
    """Let the files of `folder` win over modules of the same name that another project's reward brought into this process."""
    _folders.add(folder)
    for name, module in list(sys.modules.items()):
        file = getattr(module, "__file__", None)
        elsewhere = file is not None and Path(file).parent in _folders - {folder}
        if elsewhere and not name.startswith("_grpo_rlvr_user_") and (folder / f"{name}.py").is_file():
            del sys.modules[name]


def _remember(path: Path, before: set[str]) -> None:
    """Note which files the import of `path` brought in, by whatever way it found them; a second import brings nothing new."""
    files = {Path(f).resolve() for name, m in list(sys.modules.items()) if name not in before and (f := getattr(m, "__file__", None))}
    _brought.setdefault(path, set()).update(f for f in files if f.suffix == ".py" and not _is_library(f))


def _is_library(file: Path) -> bool:
    """Of the standard library, installed, or of this package (whose files count as a whole, see `source_files`)."""
    if {"site-packages", "dist-packages"} & set(file.parts) or file.is_relative_to(_PACKAGE):
        return True
    paths = sysconfig.get_paths()
    return any(file.is_relative_to(Path(paths[name]).resolve()) for name in ("stdlib", "platstdlib", "purelib", "platlib"))


def source_files(path: Path) -> tuple[Path, ...]:
    """The files that decide what the functions of `path` return: it, what it imports from beside it or its package, recursively, and
    whatever modules of the user's its import has loaded. A file that uses this package's rewards rests on all of their files."""
    start = path.resolve()
    found: list[Path] = []
    todo = [start, *sorted(_brought.get(start, ()))]
    while todo:
        file = todo.pop()
        if file in found or not file.is_file():
            continue
        found.append(file)
        try:
            tree = ast.parse(file.read_bytes())  # with its own encoding line or byte order mark
        except (SyntaxError, ValueError):
            continue
        for node in ast.walk(tree):
            for level, module in _imported(node):
                if level == 0 and module.split(".")[0] == _PACKAGE.name:
                    found += [f for f in builtin_source_files() if f not in found]
                    continue
                folders = [file.parents[level - 1]] if level else dict.fromkeys((file.parent, _root(file), start.parent))
                for folder in folders:
                    target = folder.joinpath(*module.split("."))
                    todo += [target.with_name(target.name + ".py"), target / "__init__.py"]
    return tuple(sorted(found))


def _root(file: Path) -> Path:
    """The folder that holds the file's outermost package: where an absolute import starts."""
    folder = file.parent
    while (folder / "__init__.py").is_file() and folder != folder.parent:
        folder = folder.parent
    return folder


def _imported(node: ast.AST) -> list[tuple[int, str]]:
    """(leading dots, dotted name) of everything that an import statement may load."""
    if isinstance(node, ast.Import):
        return [(0, alias.name) for alias in node.names]
    if isinstance(node, ast.ImportFrom):
        stem = [node.module] if node.module else []
        names = [".".join([*stem, alias.name]) for alias in node.names if alias.name != "*"]
        return [(node.level, name) for name in [*stem, *names]]
    return []
