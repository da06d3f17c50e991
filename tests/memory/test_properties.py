"""What holds for every plan, whatever the numbers."""

from __future__ import annotations

import math

import pytest
from grpo_rlvr.memory.catalog import bundled_names, bundled_shape
from grpo_rlvr.memory.cheapest import cheapest_fit
from grpo_rlvr.memory.estimate import GIB, PHASES, TERMS, estimate
from grpo_rlvr.memory.hardware import find_gpu, gpus
from grpo_rlvr.memory.levers import Follower
from grpo_rlvr.memory.plan import VERDICTS, make_plan, tuned
from grpo_rlvr.memory.rollout import ASLEEP_GIB
from grpo_rlvr.memory.search import fitting
from grpo_rlvr.memory.speed import speed
from grpo_rlvr.memory.states import OPTIMIZERS
from grpo_rlvr.memory.trl_eras import ERAS
from grpo_rlvr.memory.workload import SHARDINGS, Workload
from hypothesis import given, settings
from hypothesis import strategies as st

SHAPES = ["Qwen/Qwen2.5-0.5B-Instruct", "Qwen/Qwen2.5-7B-Instruct", "Qwen/Qwen3-30B-A3B", "google/gemma-3-4b-it", "Qwen/Qwen3.5-9B",
          "moonshotai/Moonlight-16B-A3B", "microsoft/phi-4", "openai/gpt-oss-20b"]  # fmt: skip


@st.composite
def workloads(draw) -> Workload:
    rank = draw(st.sampled_from([0, 0, 8, 64]))
    return Workload(
        bundled_shape(draw(st.sampled_from(SHAPES))), find_gpu(draw(st.sampled_from(list(gpus())))), count=draw(st.sampled_from([1, 2, 8])),
        nodes=draw(st.sampled_from([1, 2])), dtype=draw(st.sampled_from(["float32", "bfloat16"])), lora_rank=rank,
        targets=draw(st.sampled_from([None, ("q_proj", "v_proj")])),
        quantization=draw(st.sampled_from(["none", "nf4", "nf4-double", "int8"])) if rank else "none",
        optimizer=draw(st.sampled_from([*OPTIMIZERS, "paged_adamw_8bit"])), batch=draw(st.integers(1, 16)), accumulation=draw(st.integers(1, 8)),
        steps_per_generation=draw(st.integers(1, 8)), prompt=draw(st.integers(0, 4000)), completion=draw(st.integers(1, 8000)),
        checkpointing=draw(st.booleans()), attention=draw(st.sampled_from(["sdpa", "flash", "eager"])), autocast=draw(st.booleans()),
        beta=draw(st.sampled_from([0.0, 0.04])), sharding=draw(st.sampled_from(SHARDINGS)),
        vllm=draw(st.sampled_from(["none", "colocate", "server"])),
        utilization=draw(st.floats(0.05, 0.95)), context=draw(st.sampled_from([None, 4096])), tensor_parallel=draw(st.sampled_from([1, 2])),
        sleep=draw(st.booleans()), server_gpus=draw(st.sampled_from([0, 2])), liger=draw(st.booleans()), era=draw(st.sampled_from(ERAS)),
    )  # fmt: skip


@settings(max_examples=60, deadline=None)
@given(workloads())
def test_terms_are_sums_and_numbers(w):
    plan = make_plan(w)
    assert tuple(p.name for p in plan.estimate.phases) == PHASES
    for phase in plan.estimate.phases:
        assert set(phase.terms) <= set(TERMS)
        assert all(math.isfinite(v) and v >= 0 for v in phase.terms.values())
        assert phase.peak == pytest.approx(sum(phase.terms.values()))
        assert 0 < phase.low <= phase.peak <= phase.high
    assert plan.verdict in VERDICTS
    over = plan.deciding.low > plan.capacity or plan.blockers
    assert plan.verdict == ("NO" if over else "FITS" if plan.deciding.high <= plan.capacity else "TIGHT")
    rate = speed(w)
    for interval in (rate.tokens_s, rate.rollout_s, rate.train_s, rate.step_s):
        assert 0 < interval.low <= interval.high < math.inf


def _more_passes(w: Workload, n: int) -> Workload:
    """More micro-batches an update. Where that would bring each update to the end of a generation (the weights are then sent to vLLM with no
    gradients beside them: less), by a factor that leaves the two as they stand."""
    more = w.but(accumulation=w.accumulation * (n + 1))
    met = w.syncs_between and not more.syncs_between
    return w.but(accumulation=w.accumulation * (1 + n * w.steps_per_generation * w.iterations)) if met else more


GROWS = {
    "completion": lambda w, n: w.but(completion=w.completion + n), "prompt": lambda w, n: w.but(prompt=w.prompt + n),
    "batch": lambda w, n: w.but(batch=w.batch + n),
    "beta": lambda w, n: w.but(beta=w.beta + 0.1), "context": lambda w, n: w.but(context=None),
    "utilization": lambda w, n: w.but(utilization=min(1, w.utilization * 1.1)),
    "rank": lambda w, n: w.but(lora_rank=w.lora_rank + n) if w.lora_rank else w,
    # By whole updates: where generations come to meet the updates, the gradients that they had beside them are gone.
    "steps_per_generation": lambda w, n: w.but(steps_per_generation=w.steps_per_generation + n * w.accumulation),
    "accumulation": lambda w, n: _more_passes(w, n),
}  # fmt: skip


