"""Prompts that ask for one form of the answer while the config asks for another."""

from __future__ import annotations

import pytest
from conftest import ROOT, write_rows
from grpo_rlvr.config import load_config
from grpo_rlvr.training.preflight import check
from grpo_rlvr.training.two_forms import two_forms
from grpo_rlvr.yaml_file import parse

SYSTEM = parse((ROOT / "templates" / "config.yaml").read_text(encoding="utf-8"))["data"]["system_prompt"]
BOXED = "What is 1+1? Put your final answer within \\boxed{}."
JSON = "Extract the total. Respond with JSON only."


def found(prompts: list, system: str | None = SYSTEM, uses=("math",)) -> list[str]:
    return [f"{f.level} {f.code} {f.message} {f.fix}" for f in two_forms([{"prompt": p} for p in prompts], system, uses)]


@pytest.mark.parametrize(
    "prompt", [BOXED, [{"role": "user", "content": BOXED}], [{"role": "system", "content": "use \\boxed{}"}, {"role": "user", "content": "1+1"}]]
)
def test_boxed_prompts_under_a_system_prompt_with_tags(prompt):
    (said,) = found([prompt] * 8)
    assert said.startswith("warning two-forms 8 of the first 8 prompts ask for \\boxed{}, and data.system_prompt asks for <answer>")
    assert "delete data.system_prompt" in said


@pytest.mark.parametrize(
    "prompt",
    [JSON, "Return only valid JSON.", "Answer with a JSON object and nothing else", "Output just the JSON.", "Give JSON, no other text.",
     "ONLY a JSON array"],
)  # fmt: skip
def test_prompts_that_want_json_alone(prompt):
    (said,) = found([prompt] * 3, None, ("format", "schema"))
    assert said.startswith("warning two-forms 3 of the first 3 prompts ask for JSON alone, and reward format asks for <reasoning> and <answer>")


@pytest.mark.parametrize(
    "prompt",
    ["Do not answer with only JSON.", "Don't just return JSON.", "Never reply with just the JSON", "Write not only JSON but your reasoning too.",
     "Answer in words instead of only JSON", "Do not use \\boxed{}.", "Don\u2019t put it in \\boxed{}"],
)  # fmt: skip
def test_a_form_that_the_prompt_forbids_is_not_asked_for(prompt):
    assert found([prompt] * 8) == []


@pytest.mark.parametrize(
    "prompt",
    ["Do not explain, answer with only JSON.", "Do not explain. Only JSON.", "Do not explain and write only JSON.", "Do not forget to use \\boxed{}.",
     "Never mind the units; put it in \\boxed{}.", "Do not answer with only JSON in the draft. In the end answer with only JSON."],
)  # fmt: skip
def test_a_form_beside_something_else_that_is_forbidden_is_asked_for(prompt):
    assert len(found([prompt] * 8)) == 1


@pytest.mark.parametrize(
    ("prompts", "system", "uses"),
    [
        ([BOXED], None, ("math",)),
        ([BOXED], "Think, then write \\boxed{}.", ("math", "exact")),
        (["What is 1+1?", "Is JSON a format? Only one word."], SYSTEM, ("format", "math")),
        ([BOXED + " Put it inside <answer> tags."], SYSTEM, ("format", "math")),  # one form, said twice
        ([[{"role": "system", "content": SYSTEM}, {"role": "user", "content": "1+1"}]], SYSTEM, ("format",)),
        (["1+1"] * 19 + [BOXED], SYSTEM, ("math",)),  # one of twenty may quote it
        (["1+1"] * 100 + [BOXED] * 900, SYSTEM, ("math",)),  # the first hundred are looked at
        ([], SYSTEM, ("format",)),
    ],
)
def test_one_form_is_no_finding(prompts, system, uses):
    assert found(prompts, system, uses) == []


def test_check_warns(tmp_path, capsys):
    write_rows(tmp_path / "train.jsonl", [{"prompt": f"{i}+1? Use \\boxed{{}}.", "answer": str(i + 1)} for i in range(60)])
    (tmp_path / "config.yaml").write_text(
        "model: {name_or_path: owner/model}\ndata: {train: train.jsonl, system_prompt: 'Write <answer>x</answer>.'}\nrewards: [{use: math}]\n"
        "grpo: {num_generations: 8, per_device_train_batch_size: 8, use_cpu: true, bf16: false}\n"
    )
    from grpo_rlvr.data import load_rows

    config = load_config(tmp_path / "config.yaml")
    assert "two-forms" in [f.code for f in check(config, load_rows(config, "train"), [])]
    assert "warning (two-forms): 60 of the first 60 prompts" in capsys.readouterr().err


@pytest.mark.parametrize(("columns", "warned"), [("{answer: chosen}", True), ("{chosen: chosen, answer: gold}", False)])
def test_check_warns_of_a_gold_beside_a_rejected_one(tmp_path, capsys, columns, warned):
    write_rows(tmp_path / "train.jsonl", [{"prompt": f"{i}+1?", "chosen": str(i + 1), "rejected": "0", "gold": "1"} for i in range(60)])
    (tmp_path / "config.yaml").write_text(
        f"model: {{name_or_path: owner/model}}\ndata: {{train: train.jsonl, columns: {columns}}}\nrewards: [{{use: exact}}]\n"
        "grpo: {num_generations: 8, per_device_train_batch_size: 8, use_cpu: true, bf16: false}\n"
    )
    from grpo_rlvr.data import load_rows

    config = load_config(tmp_path / "config.yaml")
    assert ("preferred-gold" in [f.code for f in check(config, load_rows(config, "train"), [])]) is warned
    assert ("'chosen' as the gold 'answer', beside 'rejected'" in capsys.readouterr().err) is warned
