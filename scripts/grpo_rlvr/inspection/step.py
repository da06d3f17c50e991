"""`run --from-run RUN --step N`: the inspection of a run in progress, from the completion tables that TRL writes.

Everything goes to `inspection/steps/<step>/`, in the formats of the first inspection; its samples, labels and gate are only read.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path

from grpo_rlvr.cli import write_json, write_text
from grpo_rlvr.config import Config
from grpo_rlvr.errors import Problem, UserError
from grpo_rlvr.inspection import step_report
from grpo_rlvr.inspection.clusters import mean
from grpo_rlvr.inspection.growth import compare, ends_in_gold, measures
from grpo_rlvr.inspection.jsonl import Line, locked
from grpo_rlvr.inspection.kinds import Kind, members
from grpo_rlvr.inspection.labels import load_labels
from grpo_rlvr.inspection.probe import run_probes
from grpo_rlvr.inspection.provenance import signal_of_step
from grpo_rlvr.inspection.recorded_lines import checked_samples
from grpo_rlvr.inspection.samples import load_samples, make_header, samples_path
from grpo_rlvr.inspection.scores import load_scores, samples_digest, save_scores, score_samples, scores_header
from grpo_rlvr.inspection.select import content, save_selection, select_samples
from grpo_rlvr.inspection.sides import Side, text_id
from grpo_rlvr.inspection.signal import signal_of
from grpo_rlvr.inspection.tables import SWITCH, Found, is_table, of_training, read_parquet, table_paths

ENOUGH, BACK = 256, 10  # completions that are read, and the steps back from which they are taken
POINTS = 12  # tables of the history


def run_step(config: Config, run: Path, step: str = "latest", quiet: bool = False) -> dict:
    """Compare what the policy writes at `step` with the first inspection.

    Args:
        run: the run folder, or another folder with TRL's tables.
        step: "latest" or a number; the tables of the ten steps up to it are read, newest first, until there are 256 completions.

    Returns:
        `found` (whether something speaks against the reward), `step`, `steps`, `findings`, `first` and `now` (of `measures`), `compared_with`
        ("inspection", or the run's first table where there is none), `signal` (with `signal_reason`, `signal_next`), `history`, `selected`,
        `folder`, `next`.

    Raises:
        UserError: no tables, no table of that step, or none that answers training prompts.
    """
    from grpo_rlvr.data import check_rows, load_rows
    from grpo_rlvr.rewards.registry import build_rewards

    rewards = build_rewards(config)
    rows = load_rows(config, "train")
    check_rows(rewards, rows)
    run_tables = _Tables(run, rows, load_rows(config, "eval"))
    at, steps = run_tables.window(step)
    threshold, folder = config.inspection.pass_threshold, config.inspection_folder / "steps" / f"{at:06d}"
    first, compared_with = _first(config, rewards, rows, run_tables, at)
    labels = _labels(config.inspection_folder)
    with locked(folder):
        samples = run_tables.samples(steps, rewards)
        scores, _ = score_samples(rewards, samples, threshold)
        mine = {s["sample_id"]: label for s in samples if (label := labels.get(text_id(s["sample_id"])))}
        now = Side(samples, scores, run_probes(rewards, samples, scores, threshold, mine))
        logged = _logged(run, at)
        findings = compare(first, now, rewards, labels, logged.get("logged_truncated_share"))
        ids = _select(config, now, findings, labels)
        header = make_header({"source": "tables", "steps": steps}, {"samples": samples_digest(samples)}, len(samples))
        write_text(folder / "samples.jsonl", "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in [header, *samples]))
        save_scores(folder, scores_header(config, rewards, samples), scores)
        save_selection(folder, ids, config.inspection.seed)
        signal = signal_of_step(signal_of(samples, scores, config.num_generations), at)
        write_json(folder / "signal.json", "signal", 1, signal)
        write_json(folder / "probes.json", "probes", 1, {"findings": list(now.probes)})
        result = {
            "found": any(f["severity"] in ("error", "warning") for f in findings),
            "step": at,
            "steps": steps,
            "compared_with": compared_with,
            "left_out": run_tables.left_out(steps),
            "findings": findings,
            "first": measures(first, rewards),
            "now": {**measures(now, rewards), **logged},
            "signal": signal["verdict"],
            "signal_reason": signal["reason"],
            "signal_next": signal["next_step"],
            "history": run_tables.history(at, rewards, [Kind(*f["kind"]) for f in findings if "kind" in f]),
            "selected": len(ids),
            "folder": str(folder),
        }
        result["next"] = _next_step(findings, signal)
        write_json(folder / "growth.json", "growth", 1, result)
    if not quiet:
        step_report.show_step(result, {s["sample_id"]: (s, row) for s, row in zip(samples, scores, strict=True)})
    return result


class _Tables:
    """The tables of a run, each read once."""

    def __init__(self, run: Path, rows: Sequence[dict], held_out: Sequence[dict]):
        self.paths, self.rows, self.held_out, self._read = table_paths(run), rows, held_out, {}
        if not self.paths:
            raise UserError("tables", Problem("--from-run", f"{run} holds no completion tables of TRL", SWITCH))

    def read(self, step: int) -> Found:
        if step not in self._read:
            table = read_parquet(self.paths[step], "--from-run")
            if table and not is_table(table):
                raise UserError("tables", Problem("--from-run", f"{self.paths[step]} is no completion table of TRL", SWITCH))
            self._read[step] = of_training(table, self.rows, self.held_out)
        return self._read[step]

    def window(self, step: str) -> tuple[int, list[int]]:
        """The step that is meant and the steps whose tables are taken, ascending."""
        there = list(self.paths)
        if step == "latest":
            # A table that an evaluation wrote holds held-out prompts; the one before it is the newest of training.
            at = next((s for s in reversed(there) if self.read(s).rows), None)
        else:
            at = int(step) if step.isdecimal() else None
            if at not in self.paths:
                message = f"there is no table of step {step}; there are {len(there)}, of steps {there[0]} to {there[-1]}"
                raise UserError("tables", Problem("--step", message, "name one of them, or latest"))
        if at is None or not self.read(at).rows:
            fix = "TRL writes held-out prompts at an evaluation: name another step; or CONFIG is not the config of this run"
            raise UserError("tables", Problem("--step", f"no completion of step {step} answers a prompt of the training data", fix))
        steps, count, last = [], 0, None
        for s in reversed([s for s in there if at - BACK < s <= at]):
            rows = self.read(s).rows
            # With several updates a generation TRL writes the same batch again.
            if rows and rows != last:
                steps.append(s)
                count += len(rows)
            last = rows
            if count >= ENOUGH:
                break
        return at, steps[::-1]

    def samples(self, steps: Sequence[int], rewards: Sequence) -> list[dict]:
        lines = [Line(i, None, row) for i, row in enumerate(row for s in steps for row in self.read(s).rows)]
        return [{**sample, "finish": "unknown"} for sample in checked_samples(lines, "the tables", rewards, self.rows)]

    def left_out(self, steps: Sequence[int]) -> dict:
        """Rows that answer held-out prompts, prompts with two golds, and unknown prompts."""
        return {name: sum(getattr(self.read(s), name) for s in steps) for name in ("held_out", "ambiguous", "strangers")}

    def history(self, at: int, rewards: Sequence, kinds: Sequence[Kind]) -> list[dict]:
        """Mean total as it was logged, length and shares of the kinds, over some of the tables up to `at`."""
        steps = [s for s in self.paths if s <= at]
        steps = sorted({steps[round(i * (len(steps) - 1) / (POINTS - 1))] for i in range(POINTS)})
        points = []
        for found, step in ((self.read(s), s) for s in steps):
            if not found.rows:
                continue
            samples = [{**row, "prompt": self.rows[row["prompt_index"]]["prompt"], "columns": self.rows[row["prompt_index"]]} for row in found.rows]
            there = members(samples, kinds) if kinds else {}
            points.append(
                {
                    "step": step,
                    "mean_total": mean([_logged_total(logged, rewards) for logged in found.logged]),
                    "gold_share": mean([ends_in_gold(s) for s in samples]),
                    "kinds": [len(there.get(kind, ())) / len(samples) for kind in kinds],
                }
            )
        return points


def _first(config: Config, rewards: Sequence, rows: Sequence[dict], tables: _Tables, at: int) -> tuple[Side, str]:
    """What to compare with: the first inspection, scored by today's rewards; without one, the run's first tables."""
    threshold = config.inspection.pass_threshold
    if not samples_path(config.inspection_folder).exists():
        first = next(s for s in tables.paths if tables.read(s).rows)
        if first == at:
            fix = "run: inspect_rewards.py run CONFIG first, or wait for another table"
            raise UserError("tables", Problem("--step", "there is nothing to compare with: no first inspection, and no earlier table", fix))
        samples, compared_with = tables.samples(tables.window(str(first))[1], rewards), f"step {first}"
        scores, _ = score_samples(rewards, samples, threshold)
    else:
        samples, compared_with = load_samples(config.inspection_folder), "inspection"
        try:
            scores = load_scores(config.inspection_folder, config, rewards, samples)
        except UserError:  # the rewards were mended since
            scores, _ = score_samples(rewards, samples, threshold)
    return Side(samples, scores, run_probes(rewards, samples, scores, threshold)), compared_with


def _labels(folder: Path) -> dict[str, str]:
    """Every reading so far by text: the first inspection's and those of other steps. Where two differ, fail before pass before unsure."""
    rank = ("unsure", "pass", "fail")
    labels: dict[str, str] = {}
    for place in (folder, *sorted(folder.glob("steps/*"))):
        for row in load_labels(place):
            text = text_id(row["sample_id"])
            labels[text] = max(labels.get(text, "unsure"), row["label"], key=rank.index)
    return labels


def _select(config: Config, now: Side, findings: Sequence[Mapping], labels: Mapping[str, str]) -> list[str]:
    """What to read: the proofs of the findings, then the highest paid that nobody has read, half of the reading at most; then as ever."""
    count, by_id = config.inspection.read, {s["sample_id"]: s for s in now.samples}
    found = [i for f in findings if f["severity"] in ("error", "warning") for i in f["sample_ids"]]
    paid = sorted(range(len(now.samples)), key=lambda i: (-(now.scores[i]["total"] or 0.0), i))
    fresh = [now.samples[i]["sample_id"] for i in paid if text_id(now.samples[i]["sample_id"]) not in labels]
    first: dict[str, str] = {}
    for sample_id in [*found, *fresh]:
        if len(first) < count // 2:
            first.setdefault(content(by_id[sample_id]), sample_id)
    chosen = list(first.values())
    rest = select_samples(now.samples, [row["verdict"] for row in now.scores], count, config.inspection.seed, keep=chosen)
    return [*chosen, *(i for i in rest if i not in set(chosen))]


def _logged(run: Path, step: int) -> dict:
    """Truncation and length in tokens of that step, which the tables do not hold, from the run's progress log."""
    names = {"completions/clipped_ratio": "logged_truncated_share", "completions/mean_length": "logged_mean_tokens"}
    try:
        lines = (run / "train" / "logs" / "progress.jsonl").read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return {}
    for line in reversed(lines):
        try:
            entry = json.loads(line)
            if entry["step"] == step:
                return {ours: entry[theirs] for theirs, ours in names.items() if isinstance(entry.get(theirs), int | float)}
        except (ValueError, KeyError, TypeError):
            continue
    return {}


def _logged_total(logged: Mapping[str, float | None], rewards: Sequence) -> float | None:
    values = [r.weight * logged[r.name] for r in rewards if logged.get(r.name) is not None]
    return sum(values) if values else None


def _next_step(findings: Sequence[Mapping], signal: Mapping) -> str:
    worst = findings[0] if findings and findings[0]["severity"] in ("error", "warning") else None
    if worst is None and signal["scored"] and not signal["success"]["passed"]:
        return f"nothing speaks against the reward, but nothing passes it either; {signal['next_step']}"
    if worst is None:
        return "nothing speaks against the reward; look again later"
    if worst["severity"] == "error":
        return "stop the run (Ctrl-C saves a checkpoint), read the samples shown, mend the reward, run and gate again"
    return "read the samples shown: if they are right, all is well; if not, stop the run and mend the reward"
