"""Reading samples one by one in a terminal: the label first, the score only afterwards."""

from __future__ import annotations

import sys

from grpo_rlvr.config import Config
from grpo_rlvr.errors import Problem, UserError
from grpo_rlvr.inspection.labels import NOTE_CHARS, repair_labels
from grpo_rlvr.inspection.reading import Reading
from grpo_rlvr.inspection.terminal import read_key, read_line, show_messages, single_keys, typed_lines, write
from grpo_rlvr.visible import fold, visible

KEYS = {"p": "pass", "f": "fail", "u": "unsure"}
HELP = "p pass   f fail   u unsure   b back   d next disagreement   n note   x withdraw   m show all   q quit"


def review(config: Config, reviewer: str, step: str | None = None) -> dict:
    """Show the selected samples that `reviewer` has not judged yet and save each judgement at once.

    Where all are judged, it shows those on which the reader and the reward disagree.

    Returns:
        `Reading.summary`.

    Raises:
        UserError: stdin is no terminal, or samples, scores or selection are missing or out of date.
    """
    if not sys.stdin.isatty():
        fix = "run it in a terminal. Reading is a person's task; programs and models record theirs through labels.append_label with their kind"
        raise UserError("review", Problem("stdin", "it is not a terminal, and a person must read the samples", fix))
    reading = Reading.open(config, reviewer, step)
    beside = repair_labels(reading.folder)
    if beside:
        write(f"labels.jsonl had lines that are no labels (a torn write?); they are kept as {beside.name}\n")
    # Several people may read at once: each label is one appended line.
    return Session(reading).run(sys.stdin.fileno())


class Session:
    """One reading in a terminal; knows where the reader is."""

    def __init__(self, reading: Reading):
        self.reading, self.note, self.fd = reading, "", -1

    def run(self, fd: int) -> dict:
        """Read until everything is judged or the reader stops."""
        self.fd = fd
        if self.reading.notice:
            write(f"note: {visible(self.reading.notice)}\n")
        place = self.reading.waiting()
        if place is None and (place := self._differing(-1)) is not None:
            write(f"all {len(self.reading.selection)} are judged; here is where you and the reward disagree (q ends)\n")
        with single_keys(fd):
            while place is not None:
                self._show(place)
                step = self._ask(place)
                if step is None:
                    break
                place = max(0, place - 1) if step < 0 else self._following(place) if step else self._differing(place, around=True)
        summary = self.reading.summary()
        then = "; next: inspect_rewards.py gate CONFIG" if summary["labelled"] == summary["selected"] else ""
        differ = f"; {summary['disagreements']} disagreements with the reward (key d)" if summary["disagreements"] else ""
        write(f"\n{summary['labelled']} of {summary['selected']} samples are judged by {visible(self.reading.reviewer)}{differ}{then}\n")
        return summary

    def _following(self, place: int) -> int | None:
        """Where to go after a judgement: what waits; else, so that a second pass ends, a later disagreement."""
        waiting = self.reading.waiting(place + 1)
        return self._differing(place) if waiting is None else waiting

    def _differing(self, place: int, around: bool = False) -> int | None:
        """The place of the next disagreement after `place`; with `around` also from the beginning on."""
        places = [self.reading.places[i] for i in self.reading.disagreements()]
        return next((p for p in places if p > place), places[0] if around and places else None)

    def _show(self, place: int, whole: bool = False) -> None:
        sample = self.reading.selection[place]
        columns = {k: v for k, v in sample["columns"].items() if k in self.reading.gold_names} or sample["columns"]
        shorten = (lambda text: text) if whole else fold
        finish = {"length": " (cut off at the length limit)"}.get(sample["finish"], "")
        write(f"\n{'=' * 78}\n{place + 1}/{len(self.reading.selection)}  ({self.reading.done()} judged)\n")
        for title, text in (
            ("PROMPT", show_messages(sample["prompt"])),
            (f"COMPLETION{finish}", show_messages(sample["completion"])),
            ("GOLD", "\n".join(f"{k}: {v}" for k, v in columns.items())),
        ):
            write(f"--- {title}\n{visible(shorten(text))}\n")
        before = self.reading.labels().get(sample["sample_id"])
        write(f"--- {f'you said {before}; the reward says {self._score(place)}{chr(10)}--- ' if before else ''}{HELP}\n")

    def _ask(self, place: int) -> int | None:
        """Take keys until one moves: 1 = judged, -1 = back, 0 = to the next disagreement, None = quit."""
        while True:
            key = read_key(self.fd).lower()
            if key in ("q", "", "\x04"):
                return None
            if key == "b":
                self.note = ""
                return -1
            if key == "d":
                if self.reading.disagreements():
                    self.note = ""
                    return 0
                write("you and the reward disagree nowhere so far\n")
            elif key == "m":
                self._show(place, whole=True)
            elif key == "n":
                self.note = self._type("note: ")
                write(f"noted; {HELP}\n")
            elif key == "x" and self._withdraw(place):
                return 1
            elif key in KEYS:
                self._judge(place, KEYS[key])
                return 1
            elif key != "x":
                write(f"{HELP}\n")

    def _type(self, asked: str) -> str:
        write(asked)
        with typed_lines(self.fd):
            return read_line(self.fd).strip()[:NOTE_CHARS]

    def _withdraw(self, place: int) -> bool:
        """Take a label back for good, with the reason; whether it was done."""
        if self.reading.selection[place]["sample_id"] not in self.reading.labels():
            write("there is no label of yours to withdraw here; b goes back to the sample before\n")
            return False
        self.note = self._type("why is the label withdrawn? ")
        if not self.note:
            write("a label is withdrawn with a reason; nothing was changed\n")
            return False
        self._judge(place, "withdrawn")
        return True

    def _judge(self, place: int, label: str) -> None:
        sample_id = self.reading.selection[place]["sample_id"]
        self.reading.judge(sample_id, label, self.note)
        self.note = ""
        differ = {label, self.reading.score(sample_id)["verdict"]} == {"pass", "fail"}
        advice = " -- YOU AND THE REWARD DISAGREE (b or d: look again; x there: withdraw)" if differ else ""
        write(f"{label} saved. The reward says {self._score(place)}{advice}\n")

    def _score(self, place: int) -> str:
        """The reward's verdict and its parts, of a sample that is judged."""
        row = self.reading.score(self.reading.selection[place]["sample_id"])
        parts = ", ".join(f"{part['name']} {'none' if part['value'] is None else format(part['value'], 'g')}" for part in row["parts"])
        return f"{row['verdict']}: {visible(parts)}"
