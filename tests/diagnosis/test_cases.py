"""Public failure reports (issues of TRL, open-r1, verl and others) turned into logs where their numbers allow: what diagnosis answers.

Each case names its source.
"""

from __future__ import annotations

import dataclasses
import math
import random

import pytest
from grpo_rlvr.diagnosis.metrics import Log
from grpo_rlvr.diagnosis.rules import diagnose
from grpo_rlvr.diagnosis.run import Run

from diagnosis.planted import healthy, run_of

CUT = "completions/clipped_ratio"
RATIO, GAP = "sampling/importance_sampling_ratio/mean", "sampling/sampling_logp_difference/mean"


def log_of(kind: str = "short", settings: dict | None = None, held_out: bool = False, config: dict | None = None, **columns) -> Run:
    """A healthy log in which `columns` are replaced; a value is a number or a function of (share of the run, random source)."""
    rows, known, accuracy = healthy(77, kind, 100)
    columns = {"completions/mean_length": lambda t, rng: rng.gauss(100, 3), **columns}
    rng = random.Random(7)
    for i, row in enumerate(rows):
        for name, value in columns.items():
            row[name] = value(i / 99, rng) if callable(value) else value
    return run_of(rows, {**known, **(settings or {})}, accuracy if held_out else {}, config)


def answer(run: Run):
    found = diagnose(run)
    return [f.name for f in found.findings], found


NOTHING_MOVES = {
    "reward": 0.0, "rewards/math/mean": 0.0, "rewards/format/mean": 0.0, "reward_std": 0.0, "frac_reward_zero_std": 1.0,
    "loss": 0.0, "grad_norm": 0.0,
}  # fmt: skip


def test_t01_t02_all_cut():
    # huggingface/trl#5697: the run works for hours and learns nothing.
    run = log_of(
        **{**NOTHING_MOVES, "completions/mean_length": 256.0, CUT: 1.0, "completions/mean_terminated_length": 0.0},
        settings={"max_completion_length": 256},
    )
    names, found = answer(run)
    assert names == ["truncation"]
    first = found.findings[0]
    assert first.patch == {"grpo.max_completion_length": 512}
    # trl#3644: a model that never ends looks the same; the answer says how to tell the two apart.
    assert "end token" in first.cause and "if all are cut again" in first.remedy


def test_t05_loss_zero_is_no_fault():
    # huggingface/trl#2703, open-r1#239
    names, found = answer(log_of(loss=1e-8, grad_norm=lambda t, rng: rng.gauss(1, 0.1)))
    assert names == [] and "loss_zero" in [n.name for n in found.notes]


def test_t06_constant_reward():
    # huggingface/trl#3903, open-r1#235
    assert answer(log_of(**NOTHING_MOVES))[0] == ["nothing_solved"]
    full = {"reward": 1.2, "rewards/math/mean": 1.0, "rewards/format/mean": 1.0}
    assert answer(log_of(**{**NOTHING_MOVES, **full}))[0] == ["all_solved"]


def test_t10_one_infinite_reward():
    run = log_of(reward=math.inf, grad_norm=0.0, **{"rewards/math/mean": math.inf, "frac_reward_zero_std": 0.0})
    assert answer(run)[0][0] == "infinite_reward"


def test_t11_all_masked_is_no_collapse():
    # huggingface/trl#6369
    run = log_of(loss=0.0, grad_norm=0.0, entropy=0.0, **{CUT: 1.0, "frac_reward_zero_std": 0.0}, settings={"mask_truncated_completions": True})
    names, found = answer(run)
    assert names[0] == "all_masked" and "entropy_collapse" not in names
    assert "artefact" in found.findings[0].cause


def test_t12_fewer_prompts_than_a_batch():
    run = Run(Log(end={"train_runtime": 3.0, "global_step": 0, "max_steps": 100}), finished=True)
    assert answer(run)[0] == ["nothing_trained"]


def test_t17_ratio_beyond_the_cap():
    # huggingface/trl#4772: sequences are masked silently, reward is flat.
    run = log_of("vllm", **{RATIO: lambda t, rng: rng.gauss(0.4, 0.05), GAP: lambda t, rng: rng.gauss(0.01, 0.001), "completions/mean_length": 300.0})
    names, found = answer(run)
    assert names[0] == "ratio_mismatch"
    assert found.findings[0].patch == {"grpo.vllm_importance_sampling_mode": "token_truncate"}
    assert "300 tokens x 0.00973" in " ".join(e.text for e in found.findings[0].evidence)


def test_t18_temperature():
    # huggingface/trl#4159: about 2 from step 1 on.
    names, found = answer(log_of("vllm", settings={"temperature": 0.7}, **{RATIO: lambda t, rng: rng.gauss(2, 0.05)}))
    assert names[0] == "ratio_mismatch" and found.findings[0].patch == {"grpo.temperature": 1.0}
    assert "from the first step" in found.findings[0].cause


def test_t19_cut_sampling():
    # huggingface/trl#6789: 0.896 at top_p 0.8
    names, found = answer(log_of("vllm", settings={"top_p": 0.8}, **{RATIO: lambda t, rng: rng.gauss(0.89, 0.005)}))
    assert names[0] == "ratio_mismatch" and found.findings[0].patch == {"grpo.top_p": 1.0}


def test_t20_t34_t35_drift():
    # huggingface/trl#2698, #3466, #6688: the adapter does not reach vLLM, or the base is rounded.
    run = log_of("vllm", config={"model": {"lora": {"r": 16}, "dtype": "bfloat16"}},
                 **{GAP: lambda t, rng: 0.005 + 0.1 * t * rng.gauss(1, 0.05), RATIO: lambda t, rng: rng.gauss(1 - 0.2 * t, 0.01)})  # fmt: skip
    names, found = answer(run)
    assert names[0] == "ratio_mismatch" and "old weights" in found.findings[0].cause
    assert found.findings[0].patch["model.dtype"] == "float32"


