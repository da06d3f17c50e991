"""The options of the built-in rewards with their defaults, as the table of references/reward-functions.md.

`PYTHONPATH=scripts python -m grpo_rlvr.rewards.options` prints it, with `--write` into that page.
"""

from __future__ import annotations

import argparse
import inspect
import re
from collections.abc import Callable
from pathlib import Path

from grpo_rlvr.cli import write_text
from grpo_rlvr.rewards.registry import REGISTRY

PAGE = Path(__file__).resolve().parents[3] / "references" / "reward-functions.md"


def options_table() -> str:
    """A Markdown table with one line an option, in the order of the registry and of the maker's parameters."""
    lines = ["| use | option | default | meaning |", "|---|---|---|---|"]
    for use, entry in REGISTRY.items():
        said = meanings(entry.make)
        rows = [
            (name, "needed" if parameter.default is inspect.Parameter.empty else _yaml(parameter.default))
            for name, parameter in inspect.signature(entry.make).parameters.items()
            if name != "context"
        ]
        lines += [f"| {use} | {name} | {default} | {said.get(name, '')} |" for name, default in rows] or [f"| {use} | | | no options |"]
    return "\n".join(lines) + "\n"


def meanings(make: Callable) -> dict[str, str]:
    """What the docstring of a maker says of each of its arguments."""
    args = inspect.getdoc(make).partition("Args:\n")[2].partition("\n\n")[0]
    found = re.findall(r"^ {4}(\w+(?:, \w+)*): (.*(?:\n {8}.*)*)", args, re.MULTILINE)
    return {name: " ".join(text.split()).rstrip(".").replace("|", "\\|") for names, text in found for name in names.split(", ")}


def _yaml(value: object) -> str:
    return "none" if value is None else str(value).lower() if isinstance(value, bool) else str(value)


def main() -> None:
    """Print the table, or with --write put it into references/."""
    options = argparse.ArgumentParser(prog="python -m grpo_rlvr.rewards.options", description=__doc__)
    options.add_argument("--write", action="store_true", help="write it into references/reward-functions.md")
    if not options.parse_args().write:
        print(options_table(), end="")
        return
    before, mark, rest = PAGE.read_text(encoding="utf-8").partition("<!-- options -->\n")
    write_text(PAGE, before + mark + options_table() + "".join(rest.partition("<!-- /options -->")[1:]))


if __name__ == "__main__":
    main()
