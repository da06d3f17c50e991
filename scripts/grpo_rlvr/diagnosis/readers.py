"""Where the lines of a log come from: one function a format."""

from __future__ import annotations

import csv
import json
import re
from collections.abc import Iterator, Sequence
from pathlib import Path

from grpo_rlvr.diagnosis import event_files, tracker_files
from grpo_rlvr.diagnosis.metrics import Log, build, lines
from grpo_rlvr.diagnosis.names import STEP_NAMES, foreign
from grpo_rlvr.errors import Problem, UserError

TAKEN = (
    "name a run folder, TRL's output_dir, trainer_state.json, a .jsonl of progress lines, a TensorBoard folder, W&B's .wandb file or its folder,"
    " Trackio's .db, or a CSV export of W&B or Trackio"
)
ONE_OF_TRACKIO = "give each run a project of its own, or export one run"
EVENTS = "events.out.tfevents.*"
_CHECKPOINT = re.compile(r"checkpoint-(\d+)")
_BOUNDS = re.compile(r"__(MIN|MAX)$")


class NothingYet(UserError):
    """There is no line, and one may still come."""


def of_folder(folder: Path) -> Log:
    """Our run folder first, then what TRL or TensorBoard leave in a folder."""
    for place in (folder / "train" / "logs", folder / "logs", folder):
        if (place / "progress.jsonl").is_file():
            return _progress(place)
    for place in (folder, folder / "train" / "checkpoints", folder / "checkpoints"):
        state = newest_state(place)
        if state:
            return of_state(state)
    if any((folder / name).exists() for name in ("train", "config.resolved.yaml")):
        return Log(kind="run folder without a line yet")
    runs = runs_inside(folder)
    if runs:
        many = f"{len(runs)} runs" if len(runs) > 1 else "a run"
        raise UserError("run", Problem(str(folder), f"the folder holds no log itself, but {many} inside", f"name one: {_listed(runs)}"))
    events = sorted(folder.rglob(EVENTS), key=_begun)
    if events:
        _one_start_after_another(events, folder)
        return _events(events, folder)
    kept = sorted(p for name in ("*.wandb", "*/*.wandb", "*.db") for p in folder.glob(name) if not p.parent.is_symlink())
    if len(kept) > 1:
        raise UserError("run", Problem(str(folder), f"the folder holds {len(kept)} files of W&B or Trackio", f"name one: {_listed(kept)}"))
    if kept:
        return of_file(kept[0])
    raise NothingYet("run", Problem(str(folder), "the folder holds no log of a run", TAKEN))


def runs_inside(folder: Path) -> list[Path]:
    """Run folders and output_dirs one or two levels below."""
    found = set()
    for mark in ("train/logs/progress.jsonl", "checkpoint-*/trainer_state.json", "trainer_state.json"):
        for level in ("*", "*/*"):
            for path in folder.glob(f"{level}/{mark}"):
                above = path.parents[mark.count("/")]
                found.add(above.parent if _CHECKPOINT.fullmatch(above.name) else above)
    # The checkpoints of a run folder lie inside it.
    return sorted(run for run in found if run != folder and not any(other in run.parents for other in found))


def _listed(paths: Sequence[Path]) -> str:
    shown = ", ".join(map(str, paths[:6]))
    return shown + (f" and {len(paths) - 6} more" if len(paths) > 6 else "")


def _begun(path: Path) -> tuple[float, str]:
    """Event files by the second in which they were begun, which is in their name."""
    second = path.name.split(".")[3] if path.name.count(".") >= 3 else ""
    return (float(second) if second.isdigit() else 0.0, str(path))


def _one_start_after_another(events: Sequence[Path], folder: Path) -> None:
    """Several folders of event files are one run only if each start goes on where an earlier one had come to.

    Raises:
        UserError: they are several runs, whose lines would be mixed.
    """
    places: dict[Path, int] = {}
    for path in events:
        first = next((step for step, _, _ in event_files.scalars(path)), None)
        if first is not None:
            places.setdefault(path.parent, first)
    firsts = list(places.values())
    goes_on = all(later > earlier for earlier, later in zip(firsts, firsts[1:], strict=False))
    if len(places) > 1 and not (goes_on and len({place.parent for place in places}) == 1):
        raise UserError("run", Problem(str(folder), f"the folder holds event files of {len(places)} runs", f"name one: {_listed(sorted(places))}"))


def of_file(path: Path) -> Log:
    if path.name.startswith("events.out.tfevents"):
        return _events([path], path.parent)
    if path.suffix.lower() in (".csv", ".tsv"):
        return of_csv(path)
    if path.suffix.lower() == ".wandb":
        return _of_tracker(path, "W&B file", *tracker_files.wandb_file(path))
    if path.suffix.lower() == ".db":
        found = tracker_files.trackio_file(path)
        if len(found) > 1:
            raise UserError("run", Problem(str(path), f"the database holds {len(found)} runs: {', '.join(sorted(found)[:5])}", ONE_OF_TRACKIO))
        return _of_tracker(path, "Trackio database", *next(iter(found.values()), ([], {})))
    if path.suffix.lower() == ".jsonl":
        return _checked(build(lines(path), "progress lines"), path)
    if path.suffix.lower() == ".json":
        return of_state(path)
    raise UserError("run", Problem(str(path), f"'{path.suffix or path.name}' is no log that can be read", TAKEN))


