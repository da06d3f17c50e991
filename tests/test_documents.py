"""SKILL.md, README.md and references/: each Python block runs, each file named is there, each reference stands alone."""

from __future__ import annotations

import inspect
import re

import pytest
from conftest import ROOT
from documents import DOCUMENTS, FENCE, spans, text_of
from grpo_rlvr.config import REWARDS
from grpo_rlvr.rewards.options import meanings, options_table
from grpo_rlvr.rewards.registry import REGISTRY

REFERENCES = [path for path in DOCUMENTS if path.parent.name == "references"]
BLOCKS = [
    pytest.param(path, match[2], id=f"{path.name}:{text_of(path)[: match.start()].count(chr(10)) + 1}")
    for path in DOCUMENTS
    for match in FENCE.finditer(text_of(path))
    if match[1] == "python"
]


def test_there_are_blocks():
    assert len(BLOCKS) > 8


@pytest.mark.parametrize(("path", "code"), BLOCKS)
def test_block_runs(path, code):
    names = {"__name__": "document"}
    exec(compile(code, str(path), "exec"), names)
    if path.name == "SKILL.md":
        assert names["short_answer"]([[{"role": "assistant", "content": " 4 "}], "5"], answer=[4, "4"]) == [1.0, 0.0]


def test_no_block_hides_behind_another_language():
    assert {language for path in DOCUMENTS for language, _ in FENCE.findall(text_of(path))} <= {"", "python", "yaml"}


@pytest.mark.parametrize("path", DOCUMENTS, ids=lambda p: p.name)
def test_each_file_named_is_there(path):
    parts = "|".join(sorted(p.name for p in ROOT.iterdir() if p.is_dir() and p.name not in ("inspection", "runs", "tools")))
    named = {m for span in spans(text_of(path)) for m in re.findall(rf"(?<![\w/.-])(?:SKILL/)?((?:{parts})/[\w./-]*\w)", span)}
    assert [name for name in sorted(named - {"scripts/NAME.py"}) if not (ROOT / name).exists()] == []


def test_the_plan_of_the_house_names_what_is_there():
    (plan,) = (block for _, block in FENCE.findall(text_of(ROOT / "README.md")) if block.startswith("SKILL.md  "))
    there = {p.name for p in ROOT.rglob("*") if not {".venv", "runs"} & set(p.relative_to(ROOT).parts)}
    named = set(re.findall(r"[\w.-]+\.(?:py|md|yaml|json|sbatch)\b", plan)) | {m.rstrip("/") for m in re.findall(r"^ *([\w]+)/ ", plan, re.M)}
    assert len(named) > 30 and sorted(named - there) == []
    for folder in ("references", "templates"):
        assert {p.name for p in (ROOT / folder).iterdir() if p.is_file()} <= named
    assert {p.name for p in (ROOT / "scripts").glob("*.py")} <= named


@pytest.mark.parametrize("path", REFERENCES, ids=lambda p: p.name)
def test_each_reference_says_when_to_read_it_and_needs_no_other(path):
    head = text_of(path).partition("\n## ")[0].splitlines()
    assert head[0].startswith("# ") and head[2].startswith("Read this ")
    assert [other.name for other in REFERENCES if other != path and re.search(rf"\b{re.escape(other.name)}\b", text_of(path))] == []
    links = re.findall(r"\]\(([^)]+)\)", text_of(path))
    assert [link for link in links if not link.startswith(("https://", "#"))] == []


def test_each_reference_is_named_where_people_and_agents_begin():
    for beginning in ("SKILL.md", "README.md"):
        assert [path.name for path in REFERENCES if path.name not in text_of(ROOT / beginning)] == []


def test_the_example_of_the_code_reward_is_true(sandbox_here):
    (code,) = (block.values[1] for block in BLOCKS if "def try_it" in block.values[1])
    names = {"__name__": "document"}
    exec(code, names)
    names["try_it"]()


def test_each_reward_of_the_config_is_explained():
    text = (ROOT / "references" / "reward-functions.md").read_text(encoding="utf-8")
    headings = re.findall(r"^### (.+)$", text, re.MULTILINE)
    explained = {name.strip() for heading in headings for name in heading.split(",")}
    assert set(REWARDS) <= explained


def test_the_options_in_the_document_are_those_of_the_code():
    text = (ROOT / "references" / "reward-functions.md").read_text(encoding="utf-8")
    written = text.partition("<!-- options -->\n")[2].partition("<!-- /options -->")[0]
    assert written == options_table(), "print it anew: PYTHONPATH=scripts python -m grpo_rlvr.rewards.options"
    for use in REGISTRY.keys() - {"code"}:
        parameters = inspect.signature(REGISTRY[use].make).parameters
        assert meanings(REGISTRY[use].make).keys() >= parameters.keys() - {"context"}, use


def test_the_template_for_own_rewards_does_what_it_says():
    names: dict = {}
    exec(compile((ROOT / "templates" / "rewards.py").read_text(encoding="utf-8"), "rewards.py", "exec"), names)
    reward = names["within_tolerance"]
    chat = [[{"role": "assistant", "content": "<answer>3.14</answer>"}], [{"role": "assistant", "content": None}]]
    assert reward(chat, answer=["3.1415", "1"], tolerance=0.01) == [1.0, 0.0]
    assert reward(["<answer>3.14</answer> or <answer>9</answer>"], answer=[3.14]) == [0.0]
