"""`scores.jsonl`: what today's rewards give each sample, with the fingerprint of the rewards that gave it."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

from grpo_rlvr.cli import write_text
from grpo_rlvr.config import Config
from grpo_rlvr.errors import Problem, UserError
from grpo_rlvr.inspection.fingerprint import differences, is_reward_parts, reward_parts
from grpo_rlvr.inspection.jsonl import read_lines, sha256
from grpo_rlvr.inspection.samples import aligned_columns

SCHEMA = "grpo-rlvr/scores/1"
RESCORE = "run again: inspect_rewards.py run CONFIG (samples are kept, it only scores them anew)"


def score_samples(rewards: Sequence, samples: Sequence[dict], threshold: float) -> tuple[list[dict], dict[str, float]]:
    """Score all samples in one call.

    Returns:
        One row a sample, aligned: `sample_id`, `scores` {reward: value or None}, `total`, `verdict` (True, False, None = unscored); and the
        seconds each reward took.
    """
    from grpo_rlvr.rewards.scoring import score_all, verdicts

    columns = aligned_columns(samples)
    counts = [s.get("tokens") for s in samples]
    if all(isinstance(n, int) for n in counts):
        columns.setdefault("completion_token_counts", counts)  # the ids are not kept; rewards that look at the length take their number
    scored = score_all(list(rewards), [s["completion"] for s in samples], prompts=[s["prompt"] for s in samples], **columns)
    passed = verdicts(list(rewards), scored, threshold)
    rows = [
        {
            "sample_id": s["sample_id"],
            "scores": {name: values[i] for name, values in scored.values.items()},
            "total": scored.total[i],
            "verdict": passed[i],
        }
        for i, s in enumerate(samples)
    ]
    return rows, dict(scored.seconds)


def scores_header(config: Config, rewards: Sequence, samples: Sequence[dict]) -> dict:
    return {"schema": SCHEMA, "fingerprint": reward_parts(config, rewards), "samples": samples_digest(samples)}


def samples_digest(samples: Sequence[dict]) -> str:
    return sha256([[s["sample_id"], s["columns"]] for s in samples])


def save_scores(folder: Path, header: dict, rows: Sequence[dict]) -> None:
    write_text(folder / "scores.jsonl", "".join(json.dumps(row) + "\n" for row in [header, *rows]))


def load_scores(folder: Path, config: Config, rewards: Sequence, samples: Sequence[dict]) -> list[dict]:
    """The score rows, aligned with `samples`, if they are those of today's rewards.

    Raises:
        UserError: no scores, unreadable ones, or scores of other rewards or other samples; names what changed.
    """
    path = folder / "scores.jsonl"
    lines = read_lines(path)
    if not lines:
        raise UserError("scores", Problem(str(path), "there are no scores yet", "run: inspect_rewards.py run CONFIG"))
    bad = [line for line in lines if line.value is None]
    if bad or lines[0].value.get("schema") != SCHEMA:
        where = f"{path} line {bad[0].number}" if bad else str(path)
        raise UserError("scores", Problem(where, bad[0].problem if bad else "the first line is no scores header", RESCORE))
    header, names = lines[0].value, [r.name for r in rewards]
    wrong = [line.number for line in lines[1:] if not _is_row(line.value, ())]
    if wrong or not is_reward_parts(header.get("fingerprint")):
        where = f"{path} line {wrong[0] if wrong else lines[0].number}"
        raise UserError("scores", Problem(where, "it is not what a run writes: keys are missing or of the wrong kind", RESCORE))
    changed = differences(header["fingerprint"], reward_parts(config, rewards))
    if changed:
        raise UserError("scores", [Problem("scores", "; ".join(changed) + " since the samples were scored", RESCORE)])
    rows = {line.value["sample_id"]: line.value for line in lines[1:] if _is_row(line.value, names)}
    if header.get("samples") != samples_digest(samples) or any(s["sample_id"] not in rows for s in samples):
        raise UserError("scores", Problem("scores", "they belong to other samples", RESCORE))
    return [rows[s["sample_id"]] for s in samples]


def _is_row(row: dict, names: Sequence[str]) -> bool:
    """Whether a line is a score row with at least these rewards' scores."""
    numbers = row.get("scores")
    if not isinstance(numbers, dict) or "total" not in row or not isinstance(row.get("sample_id"), str):
        return False
    fine = all(v is None or (isinstance(v, int | float) and not isinstance(v, bool)) for v in [*numbers.values(), row["total"]])
    return fine and set(names) <= numbers.keys() and "verdict" in row and (row["verdict"] is None or isinstance(row["verdict"], bool))
