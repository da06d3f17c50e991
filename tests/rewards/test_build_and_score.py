"""Rewards from a config, and a batch scored by all of them."""

from __future__ import annotations

import math
import os
import pickle
import re
import signal
import subprocess
import sys
import textwrap
import time
from pathlib import Path

import pytest
from conftest import ROOT, build
from grpo_rlvr.config import REWARDS, load_config
from grpo_rlvr.data import check_rows
from grpo_rlvr.errors import GoldError, UserError
from grpo_rlvr.reward_uses import USES
from grpo_rlvr.rewards import REGISTRY, BuiltReward, OpenAIJudgeClient, build_rewards, registry, save_calibration, score_all, scoring, verdicts
from grpo_rlvr.rewards.dataset_check import check_dataset
from grpo_rlvr.rewards.judge_calibration import SCHEMA
from grpo_rlvr.rewards.judge_verdict import snapshot
from grpo_rlvr.rewards.scoring import checked_values

USER = """
    from helper import half

    def shout(completions, answer, weight_of_case=1.0, **kwargs):
        return [half() * weight_of_case * (c.isupper() + (c == a)) for c, a in zip(completions, answer)]

    def needs(prompts, completions, answer, level, trainer_state=None):
        return [float(level[0])] * len(completions)

    def breaks(completions, **kwargs):
        raise KeyError("no such key")

    async def later(completions, **kwargs):
        return [1.0 for _ in completions]

    def make(scale):
        return lambda completions, **kwargs: [scale]

    NUMBER = 3
"""


@pytest.fixture
def base(tmp_path: Path) -> Path:
    (tmp_path / "mine.py").write_text(textwrap.dedent(USER))
    (tmp_path / "helper.py").write_text("import json\nfrom deeper import thing\n\ndef half():\n    return thing\n")
    (tmp_path / "deeper.py").write_text("thing = 0.5\n")
    (tmp_path / "unused.py").write_text("raise RuntimeError\n")
    return tmp_path


def refused(base: Path, *sections: dict) -> str:
    with pytest.raises(UserError) as caught:
        build(base, *sections)
    return str(caught.value)


def test_the_config_knows_the_names_of_the_registry():
    assert set(REWARDS) == {*REGISTRY, *getattr(registry, "PLANNED", ())}


def test_builtins_take_name_weight_options_and_requirement(base):
    sections = [{"use": "format", "weight": 0.2, "args": {"prefilled": True}}, {"use": "exact", "name": "hit"}, {"use": "math", "required": False}]
    fmt, exact, maths = build(base, *sections)
    assert [r.name for r in (fmt, exact, maths)] == ["format", "hit", "math"] == [r.function.__name__ for r in (fmt, exact, maths)]
    assert (fmt.required, exact.required, maths.required) == (False, True, False)
    assert (fmt.weight, fmt.columns, exact.columns) == (0.2, (), ("answer",))
    assert fmt.function(completions=["r</reasoning><answer>a</answer>"]) == [1.0]
    assert {"completions.py", "tool_call_text.py", "units.py", "base.py", "algebra.py", "formats.py"} <= {p.name for p in exact.source_files}
    assert exact.gold_problem({"answer": ""}) and exact.gold_problem({"answer": "x"}) is None


def test_every_name_of_the_registry_builds_with_a_name_of_its_own(base):
    needed = {"length": {"use": "exact", "target_tokens": 50}, "overlong": {"cache": 10, "max_completion_length": 100}, "judge": judge_args(base)}
    built = build(base, *({"use": use, "args": needed.get(use, {})} for use in REGISTRY))
    names = ["exact_within_50_tokens" if use == "length" else use for use in REGISTRY]
    assert [b.name for b in built] == names == [b.function.__name__ for b in built]
    assert [pickle.loads(pickle.dumps(b)).function.__name__ for b in built] == names


def test_what_is_said_of_the_rewards_is_said_of_each_and_in_their_order():
    assert list(USES) == list(REGISTRY)
    columns = {use: REGISTRY[use].make().correctness for use in REGISTRY if use not in ("length", "overlong", "judge", "code")}
    assert {use: USES[use].role == "correct" for use in columns} == columns


def judge_args(base: Path) -> dict:
    client, rubric = OpenAIJudgeClient("http://127.0.0.1:9/v1", "llama-judge"), "Names every cause."
    rate = {"k": 9, "n": 10, "share": 0.9, "low": 0.55, "high": 0.99}
    bound = {**snapshot(client, rubric), "served_model": None}
    save_calibration(base / "calibration.json", {"schema": SCHEMA, "judge": bound, "floor": 0.85, "test": {"tpr": rate, "tnr": rate}})
    return {"base_url": client.base_url, "model": client.model, "rubric": rubric, "calibration": "calibration.json"}


