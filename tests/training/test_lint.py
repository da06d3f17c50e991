"""Each rule of the lint: where it speaks, where it is silent, the numbers it names, and that its advice works."""

from __future__ import annotations

import itertools
import re
from pathlib import Path

import pytest
from grpo_rlvr.config import Config, DataSection, InspectionSection, LoraSection, ModelSection, RewardSection
from grpo_rlvr.training.lint import LEVELS, Finding, lint

QUIET = {"per_device_train_batch_size": 8, "gradient_accumulation_steps": 4, "num_generations": 8}


def config(dtype="float32", lora=None, evaluate=False, weights=(1.0,), inspection=None, **grpo) -> Config:
    return Config(
        model=ModelSection("m", dtype=dtype, lora=lora),
        data=DataSection("train.jsonl", "eval.jsonl" if evaluate else None),
        rewards=tuple(RewardSection("math", weight=w, name=f"r{i}") for i, w in enumerate(weights)),
        inspection=inspection or InspectionSection(),
        grpo={**QUIET, **grpo},
        path=Path("/nowhere/config.yaml"),
    )


def codes(findings, *levels) -> list[str]:
    return [f.code for f in findings if not levels or f.level in levels]


def only(code: str, findings: list[Finding]) -> Finding:
    assert codes(findings).count(code) == 1, findings
    return next(f for f in findings if f.code == code)


def test_a_sane_config_is_silent():
    assert lint(config(), train_rows=100) == []


@pytest.mark.parametrize("vllm", [{}, {"use_vllm": True}])
def test_the_widely_published_recipe_has_no_errors(vllm):
    recipe = config(num_generations=8, learning_rate=5e-7, beta=0.01, per_device_train_batch_size=8, gradient_accumulation_steps=4, seed=3407, **vllm)
    found = lint(recipe, train_rows=1000)
    assert codes(found, "error") == []
    assert "reference-copy" in codes(found)
    assert ("vllm-context" in codes(found)) == bool(vllm)


def test_errors_come_first_and_every_level_is_known():
    found = lint(config(num_generations=4, beta=0.1, temperature=0.0, mask_truncated_completions=True), train_rows=100)
    levels = [f.level for f in found]
    assert levels == sorted(levels, key=LEVELS.index)
    assert set(levels) == set(LEVELS)


def test_text_of_a_finding():
    assert str(Finding("error", "code", "what", "how")) == "error [code] what\n    -> how"
    assert str(Finding("note", "code", "what")) == "note [code] what"


# Batches


def test_batch_that_cuts_a_group_names_the_numbers():
    found = lint(config(per_device_train_batch_size=4, gradient_accumulation_steps=2, num_generations=16))
    finding = only("generation-batch", found)
    assert finding.level == "error"
    for text in ("per_device_train_batch_size 4", "gradient_accumulation_steps 2", "= 8", "num_generations 16"):
        assert text in finding.message
    assert "gradient_accumulation_steps to a multiple of 4" in finding.fix
    assert lint(config(per_device_train_batch_size=4, gradient_accumulation_steps=4, num_generations=16)) == []


def test_steps_per_generation_replaces_accumulation():
    assert "generation-batch" in codes(lint(config(per_device_train_batch_size=2, gradient_accumulation_steps=4, steps_per_generation=2)))
    finding = only("generation-batch", lint(config(per_device_train_batch_size=2, gradient_accumulation_steps=4, steps_per_generation=3)))
    assert "steps_per_generation 3 = 6" in finding.message and "multiple of 4" in finding.fix


def test_processes_count():
    one = config(per_device_train_batch_size=1, gradient_accumulation_steps=4, num_generations=8)
    assert "generation-batch" in codes(lint(one))
    assert lint(one, world=2) == []
    assert "generation-batch" in codes(lint(one, world=3))


def test_generation_batch_size():
    assert lint(config(generation_batch_size=64)) == []
    finding = only("generation-batch-step", lint(config(generation_batch_size=12)))
    assert "12" in finding.message and "= 8" in finding.message and finding.fix == "set generation_batch_size: 16"
    finding = only("generation-batch", lint(config(per_device_train_batch_size=4, generation_batch_size=12)))
    assert "generation_batch_size 12" in finding.message and "multiple of 8" in finding.fix
    finding = only("generation-batch-both", lint(config(generation_batch_size=32, steps_per_generation=4)))
    assert finding.level == "error" and "32" in finding.message and "4" in finding.message


