"""Who wrote the samples: what recorded completions cannot show, token counts that disagree, and samples of a trained policy."""

from __future__ import annotations

import json

import inspect_rewards
import pytest
from grpo_rlvr.config import load_config
from grpo_rlvr.inspection.gate import decide_gate
from grpo_rlvr.inspection.page import write_static_page
from grpo_rlvr.inspection.provenance import OF_A_RUN, UNPROVEN
from grpo_rlvr.inspection.reading import Reading
from grpo_rlvr.inspection.run import run_inspection
from grpo_rlvr.inspection.token_counts import uneven_counts

from inspection.conftest import completion


def run(project, *flags: str) -> int:
    return inspect_rewards.main(["run", str(project.config_path), *flags])


def lines(project, rows: list[dict]):
    path = project.folder / "recorded.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


# What recorded completions cannot show


def test_run_says_that_recorded_completions_prove_no_model(project, capsys):
    project.write()
    assert run(project, "--completions", str(project.record()), "--json") == 0
    printed = capsys.readouterr()
    result = json.loads(printed.out)
    assert result["source"] == "recorded" and [w for w in result["warnings"] if w.startswith(UNPROVEN)]
    assert f"warning: {UNPROVEN}" in printed.err and printed.err.index(UNPROVEN) < printed.err.index("next: read")
    assert run(project, "--json") == 0  # scored anew: they are still recorded
    assert [w for w in json.loads(capsys.readouterr().out)["warnings"] if w.startswith(UNPROVEN)]


def test_the_reader_is_told_too(project, tmp_path):
    config = project.write()
    run_inspection(config, completions=project.record(), quiet=True)
    reading = Reading.open(config, "ada")
    assert reading.notice.startswith(UNPROVEN)
    write_static_page(reading, tmp_path / "page.html", "ada")
    assert UNPROVEN in (tmp_path / "page.html").read_text()


# Token counts


def counted(texts: int, uneven: int, repeats: int = 2) -> list[dict]:
    """Samples of so many texts, each written `repeats` times; of `uneven` of them the counts differ."""
    return [
        {"prompt": "?", "completion": f"text {t}", "finish": "stop", "tokens": 7 + (k if t < uneven else 0), "columns": {}}
        for t in range(texts)
        for k in range(repeats)
    ]


@pytest.mark.parametrize(("texts", "uneven", "said"), [(6, 3, True), (6, 2, False), (5, 5, True), (4, 4, False), (9, 3, False), (9, 4, True)])
def test_more_than_a_third_of_the_repeated_texts(texts, uneven, said):
    found = uneven_counts(counted(texts, uneven))
    assert (found is not None) == said
    if said:
        assert (found["repeated"], found["uneven"]) == (texts, uneven)
        assert found["example"]["completion"] == "text 0" and found["example"]["tokens"] == [7, 8]


def test_counts_that_prove_nothing():
    assert uneven_counts([{**s, "tokens": None} for s in counted(9, 9)]) is None
    assert uneven_counts(counted(9, 9, repeats=1)) is None
    # The end token is one more, and counted where the text ended by itself.
    cut = [{**s, "finish": "length" if k % 2 else "stop"} for k, s in enumerate(counted(9, 9))]
    assert uneven_counts(cut) is None
    assert uneven_counts([{**s, "prompt": f"{k}"} for k, s in enumerate(counted(9, 9))]) is None  # one text after other prompts


def test_the_counts_of_an_api_are_counts_too():
    assert uneven_counts([{**s, "tokens": None, "columns": {"completion_tokens": s["tokens"]}} for s in counted(6, 6)])["uneven"] == 6


def test_run_and_gate_warn_of_uneven_counts_with_an_example(project, capsys):
    config = project.write()
    rows = [{"prompt_index": i, "completion": completion(15 + i + k % 2), "tokens": 9 + k} for i in range(4) for k in range(4)]
    assert run(project, "--completions", str(lines(project, rows)), "--json") == 0
    printed = capsys.readouterr()
    (warning,) = [w for w in json.loads(printed.out)["warnings"] if "token counts" in w]
    assert "8 of the 8 texts" in warning and "9, 11" in warning and "15</answer>" in warning and warning in printed.err
    assert [w for w in decide_gate(config)["warnings"] if "token counts" in w]
    run_inspection(project.write(), completions=project.record(), quiet=True)
    assert not [w for w in decide_gate(config)["warnings"] if "token counts" in w]


