"""Rules about the size of the update: learning rate and gradient."""

from __future__ import annotations

from collections.abc import Mapping

from grpo_rlvr.diagnosis.findings import Evidence, Rule, Seen, level, moved
from grpo_rlvr.diagnosis.rates import half
from grpo_rlvr.diagnosis.run import Run
from grpo_rlvr.diagnosis.series import quantile


def _gradient_zero(run: Run, at: Mapping[str, float]) -> Seen | None:
    gradient = run.series("grad_norm")
    late = gradient.late.values
    if sum(v <= at["zero"] for v in late) < at["share"] * len(late):
        return None
    return Seen(
        [level(gradient, "grad_norm"), *([moved(run.reward, "reward")] if len(run.reward) else [])],
        since=gradient.first_step(lambda v: v <= at["zero"]),
    )


def _gradient_explosion(run: Run, at: Mapping[str, float]) -> Seen | None:
    gradient = run.series("grad_norm")
    usual = gradient.part(0, 0.5).median
    grown = gradient.late.median > at["times"] * usual and gradient.late.median > at["least"]
    wild = quantile(gradient.late.values, 0.9) > at["spike"] * max(usual, 1e-9) and quantile(gradient.late.values, 0.9) > at["least"]
    infinite = [s for s, v in run.log.nonfinite("grad_norm") if v == v]
    if not grown and not wild and len(infinite) < 3:
        return None
    since = gradient.first_step(lambda v: v > at["times"] * usual) if grown else (infinite[0] if infinite else None)
    text = f"median {usual:.3g} in the first half -> {gradient.late.median:.3g} in the last fifth, up to {gradient.max:.3g}"
    seen = Seen([Evidence("grad_norm", text, gradient.steps[0], gradient.steps[-1])], "high" if grown else "medium", since)
    if infinite:
        seen.evidence.append(Evidence("grad_norm", f"infinite in {len(infinite)} lines", infinite[0], infinite[-1]))
    seen.patch = {"grpo.learning_rate": half(run), **({"grpo.max_grad_norm": 1.0} if run.setting("max_grad_norm") not in (1.0, 0.5) else {})}
    return seen


def _rate_too_high(run: Run, at: Mapping[str, float]) -> Seen | None:
    target = run.correctness if len(run.correctness) >= 8 else run.reward
    audit = target is not run.reward and len(run.reward) >= 8 and run.reward.change > 0
    if audit or len(target) < 8:
        return None  # what is paid rises: that is no collapse but a reward with a hole
    peak = max(target.smooth.values)
    drop = peak - target.late.mean
    if drop < at["share"] * peak or drop < at["least"] * run.ceiling or drop < 3 * target.noise:
        return None
    top_at = target.smooth.steps[target.smooth.values.index(peak)]
    text = f"peak {peak:.3g} at step {top_at} -> {target.late.mean:.3g} in the last fifth"
    seen = Seen([Evidence("reward" if target is run.reward else "correctness", text, top_at, target.steps[-1])], since=top_at)
    signs = _upheaval(run, at)
    seen.evidence += signs
    if not any(e.metric in ("grad_norm", "entropy", "kl") for e in signs):
        seen.spares = ("truncation",)  # completions that grew into the limit explain the fall, not the other way round
    rate = run.series("learning_rate")
    if len(rate):
        seen.evidence.append(Evidence("learning_rate", f"up to {rate.max:.3g}"))
    seen.confidence = "high" if len(seen.evidence) > 1 + bool(len(rate)) else "medium"
    ten = rate.max / 10 if len(rate) else None
    seen.patch = {"grpo.learning_rate": float(f"{ten:.2g}") if ten else "a tenth of the present rate"}
    return seen


def _upheaval(run: Run, at: Mapping[str, float]) -> list[Evidence]:
    """Signs, beside the reward, that the policy was thrown out of its course."""
    seen = []
    gradient, entropy, length, kl = (run.series(n) for n in ("grad_norm", "entropy", "completions/mean_length", "kl"))
    if len(gradient) >= 8 and gradient.smooth.max > 3 * gradient.early.median + 1e-9:
        seen.append(moved(gradient, "grad_norm"))
    if len(entropy) >= 8 and (entropy.late.mean > 2 * entropy.early.mean + 0.05 or entropy.late.mean < 0.2 * entropy.early.mean):
        seen.append(moved(entropy, "entropy"))
    if len(length) >= 8 and not 0.6 < length.late.mean / max(1e-9, length.early.mean) < 1.67:
        seen.append(moved(length, "completions/mean_length"))
    if len(kl) and kl.max > 1:
        seen.append(Evidence("kl", f"up to {kl.max:.3g}"))
    return seen