def test_group_size():
    finding = only("group-size", lint(config(num_generations=1)))
    assert finding.level == "error" and "1" in finding.message
    finding = only("small-group", lint(config(num_generations=4)))
    # At a pass rate of 20%: 0.8^4 + 0.2^4 = 0.4112
    assert finding.level == "warning" and "41%" in finding.message and "4" in finding.message
    assert codes(lint(config(num_generations=2))) == ["small-group"]
    assert "68%" in only("small-group", lint(config(num_generations=2))).message  # 0.8^2 + 0.2^2


def test_too_few_prompts():
    # 8 x 4 = 32 completions = 4 prompts in a generation batch.
    finding = only("too-few-prompts", lint(config(), train_rows=3))
    assert finding.level == "error" and finding.message.startswith("3 training prompts") and " 4 of one" in finding.message
    assert lint(config(), train_rows=4) == []
    assert lint(config(), train_rows=None) == []
    assert codes(lint(config(), train_rows=7, world=2)) == ["too-few-prompts"]
    assert codes(lint(config(generation_batch_size=64), train_rows=7)) == ["too-few-prompts"]


@pytest.mark.model
@pytest.mark.filterwarnings("ignore")
def test_batch_errors_are_exactly_what_trl_refuses(tmp_path):
    trl = pytest.importorskip("trl")
    codes_of_trl = {"generation-batch", "generation-batch-step", "generation-batch-both", "group-size"}
    refused = 0
    for size, accumulation, steps, whole, group in itertools.product((1, 2, 3, 8), (1, 4), (None, 2, 3), (None, 6, 8), (1, 2, 8)):
        grpo = {
            "per_device_train_batch_size": size, "gradient_accumulation_steps": accumulation, "steps_per_generation": steps,
            "generation_batch_size": whole, "num_generations": group,
        }  # fmt: skip
        ours = bool(codes_of_trl & set(codes(lint(config(**grpo)), "error")))
        try:
            made = trl.GRPOConfig(output_dir=str(tmp_path), use_cpu=True, bf16=False, **grpo)
            theirs = False
        except ValueError:
            theirs = True
        assert ours == theirs, grpo
        refused += theirs
        if not theirs:
            from grpo_rlvr.training.setup import Setup

            setup = Setup(config(**grpo), None, 1)
            assert (setup.steps_per_generation, setup.generation_batch) == (made.steps_per_generation, made.generation_batch_size)
    assert 0 < refused < 216


# Evaluation


def test_evaluation():
    assert "eval-without-data" in codes(lint(config(eval_strategy="steps")), "error")
    assert lint(config(eval_strategy="no")) == []
    # Without its own number of generations the trainer takes 1.
    assert lint(config(evaluate=True, eval_strategy="steps", per_device_eval_batch_size=3)) == []
    finding = only("eval-batch", lint(config(evaluate=True, num_generations_eval=4, per_device_eval_batch_size=6)))
    assert "6 x 1 process = 6" in finding.message and "num_generations_eval 4" in finding.message and "multiple of 4" in finding.fix
    assert lint(config(evaluate=True, num_generations_eval=4, per_device_eval_batch_size=6), world=2) == []
    assert lint(config(num_generations_eval=4, per_device_eval_batch_size=6)) == []
    # Left out, the evaluation's batch is the training's.
    assert codes(lint(config(evaluate=True, num_generations_eval=8, per_device_train_batch_size=4, gradient_accumulation_steps=2))) == ["eval-batch"]


# Precision, adapters, reference


@pytest.mark.parametrize(
    "dtype, rate, lora, expected",
    [
        ("bfloat16", 5e-7, False, "error"),
        ("bfloat16", 9.9e-6, False, "error"),
        ("bfloat16", 1e-5, False, None),
        ("bfloat16", None, False, "error"),  # TRL's default rate is 1e-6
        ("bfloat16", 5e-7, True, None),
        ("auto", 1e-6, False, "warning"),
        ("float16", 1e-6, False, "warning"),
        ("float32", 1e-7, False, None),
    ],
)
def test_weights_rounded_away(dtype, rate, lora, expected):
    grpo = {} if rate is None else {"learning_rate": rate}
    found = [f for f in lint(config(dtype=dtype, lora=LoraSection() if lora else None, **grpo)) if f.code == "weights-rounded"]
    assert [f.level for f in found] == ([expected] if expected else [])
    for f in found:
        assert f"{rate or 1e-6:g}" in f.message and "1e-05" in f.message and dtype in f.message
        assert ("checkpoint" in f.message) == (dtype == "auto")


