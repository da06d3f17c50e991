"""Failures that people reported in public, one by one: the check says so before the first step.

Each row names the report. What only a run shows is answered by the run (`test_guards.py`, `test_nothing_lost.py`) or by the diagnosis.
"""

from __future__ import annotations

import pytest
from conftest import CONFIG, sums, write_rows
from grpo_rlvr.config import LoraSection, load_config
from grpo_rlvr.errors import UserError
from grpo_rlvr.training.lint import lint
from grpo_rlvr.training.seen import Lengths, Seen
from test_lint import codes, config
from test_train import edit

TRL = "https://github.com/huggingface/trl/issues/"
LORA = {"lora": LoraSection(r=8), "learning_rate": 1e-5}
VLLM = {"use_vllm": True, "vllm_max_model_length": 4096}
CUT = Seen(completions=Lengths((256,) * 97 + (200,) * 3, 97, 256))
NEVER = Seen(completions=Lengths((4096,) * 100, 100, 4096))
MOE = Seen(model={"num_experts": 128})

CASES = [
    ("every completion is cut, nothing is learned", TRL + "5697", {"max_completion_length": 256}, {"seen": CUT}, "warning", "truncation"),
    ("the limit is raised and still nothing ends", TRL + "3644", {"max_completion_length": 4096}, {"seen": NEVER}, "warning", "nothing-ends"),
    ("cut completions are masked and all are cut", TRL + "6369", {"max_completion_length": 4096, "mask_truncated_completions": True},
     {"seen": NEVER}, "error", "nothing-ends"),
    ("fewer prompts than a generation batch: 0 steps, success", "", {}, {"train_rows": 3}, "error", "too-few-prompts"),
    ("batch 1, accumulation 4, group 8", TRL + "2858", {"per_device_train_batch_size": 1}, {}, "error", "generation-batch"),
    ("batch 4, accumulation 2, group 16", TRL + "2876",
     {"per_device_train_batch_size": 4, "gradient_accumulation_steps": 2, "num_generations": 16}, {},
     "error", "generation-batch"),
    ("batch 1, accumulation 8, group 8 works", "",
     {"per_device_train_batch_size": 1, "gradient_accumulation_steps": 8}, {}, None, "generation-batch"),
    ("a group of 1", "", {"num_generations": 1}, {}, "error", "group-size"),
    ("a group of 3", "", {"num_generations": 3}, {}, "error", "generation-batch"),
    ("evaluation batch 6, group 8", "", {"evaluate": True, "per_device_eval_batch_size": 6, "num_generations_eval": 8}, {}, "error", "eval-batch"),
    ("both ways to set the generation batch", TRL + "3980",
     {"steps_per_generation": 4, "generation_batch_size": 32}, {}, "error", "generation-batch-both"),
    ("sequence ratios pass the cap with length", TRL + "4772", {**VLLM, "max_completion_length": 2048}, {}, "note", "sequence-mask"),
    ("probabilities without the temperature", TRL + "4159",
     {"use_vllm": True, "vllm_mode": "server", "temperature": 0.9}, {}, "note", "server-temperature"),
    ("top_p 0.8 in rollouts", TRL + "6789", {**VLLM, "top_p": 0.8}, {}, "warning", "truncated-sampling"),
    ("LoRA in bfloat16 with vLLM", TRL + "6688", {**LORA, **VLLM, "dtype": "bfloat16"}, {}, "warning", "merge-drift"),
    ("a 4-bit base that vLLM gets merged", TRL + "3466", {**LORA, **VLLM, "lora": LoraSection(quantize="nf4")}, {}, "warning", "merge-drift"),
    ("a mixture of experts under ZeRO-3 hangs", "https://github.com/modelscope/ms-swift/issues/5949",
     {"importance_sampling_level": "sequence", "loss_type": "grpo", "deepspeed": "zero3.json"}, {"seen": MOE}, "warning", "moe-zero3"),
    ("LoRA at the rate of full tuning", TRL + "2872", {**LORA, "learning_rate": 5e-7, "num_generations": 2}, {}, "warning", "lora-rate"),
    ("a group of 2", TRL + "2872", {**LORA, "num_generations": 2}, {}, "warning", "small-group"),
    ("prompts longer than the server takes", TRL + "3433",
     {**VLLM, "vllm_max_model_length": 1024}, {"seen": Seen(prompt_tokens=900)}, "error", "prompt-length"),
    ("context as long as the completion", TRL + "3180", {**VLLM, "vllm_max_model_length": 512}, {}, "error", "vllm-context"),
]  # fmt: skip


@pytest.mark.parametrize("report, source, grpo, known, level, code", CASES, ids=[f"{c[5]}-{i}" for i, c in enumerate(CASES)])
def test_the_check_answers(report, source, grpo, known, level, code):
    found = [f for f in lint(config(**grpo), **known) if f.code == code]
    assert [f.level for f in found] == ([level] if level else []), report
    assert all(f.fix and any(c.isdigit() for c in f.message + f.fix) for f in found)


