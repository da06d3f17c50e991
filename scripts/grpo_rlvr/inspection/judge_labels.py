"""A judge of the config, measured against what people said of completions."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from grpo_rlvr.config import Config
from grpo_rlvr.errors import Problem, UserError
from grpo_rlvr.inspection.jsonl import read_lines
from grpo_rlvr.inspection.labels import LABELS
from grpo_rlvr.inspection.samples import samples_path
from grpo_rlvr.rewards.context import Context
from grpo_rlvr.rewards.judge import configured_client, family_problems
from grpo_rlvr.rewards.judge_calibration import calibrate_judge, save_calibration
from grpo_rlvr.rewards.registry import run_context

UNSAID = ("withdrawn", "undone")  # last words of a reader that leave no label


def calibrate_from_config(config: Config, labels: Path, out: Path | None, floor: float, seed: int) -> dict[str, Any]:
    """Asks the config's judge about the labelled completions and writes its calibration.

    Args:
        out: where to write; None for the file that the judge's `args.calibration` names.

    Returns:
        What `calibrate_judge` returns, and `file`.

    Raises:
        UserError: no judge in the config or several, a judge of the policy's family, labels that cannot be used.
        CheckFailed: the judge is below the floor; nothing is written.
    """
    context = run_context(config)
    args = judge_args(config)
    rows = read_judge_labels(labels, config)
    try:
        client, rubric, _ = configured_client(**{k: v for k, v in args.items() if k != "calibration"}, context=context)
    except TypeError as exc:  # an option that there is not, as build_rewards would say
        raise UserError("config", Problem("rewards args", f"of the judge: {exc}", "see references/reward-functions.md")) from exc
    problems = family_problems(client, context.policy)
    if problems:
        raise UserError("config", problems)
    file = out or _calibration_file(args, context)
    result = calibrate_judge(client, rubric, rows, floor, seed)
    save_calibration(file, result)
    return {**result, "file": str(file)}


def judge_args(config: Config) -> Mapping[str, Any]:
    """The `args` of the one judge in `rewards:`, also of one inside a length penalty."""
    found = [args for section in config.rewards for use, args in _uses(section.use, section.args) if use == "judge"]
    if len(found) != 1:
        said = "there is no reward `use: judge`" if not found else f"there are {len(found)} judges"
        raise UserError("config", Problem("rewards", said, "calibrate with a config that names exactly one"))
    needed = [name for name in ("base_url", "model") if name not in found[0]]
    if needed:
        raise UserError("config", Problem("rewards", f"the judge has no {' and no '.join(needed)}", "set it under args:"))
    return found[0]


def _uses(use: str, args: Mapping[str, Any] | None) -> list[tuple[str, Mapping[str, Any]]]:
    args = args or {}
    inner = args.get("use") if use == "length" else None
    return [(use, args), *(_uses(inner, args.get("args")) if isinstance(inner, str) else [])]


def _calibration_file(args: Mapping[str, Any], context: Context) -> Path:
    if not isinstance(args.get("calibration"), str):
        raise UserError("config", Problem("rewards", "the judge names no calibration", "set args.calibration, or give --out FILE"))
    return context.resolve(args["calibration"])


def read_judge_labels(path: Path, config: Config) -> list[dict[str, Any]]:
    """The rows of a label file, each with `prompt`, `completion` and `label`.

    A line holds them itself, or a `sample_id` of the run's samples (as the lines of `inspection/labels.jsonl` do); the last
    line about a sample by one reviewer counts, and none where that line withdraws or undoes the label.
    """
    if not path.is_file():
        raise UserError("labels", Problem("--labels", f"there is no file {path}", "give a .jsonl file, such as <run.folder>/inspection/labels.jsonl"))
    lines = read_lines(path)
    if not lines:
        raise UserError("labels", Problem(str(path), "there are no labels", "one JSON object a line: prompt, completion, label (pass, fail)"))
    samples: dict[str, dict] | None = None
    rows: dict[Any, dict[str, Any]] = {}
    problems = []
    for line in lines:
        where = f"{path} line {line.number}"
        if line.value is None:
            problems.append(Problem(where, line.problem))
        elif line.value.get("label") not in (*LABELS, *UNSAID):
            problems.append(Problem(where, f"its label is {line.value.get('label')!r}", "use pass, fail or unsure"))
        elif "completion" in line.value:
            rows[line.number] = line.value
        elif isinstance(line.value.get("sample_id"), str):
            if samples is None:
                samples = _samples(config)
            sample = samples.get(line.value["sample_id"])
            if sample is None:
                problems.append(Problem(where, f"there is no sample {line.value['sample_id']} in {samples_path(config.inspection_folder)}"))
            else:
                key = (line.value["sample_id"], line.value.get("reviewer"))
                rows[key] = {**line.value, "prompt": sample.get("prompt"), "completion": sample.get("completion")}
        else:
            problems.append(Problem(where, "it has no completion and no sample_id"))
    if problems:
        raise UserError("labels", problems[:10])
    return [row for row in rows.values() if row["label"] in LABELS]


def _samples(config: Config) -> dict[str, dict]:
    rows = [line.value for line in read_lines(samples_path(config.inspection_folder))]
    return {row["sample_id"]: row for row in rows if row and "sample_id" in row}
