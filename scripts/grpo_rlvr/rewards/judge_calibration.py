"""How well a judge agrees with people, measured once on labels it was not tuned on, and bound to that judge and rubric."""

from __future__ import annotations

import json
import random
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from grpo_rlvr.cli import write_text
from grpo_rlvr.errors import CheckFailed, Problem, UserError
from grpo_rlvr.intervals import clopper_pearson
from grpo_rlvr.rewards.judge_verdict import ask_all, is_client, prompt_text, response_text, snapshot, text_hash

SCHEMA = "grpo-rlvr/judge-calibration/1"
PARTS = {"train": 0.2, "dev": 0.4, "test": 0.4}
LEAST = 5  # labels of each kind that dev and test need; below that a rate of 0.85 cannot even be written
FLOOR = 0.85


def calibrate_judge(client: Any, rubric: str, labelled: Iterable[Mapping], floor: float = FLOOR, seed: int = 0) -> dict:
    """Measures a judge against human labels and returns its calibration, a JSON-able dict for `make_rubric_judge_reward`.

    The labels are split by prompt: `train` is never judged and free to word the rubric with, `dev` is judged first, and
    `test` stays sealed unless dev reaches the floor. So a rubric may be reworded against dev as often as needed, and the
    rates that count come from labels that no wording has seen. (Every opened test part is spent: label new samples.)

    Args:
        client: see `make_rubric_judge_reward`.
        labelled: rows with `completion`, `label` ("pass" or "fail"; "unsure" is left out), and `prompt` where there is
            one. Labels of anyone but people (`reviewer_kind` other than "human") are refused.
        floor: what TPR (right responses that pass) and TNR (wrong ones that fail) must both reach, on dev and on test.
            A reply without verdict counts against the judge.
        seed: decides the split.

    Returns:
        `judge` (the snapshot it is bound to), `floor`, `seed`, `labels` (hash), `split` (sizes), and for `dev` and `test` `tpr` and
        `tnr` as {"k", "n", "share", "low", "high"} with exact 95% limits, and `unscored`.

    Raises:
        UserError: labels that are too few, unreadable or not a person's.
        CheckFailed: the judge is below the floor; says on which part and with which rates.
    """
    if not is_client(client):
        raise UserError("judge", Problem("client", f"a {type(client).__name__} cannot be asked", "give a callable or an OpenAIJudgeClient"))
    if isinstance(floor, bool) or not isinstance(floor, (int, float)) or not 0.5 < floor <= 1:
        raise UserError("judge", Problem("floor", f"{floor!r}", "a share above 0.5 (a coin) and at most 1"))
    rows = _read_labels(labelled)
    parts = split_labels(rows, seed)
    _enough(parts)
    result: dict[str, Any] = {
        "schema": SCHEMA,
        "judge": snapshot(client, rubric),
        "floor": float(floor),
        "seed": seed,
        "labels": text_hash(json.dumps(sorted(rows))),
        "split": {name: len(part) for name, part in parts.items()},
    }
    for name in ("dev", "test"):
        result[name] = _rates(client, rubric, parts[name])
        unscored = result[name]["unscored"]
        if unscored == len(parts[name]):
            message = f"it gave no verdict on any of the {unscored} labels of {name} (the reasons are above); nothing was measured"
            fix = "see that its server answers: base_url, model, api_key_env, timeout_s; and that the model ends in the verdict it is asked for"
            raise CheckFailed("judge", Problem("judge", message, fix))
        low = [f"{rate.upper()} {_said(result[name][rate])}" for rate in ("tpr", "tnr") if result[name][rate]["share"] < floor]
        if low:
            sealed = " (the test part was not opened)" if name == "dev" else " (the test part is spent: label new samples before the next try)"
            fix = "reword the rubric with the train part, or take a stronger judge"
            silent = f"; {unscored} questions got no verdict" if unscored else ""
            raise CheckFailed("judge", Problem("judge", f"on {name}: {' and '.join(low)}, below the floor {floor}{silent}{sealed}", fix))
    result["judge"]["served_model"] = getattr(client, "served_model", None)
    return result


