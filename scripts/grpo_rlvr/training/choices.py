"""From the flags of `train.py init` to the text of each file, by the config's own rules."""

from __future__ import annotations

import argparse
import contextlib
import re
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import yaml

from grpo_rlvr.config import Config, config_from, looks_like_hub_name
from grpo_rlvr.data_files import read_source
from grpo_rlvr.data_split import held_out_rows
from grpo_rlvr.errors import Problem, UserError
from grpo_rlvr.inspection.model_files import model_folder
from grpo_rlvr.memory.hardware import find_gpu, gpus
from grpo_rlvr.other_data import other_data_problem
from grpo_rlvr.rewards.registry import build_rewards
from grpo_rlvr.schema_check import nearest
from grpo_rlvr.training.filling import Choices, fill, moved
from grpo_rlvr.training.findings import Finding
from grpo_rlvr.training.held_out_share import held_out_share
from grpo_rlvr.training.measure import few_held_out
from grpo_rlvr.training.two_forms import forms_of_config
from grpo_rlvr.yaml_file import parse

TEMPLATES = Path(__file__).resolve().parents[3] / "templates"
OWN = "rewards.py:within_tolerance"  # what `--reward file` means: a copy of templates/rewards.py
FORM_WEIGHT = {"format": 0.2, "partial_format": 0.2}  # correctness must weigh more than form
# Where a problem of the config comes from on the command line.
FLAGS = {
    "model.name_or_path": "--model", "model.lora": "--lora", "data.train": "--data", "data.eval": "--eval", "hardware.gpu": "--gpu",
    "hardware.count": "--count", "variant": "--variant", "rewards": "--reward",
}  # fmt: skip


def texts_for(args: argparse.Namespace, folder: Path) -> tuple[dict[str, str], list[Problem], list[Finding]]:
    """The text of each file that goes into `folder`, by name; all that is wrong with the choices; and warnings on what is written.

    With problems the texts mean nothing.
    """
    problems = [Problem(f"--{flag}", "is not said", f"add --{flag}") for flag in ("model", "data", "reward") if not getattr(args, flag)]
    entries = []
    for text in args.reward:
        with _collected(problems):
            entries.append(_entry(text))
    gpu = _gpu(args.gpu, problems)
    own = any(entry["use"] == "file" for entry in entries)
    # As if the config lay in the working folder: names then mean what was typed, and the config's rules say what is wrong with them.
    typed = Choices(
        model=args.model or "owner/model", train=args.data or "owner/data", rewards=[_with_use(e, f"{TEMPLATES}/{OWN}") for e in entries],
        eval=args.eval, gpu=gpu, count=args.count, lora=args.lora, variant=args.variant, tags=own,
    )  # fmt: skip
    template = _template("config.yaml")
    names = [*(["rewards.py"] if own else []), "config.schema.json", "train.py"]
    texts = {**{name: _template(name) for name in names}, "config.yaml": template}
    sources = config_from(parse(fill(template, Choices(typed.model, typed.train, [{"use": "format"}], typed.eval))), Path.cwd() / "config.yaml")
    _check_model(sources, problems)
    config, gold = None, None
    if entries:
        with _collected(problems):
            config = config_from(parse(fill(template, typed)), sources.path)
            gold = sorted({column for reward in build_rewards(config) for column in reward.columns})
    columns, rows = _check_data(sources, gold, args, problems)
    warnings: list[Finding] = []
    if config is not None and not problems:
        typed, few = _held_out(replace(typed, columns=columns), rows)
        written = config_from(parse(fill(template, typed)), sources.path)
        warnings = few + forms_of_config(written, [{"prompt": row.get(columns.get("prompt", "prompt"))} for row in rows or []])
        there = moved(typed, config, folder)
        rewards = [{**r, "use": OWN} if e["use"] == "file" else r for e, r in zip(entries, there.rewards, strict=True)]
        texts["config.yaml"] = fill(template, replace(there, rewards=rewards))
    return texts, problems, warnings


def _held_out(typed: Choices, rows: list[dict] | None) -> tuple[Choices, list[Finding]]:
    """With the share that is held out, and what so few can show."""
    if typed.eval is not None or rows is None:
        return typed, []
    share = held_out_share(len(rows))
    prompt = typed.columns.get("prompt", "prompt")
    held_out = held_out_rows([{"prompt": row.get(prompt)} for row in rows], share, 0)
    return replace(typed, eval_split=share, held_out=f"{len(held_out)} of {len(rows)} rows are held out"), few_held_out([rows[i] for i in held_out])


