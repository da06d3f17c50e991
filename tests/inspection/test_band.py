"""`--keep-band`: which rows, whole, and how sure."""

from __future__ import annotations

import json
import random

import inspect_rewards
import pytest
from grpo_rlvr.config import load_config
from grpo_rlvr.data import load_rows
from grpo_rlvr.errors import UserError
from grpo_rlvr.inspection.band import certainty
from grpo_rlvr.inspection.rates import fit_spread
from grpo_rlvr.inspection.run import run_inspection


def test_rows_in_the_band_are_copied_as_they_stand(project, capsys):
    rows = [
        '{"question": "10+5=?", "target": "15", "note":   "ä"}', '{"target": "16", "question": "11+5=?"}', "",
        '{"question": "12+5=?", "target": "17"}',
        '{"question": "13+5=?", "target": "18"}', '{"question": "unsampled", "target": "1"}',
    ]  # fmt: skip
    (project.folder / "train.jsonl").write_text("\n".join(rows) + "\n", encoding="utf-8")
    project.write()
    text = project.config_path.read_text().replace("{train: train.jsonl}", "{train: train.jsonl, columns: {prompt: question, answer: target}}")
    project.config_path.write_text(text)
    record = project.record([[0, 0, 1, -1], [0, 0, 0, 0], [1, 1, 1, 1], [0, 1, 1, 1]])
    inspect_rewards.main(["run", str(project.config_path), "--completions", str(record), "--keep-band", "0.2", "0.8", "--json"])
    printed = capsys.readouterr()
    band = json.loads(printed.out)["band"]
    assert {k: band[k] for k in ("kept", "below", "above", "sampled", "rows", "samples_per_prompt")} == {
        "kept": 2, "below": 1, "above": 1, "sampled": 4, "rows": 5, "samples_per_prompt": 4,
    }  # fmt: skip
    file = project.inspection / "train.band-0.2-0.8.jsonl"
    assert band["file"] == str(file) and file.read_text(encoding="utf-8") == rows[0] + "\n" + rows[4] + "\n"
    assert "1 of the 5 rows were not sampled" in printed.err and "data: {train: runs/one/inspection/train.band-0.2-0.8.jsonl}" in printed.err
    # And it is used as it says.
    project.config_path.write_text(text.replace("train: train.jsonl", "train: runs/one/inspection/train.band-0.2-0.8.jsonl"))
    assert [row["answer"] for row in load_rows(load_config(project.config_path), "train")] == ["15", "18"]


def test_an_empty_band_writes_nothing_and_a_wrong_one_is_refused_before_anything(project):
    config, record = project.write(), project.record()
    result = run_inspection(config, completions=record, keep_band=[0.9, 1], quiet=True)
    assert result["band"]["kept"] == 0 and result["band"]["file"] is None and "widen" in result["band"]["use"]
    assert not list(project.inspection.glob("train.band*"))
    with pytest.raises(UserError, match="is the training file itself"):
        run_inspection(config, completions=record, keep_band=[0.2, 0.8], band_file=project.folder / "train.jsonl", quiet=True)
    for band in ([0.8, 0.2], [-1, 0.5], [0.2, 1.2], [float("nan"), 1]):
        with pytest.raises(UserError, match="two success rates"):
            run_inspection(config, completions="not looked at", keep_band=band, quiet=True)


def test_certainty_is_what_a_simulation_finds():
    """Rates from Beta(1, 2), 8 samples: the share of the kept that are inside in truth, and the inside that were left out."""
    rng = random.Random(1)
    rates = [rng.betavariate(1, 2) for _ in range(3000)]
    prompts = [{"passed": (k := sum(rng.random() < p for _ in range(8))), "scored": 8, "rate": k / 8} for p in rates]
    said = certainty(prompts, fit_spread([(p["passed"], 8) for p in prompts]), 0.2, 0.8)
    kept = [0.2 <= p["rate"] <= 0.8 for p in prompts]
    inside = [0.2 <= p <= 0.8 for p in rates]
    assert said["expected_inside"] == pytest.approx(sum(k and i for k, i in zip(kept, inside, strict=True)) / sum(kept), abs=0.03)
    assert said["expected_missed"] == pytest.approx(sum(i and not k for k, i in zip(kept, inside, strict=True)), rel=0.15)