def test_problems_come_all_at_once(base):
    options, step = {"use": "math", "args": {"percnt": "x"}}, {"use": "format", "name": "step"}
    text = refused(base, {"use": "maths"}, options, {"use": "exact"}, {"use": "exact"}, step, {"use": "gone.py:f"})
    for part in ("rewards[0]", "did you mean 'math'", "no option 'percnt'", "did you mean 'percent'", "rewards[3]", "set name:", "'step'", "gone.py"):
        assert part in text


@pytest.mark.parametrize("use", ["code"])
def test_planned_rewards_say_so(base, use):
    if use not in REGISTRY:
        assert "not in this version yet" in refused(base, {"use": use})


def test_a_user_function_is_bound_named_pickled_and_traced_to_its_files(base):
    (reward,) = build(base, {"use": "mine.py:shout", "args": {"weight_of_case": 0.5}, "name": "loud"})
    assert (reward.name, reward.function.__name__, reward.columns, reward.required) == ("loud", "loud", ("answer",), True)
    assert [p.name for p in reward.source_files] == ["deeper.py", "helper.py", "mine.py"]
    assert reward.function(completions=["AB", "c"], answer=["AB", "d"], prompts=["p", "p"]) == [0.5, 0.0]
    assert pickle.loads(pickle.dumps(reward)).function(completions=["AB"], answer=["AB"]) == [0.5]
    assert "column 'answer' is missing" in reward.gold_problem({})


def test_a_user_function_gets_only_what_it_names(base):
    (reward,) = build(base, {"use": "mine.py:needs"})
    assert reward.columns == ("answer", "level")
    assert score_all([reward], ["x"], prompts=["p"], answer=["a"], level=["0.25"], other=["z"], completion_ids=[[1]]).values == {"needs": [0.25]}


@pytest.mark.parametrize(
    ("use", "args", "part"),
    [
        ("mine.py:gone", {}, "it has: "),
        ("mine.py:NUMBER", {}, "is a int, not a function"),
        ("mine.py:make", {}, "no parameter named completions"),
        ("mine.py:needs", {"nonsense": 1}, "args.nonsense"),
        ("mine.py:shout", {"completions": 1}, "would hide"),
        ("unused.py:f", {}, "RuntimeError"),
        ("no_such_module_here:f", {}, "ModuleNotFoundError"),
        (":f", {}, "no address"),
    ],
)
def test_bad_addresses_are_explained(base, use, args, part):
    assert part in refused(base, {"use": use, "args": args})


def made(name: str, function, weight: float = 1.0, required: bool = True) -> BuiltReward:
    return BuiltReward(name, function, weight, required)


def test_total_is_the_weighted_sum_and_none_where_a_required_reward_is_none():
    first = made("a", lambda completions, **k: [1.0, None, 0.5, None], 2.0)
    second = made("b", lambda completions, **k: (1, 0, None, None), 0.5, required=False)
    scores = score_all([first, second], list("wxyz"))
    assert scores.total == [2.5, None, 1.0, None]
    assert scores.values == {"a": [1.0, None, 0.5, None], "b": [1.0, 0.0, None, None]}
    assert set(scores.seconds) == {"a", "b"} and all(s >= 0 for s in scores.seconds.values())
    assert score_all([second], list("wxyz")).total == [0.5, 0.0, None, None]


def test_verdicts_weigh_the_required_rewards_only():
    rewards = [
        made("a", lambda completions, **k: [1.0, 0.0, 1.0, None], 3.0),
        made("b", lambda completions, **k: [0.0, 1.0, 1.0, 1.0], 1.0),
        made("c", lambda completions, **k: [0.0, 0.0, None, 1.0], 9.0, required=False),
    ]
    scores = score_all(rewards, list("wxyz"))
    assert verdicts(rewards, scores, 0.5) == [True, False, True, None]
    assert verdicts(rewards, scores, 0.76) == [False, False, True, None]
    assert verdicts(rewards[2:], scores, 0.5) == [False, False, None, True]
    silent = [made("a", lambda completions, **k: [0.5], 0.0)]
    assert verdicts(silent, score_all(silent, ["x"]), 0.5) == [True]


