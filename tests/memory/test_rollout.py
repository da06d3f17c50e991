"""Generation without vLLM on Qwen2.5-7B, as traced with fake tensors (tests/oracle/rollout.py), GiB beyond weights and states."""

from __future__ import annotations

import pytest
from grpo_rlvr.memory.catalog import bundled_shape
from grpo_rlvr.memory.estimate import GIB, estimate
from grpo_rlvr.memory.explain import explain
from grpo_rlvr.memory.hardware import find_gpu
from grpo_rlvr.memory.plan import make_plan
from grpo_rlvr.memory.workload import Workload

LORA = {"dtype": "bfloat16", "lora_rank": 16}
# (what is trained, completions at once, prompt, completion, traced)
TRACED = [
    (LORA, 32, 512, 1024, 5.008),  # under autocast, which TRL does not generate with here, it would be 3.926
    (LORA, 16, 512, 1024, 2.504),
    (LORA, 32, 128, 2048, 4.650),
    ({**LORA, "dtype": "float32"}, 32, 512, 1024, 7.258),
    ({**LORA, "targets": ("q_proj", "v_proj")}, 32, 512, 1024, 3.282),
    ({**LORA, "quantization": "nf4"}, 32, 512, 1024, 3.633),
    ({"dtype": "bfloat16"}, 32, 512, 1024, 3.282),
    ({"dtype": "float32"}, 32, 512, 1024, 18.972),
]


def run(training: dict, batch: int, prompt: int, completion: int, **more) -> Workload:
    return Workload(bundled_shape("Qwen/Qwen2.5-7B-Instruct"), find_gpu("h200"), batch=batch, prompt=prompt, completion=completion,
                    **{**training, **more})  # fmt: skip


def terms(w: Workload, phase: str = "rollout") -> dict[str, float]:
    return next(p.terms for p in estimate(w).phases if p.name == phase)


@pytest.mark.parametrize(("training", "batch", "prompt", "completion", "traced"), TRACED)
def test_what_generation_takes_on_7b(training, batch, prompt, completion, traced):
    found = terms(run(training, batch, prompt, completion))
    assert (found["generation"] + found.get("bf16_copies", 0)) / GIB == pytest.approx(traced, rel=0.03 if training == {"dtype": "float32"} else 0.01)


def test_the_moment_of_the_peak_is_said():
    def moment(*sizes: int) -> str:
        return next(p.moment for p in estimate(run(LORA, *sizes)).phases if p.name == "rollout")

    assert moment(32, 512, 1024) == "transformers generates 32 completions: the prompts at once"
    assert moment(32, 64, 2048) == "transformers generates 32 completions: the last token"


def test_precision_during_generation_is_explained():
    def numbers(training: dict) -> str:
        return explain(make_plan(run(training, 32, 512, 1024)), "generation").numbers

    assert "without autocast" in numbers(LORA) and "float32 copies" in numbers(LORA)
    assert "under autocast" in numbers({"dtype": "float32"})


def test_gradients_are_there_when_completions_are_generated_in_the_middle_of_an_update():
    whole = run({"dtype": "bfloat16"}, 4, 256, 256, accumulation=4, steps_per_generation=4)
    divided = whole.but(steps_per_generation=2)
    gradients = estimate(whole).states.gradients
    for phase in ("rollout", "log-probs"):
        assert "gradients" not in terms(whole, phase) and terms(divided, phase)["gradients"] == gradients
    # two updates a generation, and one generation used twice: at the start of an update all the same
    assert "gradients" not in terms(whole.but(steps_per_generation=8)) and "gradients" not in terms(divided.but(iterations=2))
    # weights go to vLLM at the first generation after an update; where generations and updates do not meet, that is in the middle of one
    served = whole.but(vllm="server", server_gpus=1)
    assert "gradients" not in terms(served.but(steps_per_generation=2), "weight sync")
    assert terms(served.but(steps_per_generation=3), "weight sync")["gradients"] == gradients
