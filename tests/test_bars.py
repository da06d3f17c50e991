from __future__ import annotations

import io
import time
from contextlib import redirect_stderr

import pytest
from grpo_rlvr import bars
from grpo_rlvr.training.display import figures


class Screen(io.StringIO):
    """A terminal that keeps what was written."""

    def isatty(self):
        return True


@pytest.fixture
def screen(monkeypatch):
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("COLUMNS", "100")
    return Screen()


def test_a_bar_on_a_terminal(screen):
    with redirect_stderr(screen), bars.progress("sampling", 4) as advance:
        advance(3)
        advance(1)
    assert "sampling" in screen.getvalue() and "4/4" in screen.getvalue()


def test_lines_elsewhere(capsys, monkeypatch):
    monkeypatch.setattr(bars, "EVERY_S", 0.0)
    with bars.progress("sampling", 4) as advance:
        advance(3)
        advance(1)
    assert [line.split(" (")[0] for line in capsys.readouterr().err.splitlines()] == ["sampling: 3 of 4", "sampling: 4 of 4"]


def test_long_silence_is_broken_where_there_is_no_bar(capsys, monkeypatch):
    monkeypatch.setattr(bars, "SILENCE_S", 0.04)
    with bars.progress("sampling", 4) as advance:
        advance(1)
        for _ in range(500):
            if "so far" in capsys.readouterr().err:
                break
            time.sleep(0.02)
        else:
            pytest.fail("nothing was said")
        advance(3)


def test_quiet_says_nothing(screen):
    with redirect_stderr(screen), bars.progress("sampling", 4, quiet=True) as advance:
        advance(4)
    assert screen.getvalue() == ""


def test_stages_name_what_is_done(screen):
    with redirect_stderr(screen), bars.stages() as report:
        report(3, 10, "teaching")
        report(20, None, "probing")
    assert "probing" in screen.getvalue()


def test_stages_elsewhere(capsys):
    with bars.stages(every_s=-1) as report:
        report(3, 10, "teaching")
    assert capsys.readouterr().err == "  teaching: step 3\n"


def test_figures_stand_below_the_bar_and_cannot_act_on_the_terminal(screen):
    with redirect_stderr(screen), bars.Bar("training", 10) as bar:
        bar.show(5, lines=["[red]reward 0.5[/red]"])
    assert "[red]reward 0.5[/red]" in screen.getvalue()


def test_sparkline():
    assert bars.sparkline([0, 1, None, 0.5, 1]) == "▁█ ▅█" or bars.sparkline([0, 1, None, 0.5, 1]) == "▁█ ▄█"
    assert bars.sparkline([2, 2]) == "▁▁" and bars.sparkline([None]) == "" and len(bars.sparkline(range(100))) == 40


def test_figures_leave_out_what_was_not_measured():
    line = {"reward": 0.5, "frac_reward_zero_std": 0.25, "tokens_per_s": 12345.6, "share_rollout": 0.61, "temp_c": None, "mem_gb": 1.26}
    assert figures(line, [0.1, 0.5]) == ["reward 0.500  dead groups 25%", "12,346 tokens/s  rollout 61%  memory 1.3 GB", "reward ▁█"]
    assert figures({}, []) == []