def _rate_without_effect(run: Run, at: Mapping[str, float]) -> Seen | None:
    reward, dead, gradient = run.reward, run.series("frac_reward_zero_std"), run.series("grad_norm")
    if run.log.last_step < at["steps"] or run.solved > 0.9 or (len(dead) and dead.late.mean > 0.8) or len(reward) < 8:
        return None
    if (len(gradient) and gradient.late.median < 1e-6) or abs(reward.change) > max(0.02 * run.ceiling, 1.5 * reward.noise):
        return None
    for name in ("entropy", "completions/mean_length"):
        series = run.series(name)
        if len(series) >= 8 and abs(series.change) > max(at["still"] * abs(series.early.mean), 1.5 * series.noise):
            return None
    kl = run.series("kl")
    if len(kl) and kl.late.mean > at["kl"]:
        return None
    seen = Seen(
        [moved(reward, "reward"), *(moved(run.series(n), n) for n in ("entropy", "completions/mean_length") if len(run.series(n)) >= 8)], "low"
    )
    rate = run.series("learning_rate")
    highest = rate.max if len(rate) else (run.setting("learning_rate") if run.known else None)
    model = run.config.get("model")
    dtype = model.get("dtype") if isinstance(model, dict) else None
    wanted = run.setting("learning_rate") if run.known else None
    if highest is not None:
        seen.evidence.append(Evidence("learning_rate", f"at most {highest:.3g}"))
        if wanted and len(rate) and highest < wanted / 5 and rate.late.mean > 1.5 * rate.part(0.4, 0.6).mean:
            seen.confidence, seen.patch = "high", {"grpo.warmup_steps": 10}
            seen.cause = f"the rate still warms up: it never got beyond {highest:.3g} of the {wanted:.3g} that is set"
        elif run.lora and highest < at["lora"]:
            seen.confidence, seen.patch = "high", {"grpo.learning_rate": 1e-5}
            seen.cause = f"the rate is that of full tuning; adapters need ten times and more ({at['lora']:g} to 1e-4)"
        elif highest < at["least"]:
            seen.confidence, seen.patch = "high", {"grpo.learning_rate": 1e-6}
            seen.cause = f"the rate {highest:.3g} is below what moves a model in so many steps"
        elif dtype == "bfloat16" and not run.lora and highest < 1e-5:
            seen.confidence, seen.patch = "high", {"model.dtype": "float32"}
            seen.cause = "updates of bfloat16 weights below 1e-5 are rounded away (about 1% of the weights move at 5e-7)"
    if run.known and run.setting("num_generations") < 4:
        seen.evidence.append(Evidence("settings", f"num_generations {run.setting('num_generations')}: few groups hold a right and a wrong answer"))
        seen.patch = {**(seen.patch or {}), "grpo.num_generations": 8}
    return seen


RULES = (
    Rule(
        "gradient_zero",
        "The gradient is zero",
        ("grad_norm",),
        "grad_norm at most {zero} in {share} of the last fifth, and no other rule explains it",
        limits={"zero": 1e-7, "share": 0.9},
        section="update",
        cause="nothing is trainable: a PEFT model that was loaded with is_trainable=False, frozen layers, or rewards that cancel to a constant",
        remedy="print the trainable parameters; load adapters with is_trainable=True; check that the rewards' weighted sum differs within a group",
        doubt="frac_reward_zero_std is 1: then it is the rewards, not the model",
        explains=("rate_without_effect",),
        look=_gradient_zero,
    ),
    Rule(
        "gradient_explosion",
        "The gradient explodes",
        ("grad_norm",),
        "median of the last fifth above {times} times that of the first half, or a tenth of it above {spike} times, and above {least}; or infinite"
        " in 3 lines",
        limits={"times": 10, "spike": 50, "least": 5},
        section="update",
        cause="the rate is too high, the advantages are huge (a reward without bounds, groups that are nearly all alike), or gradients are not"
        " clipped",
        remedy="halve the learning rate, keep max_grad_norm at 1, keep rewards within [0, 1]",
        doubt="reward and entropy go on as before: clipped single spikes are harmless",
        look=_gradient_explosion,
    ),
    Rule(
        "rate_too_high",
        "The reward collapsed: learning rate too high",
        ("reward",),
        "correctness (or reward) fell from its smoothed peak by {share} of it, {least} of the maximum and beyond the noise; sure with an upheaval of"
        " gradient, entropy, length or KL",
        limits={"share": 0.4, "least": 0.1},
        section="update",
        cause="updates throw the policy out of the region where it was right: learning rate too high, too few prompts a step, or too many updates a"
        " batch",
        remedy="go back to the checkpoint before the peak and train on with a tenth of the rate, or larger batches",
        doubt="the data changed at that step (a curriculum, a new epoch), or the verifier broke: read completions of before and after",
        look=_rate_too_high,
        explains=(
            "kl_drift",
            "kl_spike",
            "entropy_collapse",
            "dead_groups",
            "clip_always",
            "length_growth",
            "nothing_solved",
            "hacking",
            "truncation",
            "gradient_zero",
            "gradient_explosion",
        ),
    ),
    Rule(
        "rate_without_effect",
        "Nothing moves: the learning rate has no effect",
        ("reward", "entropy|completions/mean_length"),
        "after {steps} steps reward is within its noise, entropy and length within {still}, kl below {kl}; sure below rate {least} (LoRA {lora})",
        limits={"steps": 50, "still": 0.05, "kl": 1e-3, "least": 2e-7, "lora": 5e-6},
        section="update",
        cause="the rate is too small, its warm-up is longer than the run, bf16 weights round the updates away, or the gradient is only noise",
        remedy="raise the learning rate by ten (adapters: 1e-5 to 1e-4), float32 weights, eight or more generations",
        doubt="reward rises beyond its noise in the next hundred steps: it was only slow",
        look=_rate_without_effect,
        least=40,
    ),
)