def _template(name: str) -> str:
    return (TEMPLATES / name).read_text(encoding="utf-8")


def _entry(text: str) -> dict[str, Any]:
    """One `--reward`: a name, or a mapping as in the config."""
    entry: Any = {"use": text}
    if text.lstrip().startswith("{"):
        try:
            entry = parse(text)
        except yaml.YAMLError:
            entry = None
        if not isinstance(entry, dict) or not isinstance(entry.get("use"), str):
            fix = "write it as in config.yaml, in quotes: '{use: length, args: {use: math, target_tokens: 400}}'"
            raise UserError("init", Problem("rewards", f"{text} is no mapping with a use", fix))
    return {"use": entry["use"], "weight": FORM_WEIGHT.get(entry["use"], 1.0), **entry}


def _gpu(name: str | None, problems: list[Problem]) -> str | None:
    """The GPU's name in the table."""
    try:
        return None if name is None else find_gpu(name).name
    except UserError:
        problems.append(Problem("--gpu", f"the GPU '{name}' is not known", nearest(name, gpus(), f"known: {', '.join(gpus())}; or leave it out")))
        return None


def _with_use(entry: Mapping[str, Any], own: str) -> dict[str, Any]:
    return {**entry, "use": own} if entry["use"] == "file" else dict(entry)


@contextlib.contextmanager
def _collected(problems: list[Problem]) -> Iterator[None]:
    """What the body refuses is added to `problems`, under the flag it came from."""
    try:
        yield
    except UserError as exc:
        # Of the config's folder nobody has heard yet.
        problems += [
            Problem(_flag(p.where), p.message, re.sub(r".*relative to the config.*", "give it as seen from here", p.fix)) for p in exc.problems
        ]


def _flag(where: str) -> str:
    name = next((FLAGS[key] for key in FLAGS if where.startswith(key)), None)
    return f"{name} ({where})" if name == "--reward" else name or where


def _check_model(config: Config, problems: list[Problem]) -> None:
    try:
        model_folder(config)
    except UserError as exc:
        fix = "give a folder, as seen from here, or a hub name of the form owner/name"
        problems += [Problem("--model", p.message, fix) for p in exc.problems]


def _check_data(
    config: Config, gold: list[str] | None, args: argparse.Namespace, problems: list[Problem]
) -> tuple[dict[str, str], list[dict] | None]:
    """Look for the columns in files that are here; returns `data.columns`, and the training rows if they are here.

    Args:
        gold: the columns that the rewards read; None where that is not known.
    """
    columns = {name: name for name in ("prompt", *(gold or []))}
    flags = dict.fromkeys(columns, "add it, or map it under data.columns after init")
    columns["prompt"], flags["prompt"] = args.prompt_column or "prompt", "say which it is: --prompt-column NAME"
    if gold is not None and len(gold) == 1:
        columns[gold[0]], flags[gold[0]] = args.answer_column or gold[0], "say which it is: --answer-column NAME"
    elif gold is not None and args.answer_column is not None:
        what = f"the rewards read {', '.join(gold)}" if gold else "no reward reads a gold column"
        problems.append(Problem("--answer-column", what, "leave it out" + ("; map them under data.columns after init" if gold else "")))
    here = {}
    for source, place in ((config.data.train, "data.train"), (config.data.eval, "data.eval")):
        if source is not None and (config.resolve(source).exists() or not looks_like_hub_name(source)):
            with _collected(problems):
                here[place] = read_source(config, source, place)
                problems += _absent(here[place], source, place, columns, flags, gold or [])
    return {ours: theirs for ours, theirs in columns.items() if ours != theirs}, here.get("data.train")


def _absent(rows: list[dict], source: str, place: str, columns: Mapping[str, str], flags: Mapping[str, str], gold: list[str]) -> list[Problem]:
    """Columns that are read and not there, or data that is for another way of training."""
    if not rows:
        return [Problem(FLAGS[place], f"{source} holds no rows", "each row needs a prompt and the columns that the rewards read")]
    name_it = "--answer-column NAME" if len(gold) == 1 else "data.columns, after init"
    other = other_data_problem(rows, {name: columns[name] for name in gold}, FLAGS[place], name_it)
    if other is not None:
        return [other]
    have = sorted(set().union(*(map(str, row) for row in rows)))
    missing = [(ours, theirs) for ours, theirs in columns.items() if theirs not in have]
    return [
        Problem(FLAGS[place], f"{source} has no column '{theirs}'; it has: {', '.join(have)}", f"{nearest(theirs, have)} {flags[ours]}".strip())
        for ours, theirs in missing
    ]
