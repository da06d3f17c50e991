"""The terminal review, through a pseudo-terminal as a person meets it."""

from __future__ import annotations

import json
import os
import select
import subprocess
import sys
import time
from pathlib import Path

import inspect_rewards
import pytest
from grpo_rlvr.inspection.labels import labels_path, load_judgements, load_labels
from grpo_rlvr.inspection.run import run_inspection
from grpo_rlvr.inspection.select import load_selection
from grpo_rlvr.visible import fold, visible

pty = pytest.importorskip("pty")
SCRIPT = Path(inspect_rewards.__file__)


class Terminal:
    """A review running in a pseudo-terminal."""

    def __init__(self, config: Path, reviewer: str = "ada"):
        self.master, slave = pty.openpty()
        env = {**os.environ, "PYTHONDONTWRITEBYTECODE": "1"}
        command = [sys.executable, str(SCRIPT), "review", str(config), "--reviewer", reviewer, "--terminal"]
        self.process = subprocess.Popen(command, stdin=slave, stdout=slave, stderr=slave, env=env, close_fds=True)
        os.close(slave)
        self.text = ""

    def until(self, words: str, seconds: float = 30) -> str:
        """Wait for words on the screen; returns what came up to them."""
        end = time.monotonic() + seconds
        while words not in self.text:
            assert time.monotonic() < end, f"no {words!r} in {self.text!r}"
            if select.select([self.master], [], [], 0.2)[0]:
                try:
                    self.text += os.read(self.master, 65536).decode("utf-8", "replace").replace("\r\n", "\n")
                except OSError:  # the other end is closed
                    assert words in self.text, self.text
        before, _, self.text = self.text.partition(words)
        return before

    def type(self, keys: str) -> None:
        os.write(self.master, keys.encode())

    def end(self) -> int:
        code = self.process.wait(30)
        os.close(self.master)
        return code


@pytest.fixture
def inspected(project):
    run_inspection(project.write(), completions=project.record(), quiet=True)
    return project


def test_needs_a_terminal(inspected):
    got = subprocess.run(
        [sys.executable, str(SCRIPT), "review", str(inspected.config_path), "--terminal", "--json"],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )
    assert got.returncode == 2 and "a person must read" in json.loads(got.stdout)["error"]["message"]
    assert not labels_path(inspected.inspection).exists()


def test_score_is_hidden_until_judged_then_saved_at_once_and_resumed(inspected):
    ids = [s["sample_id"] for s in load_selection(inspected.inspection)]
    terminal = Terminal(inspected.config_path)
    shown = terminal.until("q quit")
    assert "1/6" in shown and "--- PROMPT" in shown and "answer: " in shown and "reward" not in shown.lower() and "exact" not in shown
    terminal.type("z")  # no key of ours: nothing happens
    terminal.type("f")
    assert "exact" in terminal.until("2/6") and labels_path(inspected.inspection).read_text().count("\n") == 1
    terminal.until("q quit")
    terminal.type("nunit is missing\n")
    terminal.until("noted")
    terminal.type("u")
    terminal.until("3/6")
    terminal.until("q quit")
    terminal.type("b")  # back to the second
    assert "you said unsure" in terminal.until("q quit") + terminal.text
    terminal.type("p")
    terminal.until("3/6")
    terminal.type("q")
    terminal.until("2 of 6 samples are judged")
    assert terminal.end() == 0
    labels = {row["sample_id"]: (row["label"], row["note"], row["reviewer_kind"], row["revised"]) for row in load_labels(inspected.inspection)}
    assert labels == {ids[0]: ("fail", "", "human", False), ids[1]: ("pass", "", "human", True)}
    lines = [json.loads(line) for line in labels_path(inspected.inspection).read_text().splitlines()]
    assert [(x["label"], x["note"]) for x in lines] == [("fail", ""), ("unsure", "unit is missing"), ("pass", "")]

    again = Terminal(inspected.config_path)
    assert "3/6  (2 judged)" in again.until("q quit")
    again.type("pppp")
    again.until("6 of 6 samples are judged by ada")
    assert again.end() == 0 and len(load_labels(inspected.inspection)) == 6