def test_lora_rate():
    assert only("lora-rate", lint(config(lora=LoraSection(), learning_rate=5e-7))).level == "warning"
    assert lint(config(lora=LoraSection(), learning_rate=1e-5)) == []


def test_reference_model():
    assert only("reference-copy", lint(config(beta=0.01))).level == "note"
    assert codes(lint(config(beta=0.01, lora=LoraSection(), learning_rate=1e-5))) == ["kl-estimator"]
    assert lint(config(beta=0.01, lora=LoraSection(), learning_rate=1e-5, use_bias_correction_kl=True)) == []
    assert "no-reference" in codes(lint(config(sync_ref_model=True)), "error")
    assert "no-reference" not in codes(lint(config(sync_ref_model=True, beta=0.1)))


# Losses


def test_losses():
    finding = only("cispo-cap", lint(config(loss_type="cispo")))
    assert finding.level == "warning" and "epsilon 0.2" in finding.message
    assert lint(config(loss_type="cispo", epsilon_high=5.0)) == []
    finding = only("dr-grpo-scaling", lint(config(loss_type="dr_grpo")))
    assert finding.level == "warning" and "scale_rewards group" in finding.message
    assert lint(config(loss_type="dr_grpo", scale_rewards="none")) == []
    assert "dr-grpo-length" in codes(lint(config(loss_type="dr_grpo", scale_rewards="none", max_completion_length=None)), "error")
    assert only("masked-truncation", lint(config(mask_truncated_completions=True, max_completion_length=99))).message.count("99") == 1
    assert only("no-weight", lint(config(weights=(0.0, 0.0)))).level == "error"
    assert lint(config(weights=(0.0, -1.0))) == []


@pytest.mark.parametrize(
    "grpo, acts",
    [
        ({}, False),  # one batch, one update
        ({"steps_per_generation": 2}, False),
        ({"steps_per_generation": 2, "num_iterations": 2}, False),
        ({"num_iterations": 2}, True),  # 4 x 2 = 8 forward passes a batch, 4 an update
        ({"steps_per_generation": 8}, True),
        ({"steps_per_generation": 3}, True),  # smaller, yet a batch spans two updates
    ],
)
def test_clipping_without_effect(grpo, acts):
    # vLLM changes nothing: in the real runs of tiny_runs.json that used it the clip ratio is exactly 0, also where the gap was large.
    for sampler in ({}, {"use_vllm": True}):
        assert ("clip-no-op" in codes(lint(config(epsilon_high=0.28, **sampler, **grpo)))) == (not acts)
        narrow = lint(config(importance_sampling_level="sequence", loss_type="grpo", **sampler, **grpo))
        assert ("clip-no-op" in codes(narrow), "sequence-clip" in codes(narrow)) == (not acts, acts)
    assert "clip-no-op" not in codes(lint(config(**grpo)))
    assert "clip-no-op" not in codes(lint(config(epsilon_high=5.0, loss_type="cispo", **grpo)))


@pytest.mark.parametrize("grpo", [{"off_policy_mask_threshold": 0.5}, {"loss_type": "vespo", "vllm_importance_sampling_mode": "token_truncate"}])
def test_what_looks_at_the_gap_to_vllm_acts_with_vllm(grpo):
    assert "clip-no-op" in codes(lint(config(**grpo)))
    assert "clip-no-op" not in codes(lint(config(use_vllm=True, **grpo)))
    uncorrected = config(use_vllm=True, vllm_importance_sampling_correction=False, **grpo)
    assert ("clip-no-op" in codes(lint(uncorrected))) == ("loss_type" in grpo)  # vespo's gate takes the gap from the correction


# Sampling and vLLM


@pytest.mark.parametrize("value", [0, 0.0, -1.0])
def test_temperature(value):
    assert only("temperature", lint(config(temperature=value))).level == "error"