def _of_tracker(path: Path, kind: str, rows: Sequence[dict], settings: dict) -> Log:
    log = build(rows, kind)
    log.settings = settings
    return _checked(log, path)


def _progress(place: Path) -> Log:
    log = build(lines(place / "progress.jsonl"), "run folder")
    evaluations = place / "eval.jsonl"
    for line in lines(evaluations) if evaluations.is_file() else ():
        if isinstance(line.get("step"), int) and isinstance(line.get("accuracy"), (int, float)):
            log.evaluations.setdefault("held_out/accuracy", {})[line["step"]] = float(line["accuracy"])
            if isinstance(line.get("prompts"), int):
                log.evaluations.setdefault("held_out/prompts", {})[line["step"]] = float(line["prompts"])
    return log


def newest_state(folder: Path) -> Path | None:
    """trainer_state.json of the folder itself, or of its checkpoint with the most steps."""
    if (folder / "trainer_state.json").is_file():
        return folder / "trainer_state.json"
    found = [(int(m[1]), p) for p in folder.glob("checkpoint-*/trainer_state.json") if (m := _CHECKPOINT.fullmatch(p.parent.name))]
    return max(found)[1] if found else None


def of_state(path: Path) -> Log:
    """trainer_state.json of transformers' Trainer, or a JSON list of lines."""
    try:
        data = json.loads(path.read_bytes())
    except (ValueError, RecursionError) as exc:
        raise UserError("run", Problem(str(path), f"this is not JSON: {str(exc)[:80]}", "was it copied whole?")) from None
    rows = data.get("log_history") if isinstance(data, dict) else data
    if not isinstance(rows, list) or not all(isinstance(r, dict) for r in rows):
        raise UserError("run", Problem(str(path), "there is no log_history in it", TAKEN))
    log = build(rows, "trainer_state.json")
    if isinstance(data, dict):
        for name in ("global_step", "max_steps"):
            if isinstance(data.get(name), int):
                log.end.setdefault(name, data[name])
    return _checked(log, path, empty_ok="max_steps" in log.end)


def of_csv(path: Path) -> Log:
    """A CSV export with a column a metric: W&B's history or chart, Trackio, or any table with a step.

    Raises:
        UserError: no step column, columns of several runs, or no CSV at all.
    """
    try:
        return _of_table(path)
    except csv.Error as exc:
        raise UserError("run", Problem(str(path), f"this cannot be read as CSV: {exc}", TAKEN)) from None


def _of_table(path: Path) -> Log:
    with open(path, encoding="utf-8-sig", errors="replace", newline="") as file:
        table = csv.DictReader(file, dialect="excel-tab" if path.suffix.lower() == ".tsv" else "excel")
        header = [h for h in table.fieldnames or [] if h]
        step = next((name for name in STEP_NAMES if name in header), None)
        if step is None:
            raise UserError("run", Problem(str(path), f"no column holds the step; got {', '.join(header[:8])}", f"name one of them {STEP_NAMES[3]}"))
        names = _one_run(header, path)
        runs = set()

        def rows() -> Iterator[dict]:
            for row in table:
                if row.get("run"):
                    runs.add(row["run"])
                values = {names[k]: v for k, v in row.items() if k in names and v not in ("", None)}
                yield {**values, "step": row.get(step) or None}

        log = build(rows(), "CSV export")
    if len(runs) > 1:
        raise UserError("run", Problem(str(path), f"the table holds {len(runs)} runs: {', '.join(sorted(runs)[:5])}", "export one run"))
    for name in ("run", "run_id", "series_key", "time", "_runtime", "_timestamp", "timestamp"):
        log.columns.pop(name, None)
    return _checked(log, path)


def _one_run(header: list[str], path: Path) -> dict[str, str]:
    """Column -> metric. W&B's charts write `run name - train/reward` and its bounds beside it."""
    split = {h: h.rsplit(" - ", 1) for h in header if " - " in h and not _BOUNDS.search(h)}
    runs = {parts[0] for parts in split.values()}
    if len(runs) > 1:
        raise UserError("run", Problem(str(path), f"the columns are of {len(runs)} runs: {', '.join(sorted(runs)[:5])}", "export one run"))
    return {h: split[h][1] if h in split else h for h in header if not _BOUNDS.search(h) and h not in STEP_NAMES}


def _events(paths: list[Path], folder: Path) -> Log:
    scalars: dict[int, dict] = {}
    for path in paths:
        for step, tag, value in event_files.scalars(path):
            scalars.setdefault(step, {"step": step})[tag] = value
    return _checked(build((scalars[s] for s in sorted(scalars)), "TensorBoard events"), folder)


def _checked(log: Log, path: Path, empty_ok: bool = False) -> Log:
    other = foreign(log.columns)
    if other:
        shown = ", ".join(sorted(set(log.columns) - {"loss", "grad_norm", "learning_rate", "epoch"})[:4])
        raise UserError("run", Problem(str(path), f"this is the log of {other}, not of GRPO: it holds {shown} and no reward", "name a run of GRPO"))
    if not log.steps and not log.evaluations and log.stepless and not empty_ok:
        fix = "write `step` (the trainer's state.global_step) into each line"
        raise UserError("run", Problem(str(path), f"{log.stepless} lines hold metrics, and none of them a step", fix))
    if not log.steps and not log.evaluations and not empty_ok:
        raise NothingYet("run", Problem(str(path), "no line in it holds a step and a metric", TAKEN))
    return log