@pytest.mark.parametrize("line, words", [
    ("max_prompt_length: 256", "set data.max_prompt_tokens"),
    ("warmup_ratio: 0.1", "warmup_steps"),
    ("max_steps: null", "whole number"),
])  # fmt: skip
def test_settings_of_older_recipes_are_refused_with_what_replaced_them(project, line, words):
    edit(project, "max_steps: 4", line)
    with pytest.raises(UserError) as refused:
        load_config(project / "config.yaml")
    assert words in str(refused.value)


def test_false_alarms_stay_silent():
    # A loss near 0 and a clip ratio of 0 are normal with one update a batch: nothing is said of them.
    assert codes(lint(config(), train_rows=100)) == []


def test_splits_and_filters_keep_the_two_sides_apart(project):
    from grpo_rlvr.data import load_rows, raw_lines
    from grpo_rlvr.training.measure import both_sides

    write_rows(project / "train.jsonl", [*sums(30), *sums(10)])  # ten prompts stand there twice
    (project / "config.yaml").write_text(CONFIG.replace("eval: eval.jsonl", "eval_split: 0.25"))
    config = load_config(project / "config.yaml")
    train, held_out = load_rows(config, "train"), load_rows(config, "eval")
    assert len(train) + len(held_out) == 40 and 10 <= len(held_out) <= 11
    assert both_sides(train, held_out) == []
    assert len(raw_lines(config, "train")) == len(train) and '"0+1=?"' in "".join(raw_lines(config, "train") + raw_lines(config, "eval"))
    # Another order of the file, or more rows, moves nobody.
    write_rows(project / "train.jsonl", list(reversed([*sums(30), *sums(10)])))
    assert {r["answer"] for r in load_rows(config, "eval")} == {r["answer"] for r in held_out}
    edit(project, "eval_split: 0.25", "eval_split: 0.25, split_seed: 1")
    assert {r["answer"] for r in load_rows(load_config(project / "config.yaml"), "eval")} != {r["answer"] for r in held_out}
    edit(project, "split_seed: 1", "eval: eval.jsonl")
    with pytest.raises(UserError, match=r"0.25 and data.eval eval.jsonl are both set"):
        load_config(project / "config.yaml")


def test_a_limit_reads_the_first_rows_and_one_prompt_cannot_be_split(project):
    from grpo_rlvr.data import load_rows

    edit(project, "eval: eval.jsonl", "limit: 7")
    assert [r["answer"] for r in load_rows(load_config(project / "config.yaml"), "train")] == [str(i + 1) for i in range(7)]
    edit(project, "limit: 7", "eval_split: 0.5")
    write_rows(project / "train.jsonl", sums(1) * 4)
    with pytest.raises(UserError, match="single prompt"):
        load_rows(load_config(project / "config.yaml"), "train")


def test_a_hub_data_set_is_streamed_up_to_the_limit(project, monkeypatch):
    import itertools

    datasets = pytest.importorskip("datasets")
    from grpo_rlvr.data import load_rows

    asked = {}

    def load_dataset(name, *rest, split, streaming):
        asked.update(name=name, split=split, streaming=streaming)
        return ({"prompt": f"{i}", "answer": "1"} for i in itertools.count())

    monkeypatch.setattr(datasets, "load_dataset", load_dataset)
    edit(project, "train: train.jsonl, eval: eval.jsonl", "train: 'owner/endless:main', limit: 5")
    assert len(load_rows(load_config(project / "config.yaml"), "train")) == 5
    assert asked == {"name": "owner/endless", "split": "main", "streaming": True}


@pytest.mark.model
def test_long_prompts_are_left_out_and_counted(project, untaught_model, capsys):
    import shutil

    from grpo_rlvr.data import load_rows, raw_lines

    shutil.copytree(untaught_model, project / "model")
    rows = sums(5)
    rows[2]["prompt"][0]["content"] = "9" * 300
    write_rows(project / "train.jsonl", rows)
    edit(project, "eval: eval.jsonl", "max_prompt_tokens: 100")
    config = load_config(project / "config.yaml")
    kept = load_rows(config, "train")
    assert [r["answer"] for r in kept] == ["1", "2", "4", "5"] and [r["row_id"] for r in kept] == [f"train:{i}" for i in (0, 1, 3, 4)]
    assert "data.train: 1 of 5 prompts have more than max_prompt_tokens 100 tokens" in capsys.readouterr().err
    assert len(raw_lines(config, "train")) == 4
    edit(project, "max_prompt_tokens: 100", "max_prompt_tokens: 1")
    with pytest.raises(UserError, match="all 5 prompts have more than max_prompt_tokens 1"):
        load_rows(load_config(project / "config.yaml"), "train")