def split_labels(rows: Sequence[tuple[str, str, bool]], seed: int) -> dict[str, list[tuple[str, str, bool]]]:
    """The rows in the parts train, dev and test, about in the shares of `PARTS`.

    All responses to one prompt are in one part, and passes and fails are spread alike as far as that allows.
    """
    groups: dict[str, list] = defaultdict(list)
    for row in rows:
        groups[row[0] or row[1]].append(row)  # without a prompt every response is for itself
    order = sorted(groups)
    random.Random(seed).shuffle(order)  # noqa: S311  (splits labels)
    order.sort(key=lambda prompt: -len(groups[prompt]))  # the large ones first, the small ones even things out
    parts: dict[str, list] = {name: [] for name in PARTS}
    counts = {name: [0, 0] for name in PARTS}
    totals = [sum(row[2] == kind for row in rows) for kind in (False, True)]
    for prompt in order:
        group = groups[prompt]
        adds = [sum(row[2] == kind for row in group) for kind in (False, True)]

        def lack(name: str, adds: list[int] = adds) -> float:
            kinds = zip(adds, totals, counts[name], strict=True)
            return sum(add * (PARTS[name] - have / total) for add, total, have in kinds if total) / PARTS[name]

        chosen = max(PARTS, key=lack)
        parts[chosen] += group
        counts[chosen] = [have + add for have, add in zip(counts[chosen], adds, strict=True)]
    return parts


def save_calibration(path: str | Path, calibration: Mapping) -> None:
    """Writes a calibration as JSON, for `calibration:` in the config."""
    write_text(Path(path), json.dumps(calibration, indent=2, sort_keys=True) + "\n")


def load_calibration(path: str | Path) -> dict:
    """The calibration in a file. Raises UserError if there is none."""
    fix = "make one from human labels: python calibrate_judge.py CONFIG --labels FILE.jsonl"
    try:
        value = json.loads(Path(path).read_text(encoding="utf-8"))
    except OSError:
        raise UserError("config", Problem("calibration", f"there is no file {path}", fix)) from None
    except ValueError as exc:
        raise UserError("config", Problem("calibration", f"{path} is not JSON ({exc})", fix)) from None
    if not isinstance(value, dict) or value.get("schema") != SCHEMA:
        raise UserError("config", Problem("calibration", f"{path} is no calibration of a judge", fix))
    return value


def calibration_problem(calibration: Mapping, client: Any, rubric: str, floor: float = FLOOR) -> str | None:
    """Why this calibration does not vouch for this judge with this rubric, or None if it does."""
    try:
        bound, rates = dict(calibration["judge"]), [float(calibration["test"][rate]["share"]) for rate in ("tpr", "tnr")]
    except (KeyError, TypeError, ValueError):
        return "it is not a calibration"
    words = {
        "model": "another judge model",
        "settings": "other sampling settings",
        "rubric": "another rubric",
        "question": "another version's question",
    }
    now = snapshot(client, rubric)
    other = [f"{said} ({bound.get(key)!r})" if key == "model" else said for key, said in words.items() if bound.get(key) != now[key]]
    if other:
        return f"it is for {' and '.join(other)}"
    if not all(floor <= rate <= 1 for rate in rates):
        return f"its TPR {rates[0]:.2f} and TNR {rates[1]:.2f} do not reach the floor {floor}"
    return None


def _read_labels(labelled: Iterable[Mapping]) -> list[tuple[str, str, bool]]:
    rows, problems = [], []
    for i, row in enumerate(labelled):
        label, kind = row.get("label"), row.get("reviewer_kind", "human")
        if kind != "human":
            problems.append(Problem(f"label {i}", f"it is by a reviewer of kind {kind!r}", "a judge is measured against people"))
        elif label in ("pass", "fail"):
            rows.append((prompt_text(row.get("prompt", "")), response_text(row.get("completion")), label == "pass"))
        elif label != "unsure":
            problems.append(Problem(f"label {i}", f"it is {label!r}", "use pass, fail or unsure"))
    if problems:
        raise UserError("judge", problems[:10])
    return rows


def _enough(parts: Mapping[str, Sequence]) -> None:
    problems = []
    for name in ("dev", "test"):
        for kind, word in ((True, "pass"), (False, "fail")):
            count = sum(row[2] == kind for row in parts[name])
            if count < LEAST:
                needed = round(LEAST / PARTS[name] + 0.5)
                problems.append(
                    Problem(
                        "labels", f"{count} {word} labels in the {name} part, {LEAST} are needed", f"label about {needed} of each, on many prompts"
                    )
                )
    if problems:
        raise UserError("judge", problems)


def _rates(client: Any, rubric: str, rows: Sequence[tuple[str, str, bool]]) -> dict:
    verdicts = ask_all(client, rubric, [(task, response) for task, response, _ in rows])
    out: dict[str, Any] = {}
    for rate, kind in (("tpr", True), ("tnr", False)):
        seen = [verdict is kind for verdict, row in zip(verdicts, rows, strict=True) if row[2] is kind]
        low, high = clopper_pearson(sum(seen), len(seen))
        out[rate] = {"k": sum(seen), "n": len(seen), "share": sum(seen) / len(seen), "low": low, "high": high}
    return {**out, "unscored": sum(verdict is None for verdict in verdicts)}


def _said(rate: Mapping) -> str:
    return f"{rate['share']:.2f} ({rate['k']} of {rate['n']}, 95% {rate['low']:.2f} to {rate['high']:.2f})"