@pytest.mark.parametrize(
    ("result", "part"),
    [
        ([1.0], "1 values for 2"),
        (1.0, "a float"),
        (None, "NoneType"),
        ("10", "a str"),
        ({"a": 1, "b": 2}, "a dict"),
        ([1.0, math.nan], "value 1 is nan"),
        ([-math.inf, 1.0], "value 0 is -inf"),
        (["1", 1.0], "value 0 is '1'"),
        ([[1.0], 1.0], "value 0 is [1.0]"),
    ],
)
def test_bad_results_name_the_reward(result, part):
    with pytest.raises(UserError) as caught:
        score_all([made("good", lambda completions, **k: [0.0, 0.0]), made("mine", lambda completions, **k: result)], ["x", "y"])
    assert caught.value.kind == "reward" and "mine" in str(caught.value) and part in str(caught.value)


def test_generators_and_bools_are_values():
    assert checked_values("r", [True, None, 2], 3) == [1.0, None, 2.0]
    assert score_all([made("g", lambda completions, **k: (0.5 for _ in completions))], ["x", "y"]).total == [0.5, 0.5]


def test_an_exception_names_reward_message_and_place(base):
    (reward,) = build(base, {"use": "mine.py:breaks"})
    with pytest.raises(UserError) as caught:
        score_all([reward], ["x"])
    assert caught.value.kind == "reward"
    line = textwrap.dedent(USER).splitlines().index('    raise KeyError("no such key")') + 1
    assert f"mine.py:{line}" in str(caught.value) and "KeyError: 'no such key'" in str(caught.value) and "breaks" in str(caught.value)


@pytest.mark.parametrize("code", ["sys.exit(0)", "return (sys.exit(0) for c in completions)"])
def test_sys_exit_in_a_reward_is_its_error(base, code):
    (base / "exits.py").write_text(f"import sys\ndef f(completions):\n    {code}\n")
    with pytest.raises(UserError, match="SystemExit: 0") as caught:
        score_all(build(base, {"use": "exits.py:f"}), ["x"])
    assert caught.value.kind == "reward"


def test_sys_exit_while_a_reward_is_imported(base, monkeypatch):
    (base / "leaves.py").write_text("import sys\nsys.exit(0)\n")
    monkeypatch.syspath_prepend(base)
    assert "failed: SystemExit: 0" in refused(base, {"use": "leaves.py:f"})
    assert "failed: SystemExit: 0" in refused(base, {"use": "leaves:f"})


def test_what_a_user_hands_over_without_a_signature_or_with_a_broken_check(base):
    assert "no signature found" in refused(base, {"use": "math:hypot"})
    (base / "checks.py").write_text("def f(completions):\n    return [1.0]\nf.gold_problem = lambda row: row['gone']\n")
    (reward,) = build(base, {"use": "checks.py:f"})
    with pytest.raises(UserError, match="its gold_problem raises KeyError: 'gone'"):
        reward.gold_problem({})


def test_a_reward_that_edits_its_lists_changes_nothing_for_the_others():
    def vandal(completions, answer, extra, **kwargs):
        completions[0][0]["content"] = "edited"
        completions.reverse()
        answer[:] = ["z"] * len(answer)
        extra[0]["a"].clear()
        return [0.0] * len(completions)

    chats = [[{"role": "assistant", "content": text}] for text in "xy"]
    columns = {"answer": ["x", "y"], "extra": [{"a": [1]}, {"a": []}], "trainer_state": (state := object())}
    seen = []
    look = made("look", lambda completions, **k: seen.append((completions, k)) or [1.0] * len(completions))
    score_all([made("vandal", vandal)], chats, **columns)
    score_all([look], chats, **columns)
    assert seen == [([[{"role": "assistant", "content": "x"}], [{"role": "assistant", "content": "y"}]], columns)]
    assert columns["answer"] == ["x", "y"] and columns["extra"][0] == {"a": [1]} and seen[0][1]["trainer_state"] is state
    assert seen[0][0] is not chats and seen[0][1]["answer"] is not columns["answer"]


def test_async_functions_and_no_rewards(base):
    assert score_all(build(base, {"use": "mine.py:later"}), ["x", "y"]).total == [1.0, 1.0]
    with pytest.raises(UserError, match="no reward"):
        score_all([], ["x"])


def test_a_broken_schema_passes_through_as_gold_error(base):
    with pytest.raises(GoldError, match="row 1"):
        score_all(build(base, {"use": "schema"}), ["1", "1"], output_schema=[{"type": "integer"}, {"type": "str"}])


def test_a_column_may_be_named_like_our_own_parameters():
    assert score_all([made("a", lambda completions, rewards, **k: [float(r) for r in rewards])], ["x"], rewards=[0.5]).total == [0.5]


