"""references/diagnosis.md: its tables are those of the code, and the metrics those of the installed TRL.

PYTHONPATH=scripts:tests python -m diagnosis.test_reference     writes the tables into the document
"""

from __future__ import annotations

import importlib.util
import re
from pathlib import Path

import pytest
from conftest import ROOT
from grpo_rlvr.diagnosis.names import KNOWN, METRICS, OWN, is_known
from grpo_rlvr.diagnosis.rules import RULES
from grpo_rlvr.diagnosis.texts import SECTIONS, reference_tables

from diagnosis.conftest import tiny_runs

DOCUMENT = ROOT / "references" / "diagnosis.md"
# What transformers' Trainer logs itself; the summary at the end of a run (train_runtime and its like) is no metric of a step.
OF_TRAINER = {"loss", "grad_norm", "learning_rate", "epoch"}


def filled(text: str) -> str:
    for name, table in reference_tables().items():
        text = re.sub(rf"(<!-- {name} -->\n).*?(<!-- end -->)", lambda m, table=table: f"{m[1]}\n{table}\n\n{m[2]}", text, flags=re.DOTALL)
    return text


def test_the_tables_are_those_of_the_code():
    text = DOCUMENT.read_text(encoding="utf-8")
    assert text == filled(text), "run: PYTHONPATH=scripts:tests python -m diagnosis.test_reference"


def test_each_section_of_a_finding_is_there():
    text = DOCUMENT.read_text(encoding="utf-8")
    for section in SECTIONS:
        assert f'<a id="{section}"></a>' in text
    assert {rule.section for rule in RULES} == set(SECTIONS)


def trl_source() -> str:
    spec = importlib.util.find_spec("trl")
    if spec is None:
        pytest.skip("TRL is not installed")
    return (Path(spec.origin).parent / "trainer" / "grpo_trainer.py").read_text(encoding="utf-8")


def test_all_metrics_of_the_installed_trl_are_explained_and_no_other():
    found = set(re.findall(r'self\._metrics\[mode\]\[f?"([^"]+)"\]', trl_source()))
    assert len(found) > 25
    found = {name.replace("{reward_func_name}", "<name>") for name in found}
    # step_time is set from an f-string-free name elsewhere; the trainer's own come from transformers.
    assert found | OF_TRAINER | {"step_time"} == {m.name for m in METRICS}
    assert "step_time" in trl_source()


def test_all_metrics_of_real_runs_are_explained():
    logged = {name for run in tiny_runs().values() for name in run["columns"]} - {"step", "lr", "nonfinite"}
    assert logged and sorted(name for name in logged if not is_known(name)) == []


def test_no_metric_is_explained_twice():
    assert len(KNOWN) == len(METRICS) + len(OWN)


if __name__ == "__main__":
    DOCUMENT.write_text(filled(DOCUMENT.read_text(encoding="utf-8")), encoding="utf-8")