@pytest.mark.parametrize(
    "grpo, named",
    [
        ({"top_p": 0.95}, "top_p 0.95"),
        ({"top_k": 50}, "top_k 50"),
        ({"min_p": 0.1}, "min_p 0.1"),
        ({"generation_kwargs": {"top_p": 0.9}}, "top_p 0.9"),
        ({"top_p": 0.9, "generation_kwargs": {"top_p": 1.0}}, None),
        ({"top_p": 1.0, "top_k": 0, "min_p": None}, None),
        ({"top_k": -1, "min_p": 0.0}, None),
    ],
)
def test_cut_distributions_with_vllm(grpo, named):
    found = [f for f in lint(config(use_vllm=True, vllm_max_model_length=2048, **grpo)) if f.code == "truncated-sampling"]
    assert [named in f.message for f in found] == ([True] if named else [])
    assert "truncated-sampling" not in codes(lint(config(**grpo)))


def test_vllm_context():
    finding = only("vllm-context", lint(config(use_vllm=True)))
    assert finding.level == "warning" and "512" in finding.fix
    assert lint(config(use_vllm=True, vllm_max_model_length=1024)) == []
    assert lint(config(use_vllm=True, vllm_mode="server")) == []
    finding = only("vllm-context", lint(config(use_vllm=True, vllm_max_model_length=512)))
    assert finding.level == "error" and finding.message.count("512") == 2


def test_adapters_merged_into_a_rounded_base():
    vllm = {"use_vllm": True, "vllm_max_model_length": 1024, "learning_rate": 1e-5}
    assert codes(lint(config("bfloat16", LoraSection(), **vllm))) == ["merge-drift"]
    assert lint(config("float32", LoraSection(), **vllm)) == []


def test_vespo_with_vllm():
    vllm = {"use_vllm": True, "vllm_max_model_length": 1024, "loss_type": "vespo"}
    assert codes(lint(config(**vllm)), "error") == ["vespo-mode"]
    assert lint(config(vllm_importance_sampling_mode="token_truncate", **vllm)) == []
    assert codes(lint(config(vllm_importance_sampling_correction=False, **vllm))) == ["clip-no-op"]


# Saving and inspection


@pytest.mark.parametrize(
    "grpo, advice",
    [
        ({"save_steps": 7}, None),  # one generation an update: any step will do
        ({"save_steps": 50, "steps_per_generation": 16}, 52),  # a cycle of 4 updates
        ({"save_steps": 52, "steps_per_generation": 16}, None),
        ({"save_steps": 9, "num_iterations": 2}, 10),
        ({"save_steps": 3, "steps_per_generation": 6}, None),  # 12 forward passes = 2 cycles of 6
        ({"save_steps": 4, "steps_per_generation": 6}, 6),
        ({"save_steps": 0.1, "steps_per_generation": 16}, None),  # a share of the run
        ({"save_strategy": "epoch", "save_steps": 7, "steps_per_generation": 16}, None),
    ],
)
def test_checkpoints_on_the_generation_cycle(grpo, advice):
    found = [f for f in lint(config(**grpo)) if f.code == "save-off-cycle"]
    assert len(found) == (advice is not None)
    if found:
        assert found[0].level == "warning" and found[0].fix == f"set save_steps: {advice}" and str(grpo["save_steps"]) in found[0].message
        better = int(re.search(r"\d+", found[0].fix).group())
        assert "save-off-cycle" not in codes(lint(config(**{**grpo, "save_steps": better})))


def test_checkpoints_that_cannot_resume():
    assert codes(lint(config(save_strategy="no", save_only_model=True))) == ["no-checkpoints"]
    assert codes(lint(config(save_only_model=True))) == ["model-only"]


def test_inspection_that_cannot_fill_the_gate():
    finding = only("few-samples", lint(config(inspection=InspectionSection(prompts=4))))
    assert "4 prompts x 8 = 32" in finding.message and "min_read 50" in finding.message and "7 or more" in finding.fix
    assert lint(config(inspection=InspectionSection(prompts=7))) == []
    assert lint(config(inspection=InspectionSection(prompts=25, samples_per_prompt=2))) == []
    assert codes(lint(config(inspection=InspectionSection(prompts=7, samples_per_prompt=2)))) == ["few-samples"]
