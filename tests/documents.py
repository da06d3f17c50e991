"""The documents as tests read them: their text, code blocks, commands and option mentions."""

from __future__ import annotations

import re
import runpy
import shlex
import sys
from argparse import ArgumentParser
from functools import lru_cache
from pathlib import Path
from typing import NamedTuple

from conftest import ROOT
from grpo_rlvr.training import init

DOCUMENTS = [ROOT / "SKILL.md", ROOT / "README.md", *sorted((ROOT / "references").glob("*.md"))]
SCRIPTS = sorted(p.name for p in (ROOT / "scripts").glob("*.py"))
FENCE = re.compile(r"^```(\w*)\n(.*?)^```", re.MULTILINE | re.DOTALL)
# Blocks without a language that hold no commands, by how they begin.
PICTURES = ("config.yaml ──>", "SKILL.md  ")
# What a command can begin with. A span in a sentence is also a command if an option stands in it, whatever it begins with.
PROGRAM = re.compile(
    r"(PY|python3?|make|uvx?|pip|conda|accelerate|torchrun|vllm|trl|hf|git|ssh|cp|bash|sbatch|apt|docker|podman|[\w./-]+/bin/\w+|"
    r"(?:SKILL/|scripts/|templates/|tests/|benchmarks/)*\w+\.py)\Z"
)
INSPECT = ("run", "review", "gate")


class Command(NamedTuple):
    """A command as a document has it. `whole`: in a block, or naming its interpreter, so that nothing may be missing from it."""

    document: str
    text: str
    whole: bool


@lru_cache
def text_of(path: Path) -> str:
    return path.read_text(encoding="utf-8")


def spans(text: str) -> list[str]:
    """What stands between single backticks outside of blocks."""
    return [" ".join(span.split()) for span in re.findall(r"(?<!`)`([^`]+)`(?!`)", FENCE.sub("", text))]


def words_of(command: str) -> list[str]:
    """Without the environment variables in front."""
    words = shlex.split(command)
    while words and re.match(r"[A-Z_]+=", words[0]):
        words.pop(0)
    return words


def is_command(span: str) -> bool:
    words = span.split()
    while words and re.match(r"[A-Z_]+=", words[0]):
        words.pop(0)
    if len(words) < 2 or words[0].endswith(":") or words[0][0] in "-{[<":
        return False
    short = words[0] in INSPECT and (words[1] == "CONFIG" or words[1].startswith("--"))
    return bool(short or PROGRAM.match(words[0]) or any(re.match(r"--?[a-zA-Z]", word) for word in words[1:]))


def commands() -> list[Command]:
    found: dict[Command, None] = {}
    for path in DOCUMENTS:
        lines = [
            (line.partition("  #")[0].strip(), True)
            for language, block in FENCE.findall(text_of(path))
            if language in ("", "bash", "sh", "shell", "console") and not block.startswith(PICTURES)
            for line in block.splitlines()
            if line and not line.startswith("#")
        ]
        lines += [(span, False) for span in spans(text_of(path)) if is_command(span)]
        for line, whole in lines:
            for text in line.split(" && "):
                found[Command(path.name, text, whole or text.startswith(("PY ", "python")))] = None
    return list(found)


@lru_cache
def parser_of(script: str) -> ArgumentParser:
    """The script's own; train.py is the template's."""
    folder = ROOT / ("templates" if script == "train.py" else "scripts")
    path = list(sys.path)
    try:
        return runpy.run_path(str(folder / script), run_name="documents")["build_parser"]()
    finally:
        sys.path[:] = path


def parsers_of(script: str) -> dict[str, ArgumentParser]:
    """By subcommand; the script's own under ""."""
    parser = parser_of(script)
    if script == "train.py":  # a command of its own behind the same name
        return {"": parser, "init": init.build_parser()}
    subs = [action.choices for action in parser._subparsers._group_actions] if parser._subparsers else []
    return {"": parser, **(dict(subs[0]) if subs else {})}


def options_of(script: str, sub: str = "") -> set[str]:
    return set(parsers_of(script)[sub]._option_string_actions)


def table(path: Path, name: str) -> list[list[str]]:
    """The cells of the table between `<!-- name -->` and `<!-- /name -->`, without its heading."""
    lines = text_of(path).partition(f"<!-- {name} -->\n")[2].partition(f"<!-- /{name} -->")[0].strip().splitlines()[2:]
    return [[cell.strip() for cell in line.strip("|").split(" | ")] for line in lines]


def named_files() -> list[str]:
    """The patterns of references/files.md for what is in a run folder."""
    return [name for row in table(ROOT / "references" / "files.md", "files") for name in spans(row[0])]


def unnamed_files(run: Path) -> list[str]:
    """Files of a run folder that references/files.md does not name; what is inside a folder it names is not looked at."""
    folders = [name.rstrip("/") for name in named_files() if name.endswith("/")]
    paths = [path.relative_to(run) for path in run.rglob("*") if path.is_file()]
    known = [p for p in paths if any(p.match(name) for name in named_files()) or any(q.match(f) for q in p.parents for f in folders)]
    return sorted(str(path) for path in set(paths) - set(known))