def test_t23_only_the_kl_term_trains():
    # huggingface/trl#5588
    run = log_of(
        "kl", settings={"beta": 0.04}, **{**NOTHING_MOVES, "grad_norm": lambda t, rng: rng.gauss(0.2, 0.02), "kl": lambda t, rng: 0.2 - 0.15 * t}
    )
    names, found = answer(run)
    assert names == ["nothing_solved"]
    assert "KL term alone" in " ".join(e.text for e in found.findings[0].evidence)


def test_t25_nan_without_a_sign():
    # MakazhanAlpamys/Soup#342
    rows, settings, _ = healthy(5, "short", 60)
    rows[-1] |= {"loss": math.nan, "grad_norm": math.nan}
    names, found = answer(run_of(rows, settings, {}))
    assert names == ["nan"]
    assert "no log can foretell" in found.findings[0].cause and "checkpoint" in found.findings[0].remedy
    assert "step 59" in found.findings[0].evidence[0].text


def test_t27_the_cheap_reward():
    # huggingface/open-r1#255: format 0.47 -> 0.86, accuracy 0.16 -> 0.06, length 387 -> 190
    rewards = {
        "rewards/format_reward/mean": lambda t, rng: 0.47 + 0.39 * t + rng.gauss(0, 0.02),
        "rewards/accuracy_reward/mean": lambda t, rng: 0.16 - 0.1 * t + rng.gauss(0, 0.01),
    }
    rows, _, _ = healthy(77, "short", 100)
    rng = random.Random(0)
    for i, row in enumerate(rows):
        del row["rewards/math/mean"], row["rewards/format/mean"]
        row |= {name: value(i / 99, rng) for name, value in rewards.items()}
        row["completions/mean_length"] = 387 - 197 * i / 99 + rng.gauss(0, 8)
        row["reward"] = sum(row[name] for name in rewards)
    names, _ = answer(run_of(rows, {}, {}, {}))
    assert names == ["format_only"]


@pytest.mark.parametrize("updates", [1, 4])
def test_t29_collapse(updates):
    # volcengine/verl#5953; a variant is named only where its setting acts.
    run = log_of(
        settings={"num_iterations": updates, "loss_type": "grpo"}, entropy=lambda t, rng: 0.5 * math.exp(-6 * t),
        **{"frac_reward_zero_std": lambda t, rng: min(1, 0.2 + 0.8 * t), "clip_ratio/region_mean": 0.001 * (updates > 1),
           "completions/mean_length": 900.0,
           "rewards/math/mean": lambda t, rng: rng.gauss(0.4, 0.02), "reward": lambda t, rng: rng.gauss(0.5, 0.02)},
    )  # fmt: skip
    names, found = answer(run)
    assert names == ["entropy_collapse"]
    first = found.findings[0]
    assert (first.variant or {}).get("name") == (None if updates == 1 else "dapo")
    assert ("grpo.epsilon_high" in first.patch) == (updates > 1)


def test_t33_adapters_at_the_rate_of_full_tuning():
    # huggingface/trl#2872
    config = {"model": {"lora": {"r": 8}}, "rewards": [{"use": "math"}]}
    still = {"completions/mean_length": lambda t, rng: rng.gauss(100, 3), "entropy": lambda t, rng: rng.gauss(0.5, 0.02), "frac_reward_zero_std": 0.4}
    run = log_of(config=config, settings={"num_generations": 2, "learning_rate": 5e-7}, lr=5e-7, reward=lambda t, rng: rng.gauss(0.3, 0.04),
                 **{"rewards/math/mean": lambda t, rng: rng.gauss(0.3, 0.04), **still})  # fmt: skip
    names, found = answer(run)
    assert names == ["rate_without_effect"]
    assert found.findings[0].confidence == "high" and found.findings[0].patch == {"grpo.learning_rate": 1e-5, "grpo.num_generations": 8}


@pytest.mark.parametrize(("lines", "age_s", "names"), [(100, 60, []), (100, 3_000, ["stalled"]), (0, 600, []), (0, 13_320, ["stalled"])])
def test_t32_t37_t38_t39_silence(lines, age_s, names):
    # NVIDIA-NeMo/RL#3488: 3.7 hours of polling without an error; trl#3608, ms-swift#5949: no line at all.
    run = run_of(healthy(77, "short", 100)[0][:lines], {}, {})
    run = dataclasses.replace(run, watched=True, age_s=age_s)
    assert [f.name for f in diagnose(run).findings] == names
    assert [f.name for f in diagnose(dataclasses.replace(run, watched=False)).findings] == []


def test_t41_the_same_completions_everywhere():
    # huggingface/trl#2776
    run = log_of(reward_std=0.0, grad_norm=0.0, entropy=0.6, frac_reward_zero_std=1.0, reward=lambda t, rng: rng.gauss(0.5, 0.1),
                 **{"rewards/math/mean": lambda t, rng: rng.gauss(0.45, 0.1)})  # fmt: skip
    assert answer(run)[0] == ["identical_groups"]


def test_t42_impossible_length():
    # unslothai/unsloth#4189
    run = log_of(settings={"max_completion_length": 512}, **{"completions/max_length": 700.0})
    assert answer(run)[0] == ["impossible_values"]


def test_t43_clip_ratio_zero_is_no_fault():
    # huggingface/trl#3120
    names, found = answer(log_of(**{"clip_ratio/region_mean": 0.0}))
    assert names == [] and "clip_zero" in [n.name for n in found.notes]
