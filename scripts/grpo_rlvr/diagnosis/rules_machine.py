"""Rules about time and memory."""

from __future__ import annotations

from collections.abc import Mapping

from grpo_rlvr.diagnosis.findings import Evidence, Rule, Seen
from grpo_rlvr.diagnosis.run import Run

REWARD_TIME = "reward_seconds/"


def _reward_slow(run: Run, at: Mapping[str, float]) -> Seen | None:
    scored, rolled = run.series("share_reward"), run.series("share_rollout")
    if len(scored) and len(rolled):
        if scored.median < max(at["part"], rolled.median):
            return None
        return Seen([Evidence("share_reward", f"{scored.median:.0%} of a step's time, the rollout {rolled.median:.0%} (medians)"), *_slowest(run)])
    step = run.step_s
    parts = {name[len(REWARD_TIME) :]: run.series(name) for name in run.log.columns if name.startswith(REWARD_TIME)}
    medians = {name: series.median for name, series in parts.items() if len(series)}
    if not step or not medians:
        return None
    # The skill's trainer scores all rewards at the same time, TRL one after the other.
    total = max(medians.values()) if run.log.kind == "run folder" else sum(medians.values())
    if total < at["share"] * step or total < at["least_s"]:
        return None
    slowest = max(medians, key=medians.get)
    return Seen(
        [
            Evidence(
                f"reward {slowest}", f"{medians[slowest]:.2f} s a batch; rewards take {total:.2f} s of a step of {step:.2f} s ({total / step:.0%})"
            )
        ]
    )


def _slowest(run: Run) -> list[Evidence]:
    medians = {name: run.series(name).median for name in run.log.columns if name.startswith(REWARD_TIME) and len(run.series(name))}
    name = max(medians, key=medians.get, default=None)
    return [Evidence(f"reward {name[len(REWARD_TIME) :]}", f"{medians[name]:.2f} s a batch, the slowest")] if name else []


def _memory_creep(run: Run, at: Mapping[str, float]) -> Seen | None:
    memory = run.series("gpu_used_gb" if len(run.series("gpu_used_gb")) >= 30 else "mem_gb")
    if len(memory) < 30:
        return None
    thirds = [memory.part(a, a + 0.1).median for a in (0.3, 0.6, 0.9)]
    grown = thirds[2] / max(1e-9, thirds[0]) - 1
    if grown < at["share"] or thirds[1] / max(1e-9, thirds[0]) - 1 < at["share"] / 4 or thirds[2] / max(1e-9, thirds[1]) - 1 < at["share"] / 4:
        return None
    per_step = (thirds[2] - thirds[0]) / max(1, 0.6 * (memory.steps[-1] - memory.steps[0]))
    text = f"{thirds[0]:.2f} -> {thirds[1]:.2f} -> {thirds[2]:.2f} GB at 30%, 60% and 90% of the run ({1000 * per_step:.1f} MB a step)"
    return Seen([Evidence("memory", text, memory.steps[0], memory.steps[-1])], "medium")


RULES = (
    Rule(
        "reward_slow",
        "The reward is slower than the rollout",
        ("step_time", "reward_seconds/<name>|profiling|share_reward"),
        "rewards take longer than the rollout and {part} of the step; where the rollout is not timed: {share} of the step, and {least_s} s or more"
        " (medians)",
        limits={"part": 0.3, "share": 0.5, "least_s": 0.2},
        section="machine",
        least=3,
        cause="verification waits: a sandbox that starts anew, a judge over the network, a slow parser",
        remedy="more workers or a higher concurrency, cache by completion, a shorter time limit, a cheaper check first",
        doubt="the machine was busy with something else",
        look=_reward_slow,
    ),
    Rule(
        "memory_creep",
        "Memory creeps up",
        ("mem_gb|gpu_used_gb",),
        "peak memory at 90% of the run {share} above that at 30%, and still rising between 30, 60 and 90%",
        limits={"share": 0.1},
        section="machine",
        least=30,
        cause="something keeps references (a reward that collects completions, metrics with graphs), longer completions, or a fragmented allocator",
        remedy="PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True, no lists that grow in rewards, a limit on the length; resume from a checkpoint"
        " meanwhile",
        doubt="completions grew by as much: then it is their cache",
        look=_memory_creep,
    ),
)
