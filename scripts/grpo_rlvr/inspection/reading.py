"""What one reviewer reads: the selection, today's scores, and what was said, kept up with `labels.jsonl` whoever writes there."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from grpo_rlvr.config import Config
from grpo_rlvr.errors import CheckFailed, Problem, UserError
from grpo_rlvr.inspection.agreement import disagrees, word
from grpo_rlvr.inspection.jsonl import Tail
from grpo_rlvr.inspection.labels import LABELS, append_label, labels_path, line_problem, next_word
from grpo_rlvr.inspection.provenance import origin_warnings
from grpo_rlvr.inspection.samples import load_header, load_samples, samples_path
from grpo_rlvr.inspection.scores import load_scores
from grpo_rlvr.inspection.select import load_selection


def step_folder(config: Config, step: str) -> Path:
    """Where the inspection of a run's step lies; `latest` is the last one that was inspected."""
    steps = config.inspection_folder / "steps"
    there = sorted(int(path.name) for path in steps.glob("[0-9]*") if path.name.isdigit())
    number = there[-1] if there and step == "latest" else int(step) if step.isdecimal() else None
    if number not in there:
        got = f"step {step} was not inspected; there are: {', '.join(map(str, there)) or 'none'}"
        raise UserError("review", Problem("--step", got, f"run: inspect_rewards.py run CONFIG --from-run RUN --step {step}"))
    return steps / f"{number:06d}"


class Reading:
    """One reviewer and one selection; every judgement is on the disk when `judge` returns."""

    def __init__(
        self, folder: Path, reviewer: str, selection: Sequence[dict], scores: Mapping[str, dict], gold_names: Sequence[str], notice: str = ""
    ):
        self.notice = notice  # what the reader has to know of all samples
        self.folder, self.reviewer, self.selection, self.gold_names = folder, reviewer, selection, gold_names
        self.places = {sample["sample_id"]: place for place, sample in enumerate(selection)}
        self._scores, self._said, self._tail = scores, {}, Tail(labels_path(folder))
        self.new = 0
        self._inputs = self._input_stamps()

    @classmethod
    def open(cls, config: Config, reviewer: str, step: str | None = None) -> Reading:
        """Load what `inspect_rewards.py run` wrote, or with `step` what it wrote about that step of a run (`--from-run`).

        Raises:
            UserError: samples, scores or selection are missing or out of date, or that step was not inspected.
        """
        from grpo_rlvr.rewards.registry import build_rewards

        folder = config.inspection_folder if step is None else step_folder(config, step)
        rewards = build_rewards(config)
        samples = load_samples(folder)
        scores = {row["sample_id"]: row for row in load_scores(folder, config, rewards, samples)}
        selection = load_selection(folder)
        # A label that was undone waits to be given again, even if a later run selected other samples.
        gold_names = sorted({c for r in rewards for c in r.columns})
        undone = {i for i, row in cls(folder, reviewer, samples, scores, gold_names).said().items() if row["label"] == "undone"}
        undone -= {sample["sample_id"] for sample in selection}
        selection += [sample for sample in samples if sample["sample_id"] in undone]
        return cls(folder, reviewer, selection, scores, gold_names, "; ".join(origin_warnings(load_header(folder), samples)))

    def said(self) -> dict[str, dict]:
        """This reviewer's last line on each selected sample, by its id; lines that are no labels are passed over."""
        lines, anew = self._tail.read()
        if anew:
            self._said = {}
        for line in lines:
            row = line.value
            if not line_problem(line) and row["reviewer"] == self.reviewer and row["sample_id"] in self.places:
                self._said[row["sample_id"]] = next_word(self._said.get(row["sample_id"]), row)
        return self._said

    def labels(self) -> dict[str, str]:
        """pass, fail, unsure or withdrawn of each selected sample that does not wait to be judged."""
        return {i: row["label"] for i, row in self.said().items() if row["label"] != "undone"}

    def judge(self, sample_id: str, label: str, note: str = "", turn: int | None = None) -> bool:
        """Save a judgement; returns whether a line was added (saying the same once more adds none).

        Args:
            turn: how many lines of this reviewer on this sample the caller knows of; None where nobody else can have added one.

        Raises:
            CheckFailed: the reviewer has judged this sample elsewhere in the meantime, in another tab or terminal.
            UserError: this is no label.
        """
        try:
            append_label(self.folder, sample_id, label, self.reviewer, "human", note, check=lambda: self._check(sample_id, label, note, turn))
        except _AlreadySaid:
            return False
        self.new += 1
        return True

    def _check(self, sample_id: str, label: str, note: str, turn: int | None) -> None:
        row = self.said().get(sample_id)
        if (row is None and label == "undone") or (row is not None and (row["label"], row.get("note", "")) == (label, note)):
            raise _AlreadySaid
        if turn is not None and turn != (row["turn"] if row else 0):
            said = row["label"] if row else "nothing"
            fix = "look at the sample again, then judge"
            raise CheckFailed("labels", Problem("label", f"you said {said} elsewhere in the meantime; nothing was changed", fix))

    def score(self, sample_id: str) -> dict | None:
        """What the reward gives, but only of a sample that has been judged: `verdict` (pass, fail, none), `total` and `parts`."""
        row = self.said().get(sample_id)
        return plain_score(self._scores[sample_id]) if row and row["label"] != "undone" else None

    def hidden_score(self, sample_id: str) -> dict:
        """The score, judged or not: for a page that keeps it hidden itself."""
        return plain_score(self._scores[sample_id])

    def disagreements(self) -> list[str]:
        """Selected samples, in their order, whose label contradicts the reward."""
        found = [i for i, label in self.labels().items() if disagrees(label, self._scores[i]["verdict"])]
        return sorted(found, key=self.places.__getitem__)

    def waiting(self, start: int = 0) -> int | None:
        """The place of the first sample from `start` on without a judgement, else of any without one, else None."""
        labels = self.labels()
        order = [*range(start, len(self.selection)), *range(min(start, len(self.selection)))]
        return next((i for i in order if self.selection[i]["sample_id"] not in labels), None)

    def done(self) -> int:
        return len(self.labels())

    def is_stale(self) -> bool:
        """Whether a run has written other samples, scores or another selection since this was opened."""
        return self._inputs != self._input_stamps()

    def summary(self) -> dict:
        """`labelled` (of the selection, by this reviewer), `selected`, `new` (lines added now), `disagreements`, `reviewer`, `folder`."""
        labels = list(self.labels().values())
        return {
            "labelled": len(labels),
            "selected": len(self.selection),
            "new": self.new,
            **{name: labels.count(name) for name in (*LABELS, "withdrawn")},
            "disagreements": len(self.disagreements()),
            "reviewer": self.reviewer,
            "folder": str(self.folder),
        }

    def _input_stamps(self) -> list:
        return [_stamp(path) for path in (samples_path(self.folder), self.folder / "scores.jsonl", self.folder / "selection.json")]


class _AlreadySaid(Exception):
    """The same judgement stands there already: a second press, or a request that was sent twice."""


def plain_score(row: Mapping) -> dict:
    """A row of `scores.jsonl` as people read it."""
    parts = [{"name": name, "value": value} for name, value in row["scores"].items()]
    return {"verdict": word(row["verdict"]), "total": row["total"], "parts": parts}


def _stamp(path: Path) -> tuple | None:
    """Changes when the file does: another file under the name, another size or time."""
    try:
        found = path.stat()
    except FileNotFoundError:
        return None
    return found.st_ino, found.st_size, found.st_mtime_ns