# Samples of a trained policy


def of_step(step: object, offsets=(1, 2, 3, 4)) -> list[dict]:
    return [{"prompt_index": i, "completion": completion(15 + i + o, f"{o}"), "step": step} for i in range(3) for o in offsets]


def test_a_late_step_gives_no_advice_about_the_base(project, capsys):
    project.write()
    path = lines(project, of_step(300))
    assert run(project, "--completions", str(path), "--json") == 1
    printed = capsys.readouterr()
    result = json.loads(printed.out)
    assert result["signal"]["verdict"] == "trained" and "step 300" in result["signal"]["reason"] and "no success in 12" in result["signal"]["reason"]
    assert (
        "fine-tuning" not in printed.err and "sft" not in printed.err.lower() and "diagnose.py" in result["next"] and "base model" in result["next"]
    )
    assert json.loads((project.inspection / "signal.json").read_text())["verdict"] == "trained"
    assert run(project) == 1 and "step 300" in capsys.readouterr().err  # scored anew: the step is still known
    gate = decide_gate(load_config(project.config_path))
    assert [r for r in gate["reasons"] if r.startswith("signal trained")] and not [r for r in gate["reasons"] if "fine-tuning" in r]


def test_a_late_step_that_is_all_right_says_nothing_about_the_base_either(project):
    project.write()
    result = run_inspection(load_config(project.config_path), completions=lines(project, of_step(300, offsets=(0,))), quiet=True)
    assert result["signal"]["verdict"] == "trained" and "harder prompts" not in result["next"]


def test_a_late_step_that_learns_is_said_to_be_one(project):
    project.write()
    result = run_inspection(load_config(project.config_path), completions=lines(project, of_step(300, offsets=(0, 1))), quiet=True)
    assert result["signal"]["verdict"] == "go" and [w for w in result["warnings"] if OF_A_RUN.format(step=300) in w]


@pytest.mark.parametrize("step", [0, 1, None, "late", True])
def test_samples_of_the_start_are_the_base(project, step, capsys):
    project.write()
    assert run(project, "--completions", str(lines(project, of_step(step)))) == 1
    assert "next: supervised fine-tuning first" in capsys.readouterr().err


def test_a_gold_column_named_step_is_no_step(project):
    rows = [{"prompt": f"{a}+5=?", "answer": str(a + 5), "step": a} for a in range(10, 16)]
    (project.folder / "train.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    result = run_inspection(project.write(), completions=lines(project, of_step(300)), quiet=True)
    assert result["signal"]["verdict"] == "sft_first"


def test_tables_of_a_run_know_their_step(project, capsys):
    pa = pytest.importorskip("pyarrow")
    import pyarrow.parquet as parquet

    project.write()
    tables = project.folder / "runs" / "one" / "train" / "checkpoints" / "completions"
    tables.mkdir(parents=True)
    for step in (1, 40):
        rows = [
            {"step": step, "prompt": f"{10 + i}+5=?", "completion": completion(k, f"{step}"), "exact": 0.0, "advantage": 0.0}
            for i in range(4)
            for k in range(4)
        ]
        parquet.write_table(pa.Table.from_pylist(rows), tables / f"completions_{step:05d}.parquet")
    run(project, "--from-run", str(project.folder / "runs" / "one"), "--step", "latest", "--json")
    printed = capsys.readouterr()
    result = json.loads(printed.out)
    assert result["signal"] == "trained" and "base model" in result["signal_next"] and "diagnose.py" in result["signal_next"]
    assert result["next"] == f"nothing speaks against the reward, but nothing passes it either; {result['signal_next']}"
    assert "signal: trained" in printed.err and result["signal_next"] in printed.err and "fine-tuning" not in printed.err
    assert json.loads((project.inspection / "steps" / "000040" / "signal.json").read_text())["verdict"] == "trained"
    assert Reading.open(load_config(project.config_path), "ada", "40").notice == ""  # the run's own
    assert run(project, "--completions", str(tables / "completions_00040.parquet"), "--json") == 1
    assert json.loads(capsys.readouterr().out)["signal"]["verdict"] == "trained"
    assert run(project, "--from-run", str(project.folder / "runs" / "one"), "--step", "1", "--json") in (0, 1)
    assert json.loads(capsys.readouterr().out)["signal"] == "sft_first"
