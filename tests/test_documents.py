"""Each Python block in SKILL.md, README.md and references/ runs."""

from __future__ import annotations

import inspect
import re

import pytest
from conftest import ROOT
from grpo_rlvr.config import REWARDS
from grpo_rlvr.rewards.options import meanings, options_table
from grpo_rlvr.rewards.registry import REGISTRY

DOCUMENTS = [ROOT / "SKILL.md", ROOT / "README.md", *sorted((ROOT / "references").glob("*.md"))]
BLOCKS = [
    pytest.param(path, match[1], id=f"{path.name}:{path.read_text(encoding='utf-8')[: match.start()].count(chr(10)) + 1}")
    for path in DOCUMENTS
    for match in re.finditer(r"^```python\n(.*?)^```", path.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)
]


def test_there_are_blocks():
    assert len(BLOCKS) > 8


@pytest.mark.parametrize(("path", "code"), BLOCKS)
def test_block_runs(path, code):
    names = {"__name__": "document"}
    exec(compile(code, str(path), "exec"), names)
    if path.name == "SKILL.md":
        assert names["short_answer"]([[{"role": "assistant", "content": " 4 "}], "5"], answer=[4, "4"]) == [1.0, 0.0]


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