def test_the_documents_reward_object_works_from_a_config(tmp_path):
    document = (ROOT / "references" / "reward-functions.md").read_text(encoding="utf-8")
    (block,) = (b for b in re.findall(r"```python\n(.*?)```", document, re.DOTALL) if "class Within" in b)
    (tmp_path / "rewards.py").write_text(block)
    (tmp_path / "config.yaml").write_text("model: {name_or_path: o/m}\ndata: {train: t.jsonl}\nrewards: [{use: 'rewards.py:within'}]\n")
    (reward,) = build_rewards(load_config(tmp_path / "config.yaml"))
    rows = [{"row_id": f"train:{i}", "prompt": "?", "answer": str(i)} for i in range(40)]
    check_rows([reward], rows)
    assert check_dataset([reward], rows) == []
    assert score_all([reward], ["<answer>2.004</answer>", "two"], answer=["2", "2"]).total == [1.0, 0.0]
    with pytest.raises(GoldError, match=r"row 3 .*could not convert"):
        check_rows([reward], [*rows[:3], {**rows[3], "answer": ""}])


def test_the_documents_wrapped_reward_works_from_a_config(tmp_path, sandbox_here):
    document = (ROOT / "references" / "reward-functions.md").read_text(encoding="utf-8")
    (block,) = (b for b in re.findall(r"```python\n(.*?)```", document, re.DOTALL) if "def short_code" in b)
    (tmp_path / "rewards.py").write_text(block)
    (tmp_path / "config.yaml").write_text("model: {name_or_path: o/m}\ndata: {train: t.jsonl}\nrewards: [{use: 'rewards.py:short_code'}]\n")
    (reward,) = build_rewards(load_config(tmp_path / "config.yaml"))
    right, long, wrong = "def f(x): return x * x", "x = 1\n" * 60 + "def f(x): return x * x", "def f(x): return x"
    assert score_all([reward], [right, long, wrong], tests=["assert f(3) == 9"] * 3).total == [1.0, 0.0, 0.0]
    rows = [{"row_id": "train:0", "prompt": "?", "tests": "assert f(3) == 9\nassert f(2) == 4", "solution": right}]
    check_rows([reward], rows)
    assert [f["check"] for f in check_dataset([reward], rows)] == ["few_tests"]
    (error,) = check_dataset([reward], [{**rows[0], "solution": wrong, "tests": [f"assert f({n}) == {n * n}" for n in (2, 3, 4)]}])
    assert error["check"] == "own_gold"
    with pytest.raises(GoldError, match="row 0 .*without an assert"):
        check_rows([reward], [{**rows[0], "tests": "f(3)"}])


def test_a_file_that_an_option_names_belongs_to_the_reward(base):
    (base / "mine.py").write_text("def fits(completions, schema, **columns):\n    return [1.0] * len(completions)\n")
    (base / "schema.json").write_text("{}")
    (named,) = build(base, {"use": "mine.py:fits", "args": {"schema": "schema.json"}})
    (other,) = build(base, {"use": "mine.py:fits", "args": {"schema": "x\0y"}})
    assert (base / "schema.json").resolve() in named.source_files and len(other.source_files) == len(named.source_files) - 1


def test_a_reward_that_is_waited_for_is_named(monkeypatch, capsys):
    monkeypatch.setattr(scoring, "SLOW_S", 0.02)
    rewards = [made("quick", lambda completions, **kwargs: [1.0]), made("slow", lambda completions, **kwargs: time.sleep(0.3) or [0.5])]
    assert score_all(rewards, ["a"]).total == [1.5]
    said = capsys.readouterr().err
    assert "reward slow has been scoring 1 completions for" in said and "quick" not in said


HANGS = """
import sys, time
from types import SimpleNamespace
from grpo_rlvr import cli
from grpo_rlvr.rewards import BuiltReward, score_all

def hangs(completions, **columns):
    print("hanging", file=sys.stderr, flush=True)
    while True:
        time.sleep(1000)

sys.exit(cli.run(lambda args: score_all([BuiltReward(name="hangs", function=hangs, weight=1.0, required=True)], ["a"]), SimpleNamespace(json=False)))
"""


def test_ctrl_c_ends_a_program_whose_reward_hangs():
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "scripts")}
    process = subprocess.Popen([sys.executable, "-c", HANGS], env=environment, stderr=subprocess.PIPE, text=True)
    assert process.stderr.readline() == "hanging\n"
    process.send_signal(signal.SIGINT)
    try:
        assert "interrupted" in process.communicate(timeout=60)[1] and process.returncode == 130
    finally:
        process.kill()