def test_what_is_disputed_comes_again_once_all_is_judged(inspected):
    first = Terminal(inspected.config_path)
    first.until("q quit")
    first.type("d")
    first.until("disagree nowhere so far")
    first.type("pppppp")
    first.until("6 of 6 samples are judged")
    assert first.end() == 0
    scores = {row["sample_id"]: row["verdict"] for row in map(json.loads, (inspected.inspection / "scores.jsonl").read_text().splitlines()[1:])}
    disputed = [place for place, s in enumerate(load_selection(inspected.inspection), 1) if scores[s["sample_id"]] is False]
    assert len(disputed) >= 2

    again = Terminal(inspected.config_path)
    again.until(f"{disputed[0]}/6  (6 judged)")
    assert "you said pass; the reward says fail: exact 0" in again.until("q quit")
    again.type("d")
    again.until(f"{disputed[1]}/6  (6 judged)")
    for _ in disputed[1:]:
        again.until("q quit")
        again.type("f")  # each brings the next one, the last one the end
    again.until("6 of 6 samples are judged by ada; 1 disagreements with the reward (key d); next")
    assert again.end() == 0


def test_a_label_is_withdrawn_with_a_reason(inspected):
    terminal = Terminal(inspected.config_path)
    terminal.until("q quit")
    terminal.type("x")
    terminal.until("no label of yours to withdraw")
    terminal.type("p")
    terminal.until("2/6")
    terminal.until("q quit")
    terminal.type("b")
    terminal.until("you said pass")
    terminal.until("q quit")
    terminal.type("x\n")
    terminal.until("withdrawn with a reason; nothing was changed")
    terminal.type("xthe gold has a typo\n")
    terminal.until("withdrawn saved")
    terminal.until("2/6  (1 judged)")
    terminal.type("q")
    terminal.until("1 of 6")
    assert terminal.end() == 0
    assert [(row["label"], row["note"]) for row in load_judgements(inspected.inspection)] == [("withdrawn", "the gold has a typo")]


def test_each_reviewer_reads_for_himself(inspected):
    terminal = Terminal(inspected.config_path)
    terminal.until("q quit")
    terminal.type("pq")
    terminal.until("1 of 6")
    terminal.end()
    other = Terminal(inspected.config_path, "ben")
    assert "1/6  (0 judged)" in other.until("q quit")
    other.type("\x04")
    other.until("0 of 6 samples are judged by ben")
    assert other.end() == 0


def test_a_killed_review_loses_nothing_and_a_torn_line_is_moved_aside(inspected):
    terminal = Terminal(inspected.config_path)
    terminal.until("q quit")
    terminal.type("p")
    terminal.until("2/6")
    terminal.process.kill()
    terminal.end()
    with open(labels_path(inspected.inspection), "a") as out:
        out.write('{"schema": "grpo-rlvr/label/1", "sam')
    again = Terminal(inspected.config_path)
    assert "labels.torn-" in again.until("2/6  (1 judged)")
    again.type("q")
    again.until("1 of 6")
    assert again.end() == 0 and len(load_labels(inspected.inspection)) == 1


def test_hostile_text_is_spelled_out_and_long_text_folded(project):
    path = project.folder / "recorded.jsonl"
    long = "\x1b[2J\x9b31m[red]\u202e\u200b" + "x" * 6000 + "END\x07"
    path.write_text(json.dumps({"prompt_index": 0, "completion": long}) + "\n")
    run_inspection(project.write(), completions=path, quiet=True)
    terminal = Terminal(project.config_path)
    shown = terminal.until("q quit")
    assert r"\x1b[2J\x9b31m[red]\u202e\u200bxxx" in shown and r"END\x07" in shown and "characters folded" in shown
    assert not any(c in shown for c in "\x1b\x9b\u202e\u200b\x07")
    assert shown.count("x") < 4200
    terminal.type("m")
    assert "x" * 6000 in terminal.until("q quit")
    terminal.type("\x1b[A")  # an arrow key is one unknown key, not three
    terminal.type("q")
    terminal.until("0 of 1")
    assert terminal.end() == 0


def test_fold_counts_what_it_hides():
    text = "a" * 3000 + "b" * 3000
    folded = fold(text, 1000)
    assert folded == "a" * 500 + "\n[... 5,000 characters folded ...]\n" + "b" * 500
    lines = "\n".join(str(i) for i in range(200))
    folded = fold(lines, 4000, 10)
    assert folded.startswith("0\n1\n2\n3\n4\n[...") and folded.endswith("...]\n195\n196\n197\n198\n199")
    assert fold("short") == "short"


def test_visible_keeps_letters_lines_and_tabs():
    assert visible("π = 3\n\té 漢 \u0301") == "π = 3\n\té 漢 \u0301"
    assert visible("\r\x00\u2028\ud800\U000e0041") == r"\x0d\x00\u2028\ud800\U000e0041"
