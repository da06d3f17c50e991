"""Reading samples one by one in a terminal: the label first, the score only afterwards."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from grpo_rlvr.config import Config
from grpo_rlvr.errors import Problem, UserError
from grpo_rlvr.inspection.agreement import word
from grpo_rlvr.inspection.labels import append_label, load_labels, repair_labels
from grpo_rlvr.inspection.samples import load_samples
from grpo_rlvr.inspection.scores import load_scores
from grpo_rlvr.inspection.select import load_selection
from grpo_rlvr.inspection.terminal import read_key, read_line, show_messages, single_keys, typed_lines, write
from grpo_rlvr.visible import fold, visible

KEYS = {"p": "pass", "f": "fail", "u": "unsure"}
HELP = "p pass   f fail   u unsure   b back   n note   m show all   q quit"


def review(config: Config, reviewer: str) -> dict:
    """Show the selected samples that `reviewer` has not judged yet and save each judgement at once.

    Returns:
        `labelled` (of the selection, by this reviewer), `selected`, `new` (judged now), `folder`.

    Raises:
        UserError: stdin is no terminal, or samples, scores or selection are missing or out of date.
    """
    if not sys.stdin.isatty():
        fix = "run it in a terminal. Reading is a person's task; programs and models record theirs through labels.append_label with their kind"
        raise UserError("review", Problem("stdin", "it is not a terminal, and a person must read the samples", fix))
    from grpo_rlvr.rewards import build_rewards

    folder = config.inspection_folder
    rewards = build_rewards(config)
    samples = load_samples(folder)
    scores = {row["sample_id"]: row for row in load_scores(folder, config, rewards, samples)}
    gold_names = sorted({c for r in rewards for c in r.columns})
    beside = repair_labels(folder)
    if beside:
        write(f"labels.jsonl had lines that are no labels (a torn write?); they are kept as {beside.name}\n")
    # Several people may read at once: each label is one appended line.
    return Session(folder, reviewer, load_selection(folder), scores, gold_names).run(sys.stdin.fileno())


class Session:
    """One reviewer, one selection; knows where the reader is and what was said."""

    def __init__(self, folder: Path, reviewer: str, selection: Sequence[dict], scores: Mapping[str, dict], gold_names: Sequence[str]):
        self.folder, self.reviewer, self.selection, self.scores, self.gold_names = folder, reviewer, selection, scores, gold_names
        self.labels = {row["sample_id"]: row["label"] for row in load_labels(folder) if row["reviewer"] == reviewer}
        self.new, self.note, self.fd = 0, "", -1

    def run(self, fd: int) -> dict:
        """Read until everything is judged or the reader stops."""
        self.fd = fd
        place = self._next(0)
        with single_keys(fd):
            while place is not None:
                self._show(place)
                step = self._ask(place)
                if step is None:
                    break
                place = max(0, place - 1) if step < 0 else self._next(place + 1)
        done = sum(s["sample_id"] in self.labels for s in self.selection)
        then = "; next: inspect_rewards.py gate CONFIG" if done == len(self.selection) else ""
        write(f"\n{done} of {len(self.selection)} samples are judged by {visible(self.reviewer)}{then}\n")
        return {"labelled": done, "selected": len(self.selection), "new": self.new, "reviewer": self.reviewer, "folder": str(self.folder)}

    def _next(self, start: int) -> int | None:
        """The first sample from `start` on without a judgement, else any without one."""
        order = [*range(start, len(self.selection)), *range(start)]
        return next((i for i in order if self.selection[i]["sample_id"] not in self.labels), None)

    def _show(self, place: int, whole: bool = False) -> None:
        sample = self.selection[place]
        columns = {k: v for k, v in sample["columns"].items() if k in self.gold_names} or sample["columns"]
        shorten = (lambda text: text) if whole else fold
        finish = {"length": " (cut off at the length limit)"}.get(sample["finish"], "")
        done = sum(s["sample_id"] in self.labels for s in self.selection)
        write(f"\n{'=' * 78}\n{place + 1}/{len(self.selection)}  ({done} judged)\n")
        for title, text in (
            ("PROMPT", show_messages(sample["prompt"])),
            (f"COMPLETION{finish}", show_messages(sample["completion"])),
            ("GOLD", "\n".join(f"{k}: {v}" for k, v in columns.items())),
        ):
            write(f"--- {title}\n{visible(shorten(text))}\n")
        before = self.labels.get(sample["sample_id"])
        write(f"--- {f'you said {before}; ' if before else ''}{HELP}\n")

    def _ask(self, place: int) -> int | None:
        """Take keys until one moves: 1 = judged, -1 = back, None = quit."""
        while True:
            key = read_key(self.fd).lower()
            if key in ("q", "", "\x04"):
                return None
            if key == "b":
                self.note = ""
                return -1
            if key == "m":
                self._show(place, whole=True)
            elif key == "n":
                write("note: ")
                with typed_lines(self.fd):
                    self.note = read_line(self.fd).strip()
                write(f"noted; {HELP}\n")
            elif key in KEYS:
                self._judge(self.selection[place], KEYS[key])
                return 1
            else:
                write(f"{HELP}\n")

    def _judge(self, sample: dict, label: str) -> None:
        append_label(self.folder, sample["sample_id"], label, self.reviewer, "human", self.note)
        self.labels[sample["sample_id"]] = label
        self.note = ""
        self.new += 1
        row = self.scores[sample["sample_id"]]
        parts = ", ".join(f"{name} {'none' if value is None else f'{value:g}'}" for name, value in row["scores"].items())
        verdict = word(row["verdict"])
        differs = " -- YOU AND THE REWARD DISAGREE" if {label, verdict} == {"pass", "fail"} else ""
        write(f"{label} saved. The reward says {verdict}: {visible(parts)}{differs}\n")
