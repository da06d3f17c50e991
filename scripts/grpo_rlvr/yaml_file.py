"""Read and write YAML mappings: duplicate keys refused with their lines, `1e-6` a number, every failure a `UserError`."""

from __future__ import annotations

import itertools
import math
import re
from pathlib import Path
from typing import Any

import yaml

from grpo_rlvr.errors import Problem, UserError

# A config is a page of text; anything larger is a data file named by mistake.
MAX_BYTES = 1_000_000
# Anchors (`&a`, `*a`) are written out wherever a config is kept; a few lines of them can stand for more than any memory holds.
MAX_VALUES = 100_000

# YAML 1.1 reads `1e-6` as text because it has no dot; YAML 1.2, which editors follow, reads it as a number.
_EXPONENT = re.compile(r"^[-+]?[0-9]+(\.[0-9]*)?[eE][-+]?[0-9]+$")


def _resolvers(base: type) -> dict:
    # Dates would become `datetime` objects, which no setting takes: a date stays the text that was written.
    return {first: [(tag, rx) for tag, rx in pairs if not tag.endswith(":timestamp")] for first, pairs in base.yaml_implicit_resolvers.items()}


class _Unbounded(yaml.YAMLError):
    """What the text stands for is far more than the text."""


class _Loader(yaml.SafeLoader):
    yaml_implicit_resolvers = _resolvers(yaml.SafeLoader)

    def __init__(self, stream: str):
        super().__init__(stream)
        self.duplicates: list[Problem] = []

    def get_single_node(self):
        node = super().get_single_node()
        values = _written_out(node, {}) if node is not None else 0
        if values > MAX_VALUES:
            many = f"its anchors (`&name`, `*name`) stand for more than {MAX_VALUES:,} values"
            raise _Unbounded("the YAML refers to itself" if values == math.inf else many)
        return node

    def compose_mapping_node(self, anchor):
        # Looked for in the composed text, before `<<` merges put a second, legitimate copy of a key in place.
        node = super().compose_mapping_node(anchor)
        first: dict[str, int] = {}
        for key, _ in node.value:
            line = key.start_mark.line + 1
            if not isinstance(key, yaml.ScalarNode):
                continue
            if key.value not in first:
                first[key.value] = line
            elif key.value != "<<":
                self.duplicates.append(
                    Problem(f"line {line}", f"the key `{key.value}` is written twice (first on line {first[key.value]})", "keep one of the two")
                )
        return node


def _written_out(node: yaml.Node, known: dict[int, float]) -> float:
    """How many values the node has once each alias is replaced by what it stands for; infinite where one stands for itself."""
    if isinstance(node, yaml.ScalarNode):
        return 1
    if id(node) not in known:
        known[id(node)] = math.inf  # met again before it is counted: it is inside itself
        inside = itertools.chain.from_iterable(node.value) if isinstance(node, yaml.MappingNode) else node.value
        known[id(node)] = 1 + sum(_written_out(part, known) for part in inside)
    return known[id(node)]


class _Dumper(yaml.SafeDumper):
    # The same reading of plain text, so that the text "1e-6" is quoted and comes back as text.
    yaml_implicit_resolvers = _resolvers(yaml.SafeDumper)

    def ignore_aliases(self, data: Any) -> bool:
        return True


for _side in (_Loader, _Dumper):
    _side.add_implicit_resolver("tag:yaml.org,2002:float", _EXPONENT, list("-+0123456789"))


def read_mapping(path: Path, kind: str = "config") -> dict:
    """The mapping in the YAML file `path`.

    Raises:
        UserError: (of `kind`) the file is absent, a folder, too large, not UTF-8, not YAML (with line and column), has
            duplicate keys (all of them, with lines), is empty or is not a mapping.
    """
    where = str(path)
    try:
        if path.is_dir():
            raise UserError(kind, Problem(where, "this is a folder, not a file", "name the YAML file in it, for example config.yaml"))
        if path.stat().st_size > MAX_BYTES:
            raise UserError(
                kind,
                Problem(where, f"the file has {path.stat().st_size:,} bytes; a config has at most {MAX_BYTES:,}", "name the config, not the data"),
            )
        text = path.read_bytes().decode("utf-8-sig")
    except FileNotFoundError:
        raise UserError(kind, Problem(where, "there is no such file", "copy templates/config.yaml there and edit it")) from None
    except UnicodeDecodeError as exc:
        raise UserError(kind, Problem(where, f"this is not text in UTF-8 (byte {exc.start})", "name a YAML file saved as UTF-8")) from None
    except OSError as exc:
        raise UserError(kind, Problem(where, f"cannot be read: {exc.strerror}", "check the name and the permissions")) from None
    try:
        loader = _Loader(text)
        value = loader.get_single_data()
    except _Unbounded as exc:
        raise UserError(kind, Problem(where, str(exc), "write out what they stand for; a config is a page of text")) from None
    except yaml.YAMLError as exc:
        raise UserError(kind, _syntax_problem(where, exc)) from None
    except RecursionError:
        raise UserError(kind, Problem(where, "the YAML is nested too deeply", "a config is two or three levels deep")) from None
    except ValueError as exc:
        # PyYAML lets the number constructors fail as they are, for example for `0x_`.
        raise UserError(kind, Problem(where, f"a value cannot be read: {exc}", "put the value in quotes if it is text")) from None
    if loader.duplicates:
        raise UserError(kind, [Problem(f"{where}, {p.where}", p.message, p.fix) for p in loader.duplicates])
    if value is None:
        raise UserError(kind, Problem(where, "the file is empty", "copy templates/config.yaml there and edit it"))
    if not isinstance(value, dict):
        raise UserError(
            kind, Problem(where, f"the file holds a {type(value).__name__}, not a mapping of sections", "start with `model:`, `data:` and `rewards:`")
        )
    return value


def _syntax_problem(where: str, exc: yaml.YAMLError) -> Problem:
    mark = getattr(exc, "problem_mark", None) or getattr(exc, "context_mark", None)
    place = f"{where}, line {mark.line + 1}, column {mark.column + 1}" if mark else where
    what = getattr(exc, "problem", None) or getattr(exc, "reason", None) or str(exc).splitlines()[0]
    context = getattr(exc, "context", None)
    return Problem(
        place,
        f"this is not valid YAML: {what}" + (f" ({context})" if context else ""),
        "indent with spaces, write `key: value`, quote text with `:` or `#`",
    )


def read_value(text: str) -> Any:
    """The one value that `text` writes, with the same reading and the same bounds as a file.

    Raises:
        yaml.YAMLError, ValueError, RecursionError: it writes none.
    """
    return _Loader(text).get_single_data()


def dump_mapping(value: dict) -> str:
    """`value` as YAML text that `read_mapping` reads back unchanged; keys keep their order."""
    return yaml.dump(value, Dumper=_Dumper, sort_keys=False, allow_unicode=True, width=120)


def parse(text: str) -> Any:
    """The value of YAML text, read as `read_mapping` reads a file. Raises yaml.YAMLError."""
    return _Loader(text).get_single_data()


def flow(value: Any) -> str:
    """`value` in one line, as it may stand after `key: ` and be read back unchanged."""
    dumped = [_flow(value, style) for style in (None, '"')]
    return next(text for text in dumped if "\n" not in text)  # a line break in a name is written \n only in quotes


def _flow(value: Any, style: str | None) -> str:
    settings = {"sort_keys": False, "allow_unicode": True, "default_flow_style": True, "width": 1_000_000, "default_style": style}
    return yaml.dump(value, Dumper=_Dumper, **settings).removesuffix("...\n").strip()
