"""`train.py init DIR`: the files that a run starts from, filled in from flags (and a training brief) without a question."""

from __future__ import annotations

import argparse
import contextlib
import os
import shlex
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Mapping
from pathlib import Path

from grpo_rlvr import cli
from grpo_rlvr.errors import EXIT_MISSING, EXIT_YES, MissingError, Problem, UserError
from grpo_rlvr.packages import LIGHT, need

SKILL = Path(__file__).resolve().parents[3]
TEMPLATES = SKILL / "templates"
FROM_BRIEF = ("model", "data", "gpu", "lora", "variant")
EPILOG = """DIR/train gets config.yaml, config.schema.json, train.py and, with --reward file, rewards.py; nothing is overwritten. Relative names are
meant as seen from here; config.yaml has them as seen from its own folder, so it works from any. What the run writes goes into DIR as well."""


def build_parser() -> argparse.ArgumentParser:
    examples = [
        "train.py init runs/sums --model Qwen/Qwen2.5-0.5B-Instruct --data data/train.jsonl --reward format --reward math",
        "train.py init runs/sums --brief runs/sums/training-brief.md --reward math --lora",
        "train.py init runs/own --model M --data FILE --reward mine.py:score --reward '{use: length, args: {use: math, target_tokens: 400}}'",
    ]
    parser = cli.parser("train.py init", __doc__.partition(": ")[2].capitalize(), examples)
    parser.epilog = EPILOG + "\n\n" + parser.epilog
    parser.add_argument("dir", metavar="DIR", nargs="?", help="folder of the run, such as runs/2026-11-30-sums")
    parser.add_argument("--model", metavar="M", help="a name on the hub, or a folder")
    parser.add_argument("--data", metavar="FILE", help="training rows: a .jsonl, .json, .csv or .parquet file, or a hub data set owner/name:split")
    own = "a name from references/reward-functions.md, file.py:function, a mapping as in config.yaml, or file: an own one to start from (repeat)"
    parser.add_argument("--reward", metavar="USE", action="append", default=[], help=own)
    parser.add_argument("--eval", metavar="FILE", help="held-out rows; without it a tenth of --data is held out, of few rows up to a quarter")
    parser.add_argument("--prompt-column", metavar="NAME", help="the data's column that holds the prompt")
    parser.add_argument("--answer-column", metavar="NAME", help="the data's column that the reward reads as gold")
    parser.add_argument("--gpu", metavar="NAME", help="e.g. h100-80gb, for the memory plan")
    parser.add_argument("--count", type=int, metavar="N", help="GPUs of the machine")
    parser.add_argument("--lora", type=int, metavar="RANK", nargs="?", const=16, help="LoRA instead of all weights (rank 16), at ten times the rate")
    parser.add_argument("--variant", metavar="NAME", help="a method of references/variants.md")
    parser.add_argument("--brief", type=Path, metavar="FILE", help="a training-brief.md: what it decides, unless a flag says otherwise")
    parser.add_argument("--json", action="store_true", help="one JSON object on stdout")
    return parser


def main(argv: list[str]) -> int:
    args, args.unknown = build_parser().parse_known_args(argv)
    return cli.run(body, args)


def body(args: argparse.Namespace) -> tuple[int, dict]:
    need(LIGHT, "train.py init")
    from grpo_rlvr.training.choices import texts_for

    if not (TEMPLATES / "train.py").is_file():
        raise MissingError("missing", Problem("templates", f"not beside the library ({SKILL})", "run scripts/train.py of the skill's folder"))
    problems = usage_problems(args)
    notes = take_brief(args) if args.brief is not None else []
    folder = Path(args.dir or ".").expanduser() / "train"
    texts, found, warnings = texts_for(args, folder)
    problems += (in_the_way(folder, texts) if args.dir else []) + found
    if problems:
        raise UserError("init", with_reasons(problems, notes))
    write_all(folder, texts)
    return report(folder, texts, notes, warnings)


def usage_problems(args: argparse.Namespace) -> list[Problem]:
    """What the command line itself lacks or has too much of."""
    hint = "; for a config file called init write ./init" if Path("init").is_file() else ""
    problems = [Problem(word, "is nothing that init knows", f"see train.py init --help{hint}") for word in args.unknown]
    if not args.dir:
        problems.append(Problem("DIR", "no folder is named", f"train.py init DIR --model M --data FILE --reward USE{hint}"))
    return problems


