"""report.html: whole, offline, hostile text escaped, curves and marks there; seen in a browser where there is one."""

from __future__ import annotations

import dataclasses
import html.parser
import json
import re
import sys

import browser
import pytest
from conftest import ROOT
from grpo_rlvr.diagnosis.curves import Curve, Mark, Panel, svg, thin, ticks
from grpo_rlvr.diagnosis.panels import panels
from grpo_rlvr.diagnosis.png import write_png
from grpo_rlvr.diagnosis.report import page, write_report
from grpo_rlvr.diagnosis.report_sections import differences
from grpo_rlvr.diagnosis.rules import diagnose
from grpo_rlvr.diagnosis.run import read_run
from grpo_rlvr.diagnosis.samples import shown_samples
from grpo_rlvr.diagnosis.series import Series
from grpo_rlvr.errors import MissingError

from diagnosis.conftest import tiny_runs, write_run
from diagnosis.planted import healthy, run_of

HOSTILE = '</script><script>document.title="owned"</script><img src=x onerror=document.title="owned">\x1b]0;owned\x07\u202e'


class Tags(html.parser.HTMLParser):
    VOID = {"meta"}  # of those the page has; SVG elements close themselves

    def __init__(self, text: str):
        super().__init__()
        self.names: list[str] = []
        self.open: list[str] = []
        self.feed(text)
        self.close()

    def handle_starttag(self, tag, attrs):
        self.names.append(tag)
        if tag not in self.VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag, attrs):
        self.names.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag


def held_out_records(folder, step: int, text: str) -> None:
    place = folder / "train" / "logs" / "held_out"
    place.mkdir(exist_ok=True)
    rows = [{"schema": "grpo-rlvr/held-out/1", "step": step}]
    rows += [{"prompt": [{"role": "user", "content": f"{i}+1=?"}], "completion": [{"role": "assistant", "content": f"{text} {i}"}],
              "scores": {"exact": i / 4, "format": None}, "total": i / 4, "verdict": i > 2} for i in range(5)]  # fmt: skip
    (place / f"step-{step:06d}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))


@pytest.fixture
def hacked(hacked_folder):
    for step in (0, 80, 160):
        held_out_records(hacked_folder, step, HOSTILE if step == 80 else "plain")
    return hacked_folder


def text_of(folder) -> str:
    run = read_run(folder)
    return page(run, diagnose(run))


def test_the_page_is_whole_and_offline(hacked):
    text = text_of(hacked)
    tags = Tags(text)
    assert tags.open == [] and set(tags.names) & {"link", "img", "iframe", "object", "embed", "form", "base"} == set()
    assert re.findall(r"(?:src|href|action)\s*=\s*[\"']?(?!https://arxiv)\S+", re.sub(r"&lt;.*?&gt;", "", text)) == []
    assert "default-src 'none'" in text and "@import" not in text and "url(" not in text
    for words in ("reward hacking", "confidence high", "45.3%", "100.0%", "Judged by the rewards of this run", "trained without it",
                  "start, step 0", "end, step 160",
                  "best paid", "worst paid", "grpo.learning_rate", "1.0e-06", "0.0003"):  # fmt: skip
        assert words in text, words
    assert text.count('class="mark"') >= 1 and text.count("<svg") >= 8


def test_what_a_model_wrote_stays_text(hacked):
    text = text_of(hacked)
    assert "<img" not in text and text.count("<script") == 2 and "\x1b" not in text and "\u202e" not in text
    assert "&lt;img src=x" in text


def test_names_in_a_log_stay_text():
    rows, settings, held_out = healthy(1, "short", 60)
    for row in rows:
        row[f"rewards/{HOSTILE}/mean"] = 0.5
        row[HOSTILE] = 1.0
    run = run_of(rows, settings, held_out)
    text = page(run, diagnose(run))
    assert text.count("<script") == 2 and "<img" not in text and "\x1b" not in text
    Tags(text)


def test_samples_are_of_start_middle_and_end(hacked):
    shown, remark = shown_samples(hacked, {})
    assert [(s.step, s.when) for s in shown] == [(0, "start"), (80, "middle"), (160, "end")] and remark == ""
    assert [s.total for s in shown[0].samples] == [1.0, 0.5, 0.0]
    assert shown_samples(hacked / "train", {})[1].startswith("no completions were kept")


def test_trls_own_tables_come_first(hacked):
    pandas = pytest.importorskip("pandas")
    folder = hacked / "train" / "checkpoints" / "completions"
    folder.mkdir(parents=True)
    for step in (1, 2):
        table = {"step": [step] * 2, "prompt": ["p"] * 2, "completion": ["good", "bad"], "steps_reward": [1.0, 0.0], "advantage": [1.0, -1.0]}
        pandas.DataFrame(table).to_parquet(folder / f"completions_{step:05d}.parquet")
    shown, _ = shown_samples(hacked, {"steps_reward": 2.0})
    assert [(s.step, s.source) for s in shown] == [(1, "training"), (2, "training")]
    assert [(s.place, s.completion, s.total) for s in shown[0].samples] == [("best paid", "good", 2.0), ("worst paid", "bad", 0.0)]


def test_of_a_large_table_only_the_shown_texts_are_read(tmp_path, monkeypatch):
    pandas, tables = pytest.importorskip("pandas"), pytest.importorskip("grpo_rlvr.inspection.tables")
    (tmp_path / "completions").mkdir()
    chat = [[{"role": "assistant", "content": f"{i} " + "x" * 50_000}] for i in range(300)]
    table = {"step": 1, "prompt": [f"p{i}" for i in range(300)], "completion": chat, "exact": [float(i == 170) for i in range(300)], "advantage": 0.0}
    pandas.DataFrame(table).to_parquet(tmp_path / "completions" / "completions_00001.parquet", row_group_size=100)
    read, row = [], tables._row
    monkeypatch.setattr(tables, "_row", lambda r: read.append(r) or row(r))
    ((shown,), _) = shown_samples(tmp_path, {})
    assert [(s.place, s.prompt, s.total) for s in shown.samples] == [("best paid", "p170", 1.0), ("middle", "p149", 0.0), ("worst paid", "p299", 0.0)]
    assert shown.samples[0].completion.startswith("170 ") and all(len(s.completion) < 21_000 for s in shown.samples) and len(read) == 3


def test_settings_are_compared_with_the_recipe():
    rows = differences(
        {"model": {"name_or_path": "m", "dtype": "float32"}, "grpo": {"learning_rate": 1e-5, "bf16": True}, "rewards": [{"use": "math"}]}
    )
    assert ("grpo.learning_rate", "1.0e-06", "1.0e-05") in rows and ("model.name_or_path", "Qwen/Qwen2.5-0.5B-Instruct", "m") in rows
    assert "grpo.bf16" not in [name for name, _, _ in rows]
    # Written or not, TRL's default is the same; what the run itself sets counts as set.
    names = [name for name, _, _ in rows]
    assert "grpo.max_grad_norm" not in names and ("grpo.max_completion_length", "512", "512 (default)") not in rows
    assert "grpo.logging_steps" in names and "grpo.logging_steps" not in [n for n, _, _ in differences({"grpo": {}}, {"logging_steps": 1})]
    assert ("rewards", "format x 0.2, math x 1", "math x 1") in rows


def test_a_log_with_nothing_in_it_makes_a_page(tmp_path):
    folder = write_run({**tiny_runs()["healthy"], "columns": {"step": []}, "evaluations": []}, tmp_path / "run", finished=False)
    assert "nothing to draw" in text_of(folder)


def test_a_long_log_makes_a_small_page():
    rows, settings, _ = healthy(1, "short", 300)
    long = [{**rows[i % 300], "step": i + 1} for i in range(6000)]
    run = run_of(long, settings, {})
    assert len(page(run, diagnose(run))) < 700_000
    line, band = thin(run.reward)
    assert len(line) <= 400 and len(band) == len(line) and all(low <= high for _, low, high in band)


@pytest.mark.parametrize(("low", "high"), [(0, 1), (0.001, 0.0012), (-3, 250), (1e-7, 3e-7), (0, 1e6)])
def test_ticks_are_round_and_inside(low, high):
    found = ticks(low, high)
    assert 2 <= len(found) <= 9 and low - 1e-9 <= found[0] and found[-1] <= high + 1e-9 * abs(high) and found == sorted(set(found))


def test_curves_of_any_shape_can_be_drawn():
    for values in ([0.0, 0.0], [5.0], [1e-9, 1e9], [-1.0, -1.0, -1.0], [float(i) for i in range(5000)]):
        panel = Panel("t", "", [Curve("c", Series(list(range(1, len(values) + 1)), values))])
        drawn = svg(panel, [Mark(1, 'a "<b>"', 1)], 1, max(2, len(values)))
        Tags(drawn)
        assert "nan" not in drawn and "inf" not in drawn and "<b>" not in drawn


def test_panels_hold_what_a_person_wants():
    rows, settings, held_out = healthy(2, "vllm", 60)
    for row in rows:
        row |= {"kl": 0.1, "clip_ratio/region_mean": 0.1}
    found = panels(run_of(rows, settings, held_out))
    assert {"reward", "length", "entropy", "kl", "groups", "clip", "ratio", "throughput", "speed", "memory"} <= set(found)
    assert [c.label for c in found["reward"].drawn] == ["reward", "math (weight 1)", "format (weight 0.2)", "held-out accuracy"]


def test_png(hacked, tmp_path):
    pytest.importorskip("matplotlib")
    run = read_run(hacked)
    path = write_png(run, diagnose(run), tmp_path / "new" / "report.png")
    assert path.read_bytes()[:8] == b"\x89PNG\r\n\x1a\n" and [p.name for p in path.parent.iterdir()] == ["report.png"]


def test_a_flat_curve_does_not_hide_under_the_frame_of_the_png(tmp_path, monkeypatch):
    figure = pytest.importorskip("matplotlib.figure")
    drawn, save = [], figure.Figure.savefig
    monkeypatch.setattr(figure.Figure, "savefig", lambda self, *a, **k: drawn.append(self) or save(self, *a, **k))
    run = run_of([{"step": s, "reward": 0.5, "mem_gb": 40 + 0.001 * s} for s in range(1, 60)], {}, {})
    write_png(run, diagnose(run), tmp_path / "report.png")
    axes = [axis for axis in drawn[0].axes if axis.lines]
    assert axes and all(axis.get_xlabel() == "step" for axis in axes)
    for axis in axes:
        assert axis.get_ylim()[1] > 1.02 * max(max(line.get_ydata()) for line in axis.lines)


def test_png_without_matplotlib_says_how_to_get_it(hacked, tmp_path, monkeypatch):
    for name in ("matplotlib", "matplotlib.figure", "matplotlib.backends", "matplotlib.backends.backend_agg"):
        monkeypatch.setitem(sys.modules, name, None)
    run = read_run(hacked)
    with pytest.raises(MissingError, match="matplotlib"):
        write_png(run, diagnose(run), tmp_path / "report.png")


# Labels of axes that are smaller than 10 pixels, leave their picture, or lie on one another.
TICKS = """[...document.querySelectorAll('svg')].flatMap(svg => {
  const frame = svg.getBoundingClientRect(), ticks = [...svg.querySelectorAll('.tick')].map(e => [e.textContent, e.getBoundingClientRect()]);
  const small = ticks.filter(([, b]) => b.height < 10 || b.left < frame.left || b.right > frame.right + .5 || b.bottom > frame.bottom + .5);
  const met = ticks.filter(([, a], i) => ticks.some(([, b], j) =>
    j > i && a.left < b.right - 1 && b.left < a.right - 1 && a.top < b.bottom - 4 && b.top < a.bottom - 4));
  return [...small, ...met].map(([text]) => svg.getAttribute('aria-label') + ': ' + text);
})"""


def test_the_script_knows_where_the_curves_are():
    from grpo_rlvr.diagnosis import curves

    script = (ROOT / "scripts/grpo_rlvr/diagnosis/report.js").read_text()
    numbers = (curves.LEFT, curves.RIGHT, curves.WIDTH, curves.TOP, curves.HEIGHT - curves.BOTTOM)
    assert "const LEFT = {}, RIGHT = {}, WIDTH = {}, TOP = {}, BOTTOM = {};".format(*numbers) in script


def test_in_a_browser(hacked, tmp_path):
    browser.find()
    run = read_run(hacked)
    path = write_report(run, diagnose(run), tmp_path / "report.html")
    with browser.started(tmp_path / "profile") as program:
        tab = program.page()
        for width, scheme, mobile in ((1280, "light", False), (390, "dark", True)):
            tab.size(width, 900, scheme, mobile)
            tab.open(path.as_uri())
            assert tab.eval("document.documentElement.scrollWidth") <= width
            beyond = "e.checkVisibility() && e.getBoundingClientRect().right > innerWidth + 1 && !e.closest('.scroll, pre, svg')"
            assert tab.eval(f"[...document.querySelectorAll('main *')].filter(e => {beyond}).length") == 0
            assert tab.eval(TICKS) == []
        assert tab.eval("document.title") == "run: training report"
        # The numbers under the pointer.
        tab.size(1280, 900)
        tab.open(path.as_uri())
        tab.eval("document.querySelector('figure[data-panel=reward]').scrollIntoView()")
        box = tab.eval(
            "(b => [b.left + b.width / 2, b.top + b.height / 2])(document.querySelector('figure[data-panel=reward] svg').getBoundingClientRect())"
        )
        tab.call("Input.dispatchMouseEvent", type="mouseMoved", x=box[0], y=box[1])
        tab.wait("document.querySelector('figure[data-panel=reward] output').textContent.startsWith('step ')")
        assert "held-out accuracy" in tab.text("figure[data-panel=reward] output")
        assert program.said == []


def test_the_gate_is_summed_up(hacked_folder):
    run = read_run(hacked_folder)
    gate = {
        "at": "2026-11-30",
        "reviewers": ["Ada <b>"],
        "reviewer_kind": "human",
        "counts": {"read": 60, "of_other_samples": 3},
        "warnings": ["few samples"],
    }
    run = dataclasses.replace(run, started={"gate": gate})
    text = page(run, diagnose(run))
    assert "Inspection gate: open" in text and "Ada &lt;b&gt; (human)" in text and "few samples" in text and "of other samples" in text