@settings(max_examples=60, deadline=None)
@given(workloads(), st.sampled_from(sorted(GROWS)), st.integers(1, 500))
def test_more_of_anything_is_never_less_memory(w, what, n):
    before, after = estimate(w), estimate(GROWS[what](w, n))
    for a, b in zip(before.phases, after.phases, strict=True):
        assert b.peak >= a.peak * (1 - 1e-9), (what, a.name, a.moment, b.moment)


def test_updates_that_come_to_meet_generations_sync_without_gradients():
    apart = Workload(bundled_shape("Qwen/Qwen2.5-0.5B-Instruct"), find_gpu("h200"), accumulation=2, steps_per_generation=7, vllm="colocate")
    sync = {n: next(p for p in estimate(apart.but(accumulation=n)).phases if p.name == "weight sync").terms for n in (2, 14, 16)}
    assert "gradients" in sync[2] and "gradients" not in sync[14] and sync[16] == sync[2]
    assert [_more_passes(apart, n).accumulation for n in (6, 7)] == [2 * 43, 16]


@settings(max_examples=40, deadline=None)
@given(workloads())
def test_vllm_settings_that_are_found_start_and_leave_room(w):
    ready = tuned(w)
    if ready is not None and ready.vllm != "server":
        plan = make_plan(ready)
        assert not [b for b in plan.blockers if b.code.startswith("vllm-")]
        asleep = ASLEEP_GIB * GIB if w.sleep and w.vllm == "colocate" else 0
        assert plan.fits or plan.blockers or make_plan(ready.but(vllm="none")).deciding.high + asleep > plan.capacity
    assert ready is None or ready.vllm == "none" or ready.context >= w.length


@settings(max_examples=40, deadline=None)
@given(workloads())
def test_no_share_is_missed(w):
    if w.vllm == "colocate" and tuned(w) is None:
        at = w.but(context=-(-w.length // 16) * 16)
        assert not [share for share in range(5, 96) if make_plan(at.but(utilization=share / 100)).fits]


@pytest.mark.parametrize("completion", [256, 512, 1024])
def test_a_share_that_just_starts_is_found(completion):
    w = Workload(bundled_shape("zai-org/GLM-4-9B-0414"), find_gpu("rtx-3090"), vllm="colocate", sleep=True, lora_rank=16, dtype="bfloat16",
                 quantization="nf4-double", batch=2, prompt=128, completion=completion)  # fmt: skip
    assert make_plan(tuned(w)).fits


@settings(max_examples=25, deadline=None)
@given(workloads())
def test_the_cheapest_fit_fits_and_needs_each_of_its_changes(w):
    fit = cheapest_fit(w)
    if fit is None:
        return
    assert fit.plan.fits
    levers = [lever for lever, _, _ in fit.steps if lever.name != "vllm" and not isinstance(lever, Follower)]
    for one in levers:
        fewer = w
        for lever in levers:
            fewer = lever.apply(fewer) if lever is not one else fewer
        assert fitting(fewer) is None, one.name


@pytest.mark.parametrize("name", bundled_names())
def test_every_model_plans_on_every_model_plans_on_every_gpu(name):
    for gpu in gpus().values():
        for changes in ({}, {"lora_rank": 16, "dtype": "bfloat16"}, {"vllm": "colocate", "count": 8, "sharding": "fsdp2"}):
            plan = make_plan(Workload(bundled_shape(name), gpu, **changes))
            assert plan.verdict in VERDICTS and math.isfinite(plan.deciding.peak)


def test_levers_do_what_they_are_for():
    w = Workload(bundled_shape("Qwen/Qwen2.5-7B-Instruct"), find_gpu("h100"), accumulation=2, vllm="colocate", context=1024)
    peak = {p.name: p.peak for p in estimate(w).phases}

    def after(**changes) -> dict[str, float]:
        return {p.name: p.peak for p in estimate(w.but(**changes)).phases}

    assert after(sleep=True)["training step"] < peak["training step"] and after(sleep=True)["rollout"] == peak["rollout"]
    assert after(beta=0.1)["rollout"] - peak["rollout"] == pytest.approx(4 * w.shape.parameters)
    assert after(optimizer="adamw_8bit")["rollout"] < peak["rollout"]
    assert after(lora_rank=16)["training step"] < 0.5 * peak["training step"]
    assert after(checkpointing=False)["training step"] > peak["training step"]
    assert after(count=8, sharding="fsdp2")["training step"] < 0.5 * peak["training step"]
    assert after(count=8, sharding="ddp")["training step"] > peak["training step"]
    assert after(era=ERAS[0])["training step"] > peak["training step"]