def take_brief(args: argparse.Namespace) -> list[dict]:
    """Set what no flag has said, for a flag beats the brief; returns what was read and what was not.

    Raises:
        UserError: the brief cannot be read, or chooses another method.
    """
    from grpo_rlvr.training.brief import read_brief

    brief, notes = read_brief(args.brief), []
    for name in FROM_BRIEF:
        value = getattr(brief, name)
        if value is not None and getattr(args, name) is None:
            setattr(args, name, value)
            notes.append({"flag": f"--{name}", "value": value})
    said = {f"--{name}" for name in FROM_BRIEF if getattr(args, name) is not None}
    return notes + [{"field": p.where, "unread": p.message, "fix": p.fix} for p in brief.unread if p.fix.split()[0] not in said]


def with_reasons(problems: list[Problem], notes: list[dict]) -> list[Problem]:
    """What is not said, with what is wrong with the brief's field for it."""
    why = {note["fix"].split()[0]: f"is not said, and the brief's {note['field']} {note['unread']}" for note in notes if "unread" in note}
    return [Problem(p.where, why[p.where], p.fix) if p.where in why and p.message == "is not said" else p for p in problems]


def in_the_way(folder: Path, wanted: Iterable[str]) -> list[Problem]:
    """All that is there already where a file or a folder is to be."""
    for place in (folder, *folder.parents):
        if os.path.lexists(place) and not place.is_dir():
            return [Problem(str(place), "is there and is no folder", "choose another DIR; nothing was written")]
    fix = "choose another DIR, or edit what is there; nothing was written"
    return [Problem(str(folder / name), "is there already", fix) for name in wanted if os.path.lexists(folder / name)]


def write_all(folder: Path, texts: Mapping[str, str]) -> None:
    """All files or none: written apart first, so that a full disk or a refused folder leaves nothing."""
    made = [place for place in (folder, *folder.parents) if not place.exists()]
    placed: list[Path] = []
    stage = None
    try:
        folder.mkdir(parents=True, exist_ok=True)
        stage = Path(tempfile.mkdtemp(dir=folder, prefix=".init-"))
        for name, text in texts.items():
            (stage / name).write_text(text, encoding="utf-8")
            (stage / name).chmod(0o755 if name == "train.py" else 0o644)
        for name in texts:
            os.rename(stage / name, folder / name)
            placed.append(folder / name)
    except BaseException:
        for path in placed:
            path.unlink(missing_ok=True)
        if stage is not None:
            shutil.rmtree(stage, ignore_errors=True)
        for place in made:
            with contextlib.suppress(OSError):
                place.rmdir()
        raise
    stage.rmdir()


def next_command(folder: Path) -> str:
    """The check of what was written, with the library's place where the copy of train.py would not find it by itself."""
    script = folder / "train.py"
    found = subprocess.run([sys.executable, str(script), "--help"], capture_output=True).returncode != EXIT_MISSING  # noqa: S603  (our own script, no shell)
    where = "" if found else f"GRPO_RLVR_SKILL={shlex.quote(str(SKILL))} "
    return f"{where}{shlex.quote(sys.executable)} {shlex.quote(str(script))} {shlex.quote(str(folder / 'config.yaml'))} --check"


def report(folder: Path, written: Iterable[str], notes: list[dict], warnings: Iterable = ()) -> tuple[int, dict]:
    for note in notes:
        if "flag" in note:
            cli.say(f"from the brief: {note['flag']} {note['value']}")
        else:
            cli.say(f"not read from the brief: {note['field']} {note['unread']}\n    -> {note['fix']}")
    files, command = [str(folder / name) for name in written], next_command(folder)
    cli.say("written: " + ", ".join(files))
    for w in warnings:
        cli.say(f"{w.level} ({w.code}): {w.message}\n    -> {w.fix}")
    cli.say(f"next, until only the gate is missing: {command}")
    return EXIT_YES, {"schema": "grpo-rlvr/init/1", "files": files, "brief": notes, "warnings": [vars(w) for w in warnings], "next": command}
