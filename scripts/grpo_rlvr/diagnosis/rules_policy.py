"""Rules about the update: step size, clipping, entropy, the distance to the reference and between sampler and trainer."""

from __future__ import annotations

from collections.abc import Mapping

from grpo_rlvr.diagnosis.findings import Evidence, Rule, Seen, level, moved
from grpo_rlvr.diagnosis.run import Run
from grpo_rlvr.diagnosis.series import quantile

RATIO, GAP = "sampling/importance_sampling_ratio/mean", "sampling/sampling_logp_difference/mean"
CLIP = "clip_ratio/region_mean"


def _ratio_mismatch(run: Run, at: Mapping[str, float]) -> Seen | None:
    ratio, gap = run.series(RATIO), run.series(GAP)
    off = len(ratio) > 0 and not at["low"] <= ratio.late.mean <= at["high"]
    wide = len(gap) > 0 and gap.late.mean > at["gap"]
    if not off and not wide:
        return None
    seen = Seen([moved(s, n) for s, n in ((ratio, RATIO), (gap, GAP)) if len(s)], "high" if off or gap.late.mean > 2 * at["gap"] else "medium")
    length = run.series("completions/mean_length")
    if len(gap) and len(length) and gap.late.mean * length.late.mean > 1:
        seen.evidence.append(
            Evidence("completions/mean_length", f"{length.late.mean:.0f} tokens x {gap.late.mean:.3g} nats: up to e^{gap.late.mean * length.late.mean:.1f} a completion; the longest are masked most")
        )  # fmt: skip
    drift = (len(gap) >= 8 and gap.rose(0.5 * gap.early.mean)) or (len(ratio) >= 8 and (ratio.fell(0.03) or ratio.rose(0.03)))
    patch: dict = {}
    if drift:
        seen.cause = (
            "the gap grows: the sampler runs on old weights (a sync that does not arrive, sleep mode, adapters that are not merged or count"
            " twice), or LoRA merges into a bf16 base and rounds it"
        )
        seen.remedy = "compare vLLM's and the trainer's log-probabilities after the first update; float32 base under LoRA, no sleep mode, a fresh sync"
        seen.since = (gap if len(gap) >= 8 else ratio).first_step(lambda v: v > at["gap"] if len(gap) >= 8 else not at["low"] <= v <= at["high"])
        if run.lora:
            patch["model.dtype"] = "float32"
    else:
        seen.cause = (
            "the gap is there from the first step: settings, not drift. Sampling that is cut (top_p, top_k, min_p), a temperature that only"
            " one side knows, another dtype, quantisation or kernels"
        )
        cut = {k: v for k, v in (("top_p", 1.0), ("top_k", 0), ("min_p", None)) if run.known and run.settings.get(k) not in (None, 1.0, 1, 0, -1)}
        patch = {f"grpo.{k}": v for k, v in cut.items()}
        if cut:
            seen.evidence.append(Evidence("settings", ", ".join(f"{k} {run.settings[k]}" for k in cut)))
        if run.known and run.setting("temperature") != 1.0:
            seen.evidence.append(Evidence("settings", f"temperature {run.setting('temperature'):g}: the server must return processed log-probabilities"))
            patch["grpo.temperature"] = 1.0
    if run.setting("vllm_importance_sampling_mode") == "sequence_mask" and not patch:
        patch["grpo.vllm_importance_sampling_mode"] = "token_truncate"
    seen.patch = patch
    return seen


def _gradient_zero(run: Run, at: Mapping[str, float]) -> Seen | None:
    gradient = run.series("grad_norm")
    late = gradient.late.values
    if sum(v <= at["zero"] for v in late) < at["share"] * len(late):
        return None
    return Seen([level(gradient, "grad_norm"), *([moved(run.reward, "reward")] if len(run.reward) else [])], since=gradient.first_step(lambda v: v <= at["zero"]))


def _gradient_explosion(run: Run, at: Mapping[str, float]) -> Seen | None:
    gradient = run.series("grad_norm")
    usual = gradient.part(0, 0.5).median
    grown = gradient.late.median > at["times"] * usual and gradient.late.median > at["least"]
    wild = quantile(gradient.late.values, 0.9) > at["spike"] * max(usual, 1e-9) and quantile(gradient.late.values, 0.9) > at["least"]
    infinite = [s for s, v in run.log.nonfinite("grad_norm") if v == v]
    if not grown and not wild and len(infinite) < 3:
        return None
    since = gradient.first_step(lambda v: v > at["times"] * usual) if grown else (infinite[0] if infinite else None)
    seen = Seen([Evidence("grad_norm", f"median {usual:.3g} in the first half -> {gradient.late.median:.3g} in the last fifth, up to {gradient.max:.3g}",
                          gradient.steps[0], gradient.steps[-1])], "high" if grown else "medium", since)  # fmt: skip
    if infinite:
        seen.evidence.append(Evidence("grad_norm", f"infinite in {len(infinite)} lines", infinite[0], infinite[-1]))
    seen.patch = {"grpo.learning_rate": _half(run), **({"grpo.max_grad_norm": 1.0} if run.setting("max_grad_norm") not in (1.0, 0.5) else {})}
    return seen


def _half(run: Run):
    rate = max(run.series("learning_rate").values, default=0.0) or (run.setting("learning_rate") if run.known else 0.0)
    return float(f"{rate / 2:.2g}") if rate else "half of the present rate"


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
    seen = Seen([Evidence("reward" if target is run.reward else "correctness", f"peak {peak:.3g} at step {top_at} -> {target.late.mean:.3g} in the last fifth",
                          top_at, target.steps[-1])], since=top_at)  # fmt: skip
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
    seen = Seen([moved(reward, "reward"), *(moved(run.series(n), n) for n in ("entropy", "completions/mean_length") if len(run.series(n)) >= 8)], "low")
    rate = run.series("learning_rate")
    highest = rate.max if len(rate) else (run.setting("learning_rate") if run.known else None)
    model = run.config.get("model")
    dtype = model.get("dtype") if isinstance(model, dict) else None
    if highest is not None:
        seen.evidence.append(Evidence("learning_rate", f"at most {highest:.3g}"))
        if run.lora and highest < at["lora"]:
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


def _kl_spike(run: Run, at: Mapping[str, float]) -> Seen | None:
    kl = run.series("kl")
    usual = kl.median
    spikes = [(s, v) for s, v in zip(kl.steps, kl.values, strict=True) if v > at["least"] and v > at["times"] * max(usual, 1e-3)]
    if not spikes:
        return None
    step, value = max(spikes, key=lambda p: p[1])
    return Seen([Evidence("kl", f"{value:.3g} at step {step}, median {usual:.3g}; {len(spikes)} such lines", spikes[0][0], spikes[-1][0])],
                "high" if len(spikes) > 1 else "medium", spikes[0][0], patch={"grpo.learning_rate": _half(run)})  # fmt: skip


def _kl_drift(run: Run, at: Mapping[str, float]) -> Seen | None:
    kl = run.series("kl")
    if kl.late.mean < at["level"] or not kl.rose(at["level"] / 2):
        return None
    beta = run.setting("beta") if run.known else None
    patch = {"grpo.beta": float(f"{max(0.001, 2 * beta):.2g}")} if beta else {"grpo.beta": "twice the present value"}
    return Seen([moved(kl, "kl"), *([moved(run.reward, "reward")] if len(run.reward) else [])], "medium", kl.first_step(lambda v: v >= at["level"]), patch=patch)


def _clip_always(run: Run, at: Mapping[str, float]) -> Seen | None:
    clip = run.series(CLIP)
    sequence = run.known and run.setting("importance_sampling_level") == "sequence"
    # The narrow bounds of the sequence level (3e-4) clip most of what they see in good runs too.
    if sequence or clip.late.mean < at["share"]:
        return None
    seen = Seen([moved(clip, CLIP)], since=clip.first_step(lambda v: v >= at["share"]))
    used = run.setting("num_iterations") if run.known else None
    seen.patch = {"grpo.num_iterations": max(1, used // 2)} if used and used > 1 else {"grpo.learning_rate": _half(run)}
    return seen


def _clip_never(run: Run, at: Mapping[str, float]) -> Seen | None:
    clip = run.series(CLIP)
    if not run.known or run.on_policy is not False or run.setting("use_vllm") or clip.max > 0 or len(clip) < at["lines"]:
        return None
    if not len(run.reward) or abs(run.reward.change) > max(0.02 * run.ceiling, 1.5 * run.reward.noise):
        return None
    used = f"num_iterations {run.setting('num_iterations')}, steps_per_generation {run.setting('steps_per_generation')}"
    return Seen([Evidence(CLIP, f"0 in all {len(clip)} lines"), Evidence("settings", f"{used}: a batch is used for several updates"), moved(run.reward, "reward")],
                "low", patch={"grpo.learning_rate": _double(run)})  # fmt: skip


def _double(run: Run):
    rate = max(run.series("learning_rate").values, default=0.0)
    return float(f"{2 * rate:.2g}") if rate else "twice the present rate"


def _entropy_collapse(run: Run, at: Mapping[str, float]) -> Seen | None:
    entropy, dead, spread = (run.series(n) for n in ("entropy", "frac_reward_zero_std", "reward_std"))
    low = entropy.late.mean < at["level"]
    if not low or run.solved >= at["solved"] or run.still_rising:
        return None
    alike = dead.late.mean >= at["dead"] if len(dead) else (spread.late.mean < 0.5 * spread.early.mean if len(spread) >= 8 else None)
    if alike is False:
        return None
    cold = entropy.early.mean < at["level"]
    seen = Seen([moved(entropy, "entropy")], "high" if alike else "medium", entropy.first_step(lambda v: v < at["level"]))
    if len(dead):
        seen.evidence.append(moved(dead, "frac_reward_zero_std"))
    elif len(spread):
        seen.evidence.append(moved(spread, "reward_std"))
    temperature = run.setting("temperature")
    if cold:
        seen.cause = "entropy is near 0 from the first step: the temperature is too low, or the model was trained on one answer only"
        seen.remedy = "sample at temperature 1.0; if it is that already, the model has no second answer to compare: train from an earlier checkpoint"
        if run.known and temperature < 0.7:
            seen.evidence.append(Evidence("settings", f"temperature {temperature:g}"))
        seen.patch = {"grpo.temperature": 1.0}
        return seen
    length = run.series("completions/mean_length")
    seen.patch = {"grpo.temperature": float(f"{min(1.2, temperature + 0.2):.2g}")}
    if (not len(length) or length.late.mean >= at["long"]) and run.on_policy is not True and run.setting("loss_type") in ("grpo", "dapo", "bnpo", "dr_grpo"):
        seen.variant = "dapo"
    elif run.on_policy:
        seen.evidence.append(Evidence("settings", "each batch is used for one update: a higher epsilon_high would do nothing here"))
    return seen


def _moe_routing(run: Run, at: Mapping[str, float]) -> Seen | None:
    balance, ratio, gap, clip = (run.series(n) for n in ("aux_loss", RATIO, GAP, CLIP))
    seen = []
    if balance.rose(at["rise"] * abs(balance.early.mean)):
        seen.append(moved(balance, "aux_loss"))
    if len(gap) >= 8 and gap.rose(0.5 * gap.early.mean) and gap.late.mean > 0.02:
        seen.append(moved(gap, GAP))
    if len(clip) >= 8 and clip.rose(at["clip"]):
        seen.append(moved(clip, CLIP))
    if not seen:
        return None
    if len(ratio):
        seen.append(moved(ratio, RATIO))
    answer = Seen(seen, "high" if len(seen) > 1 else "medium")
    if run.setting("importance_sampling_level") != "sequence" and run.on_policy is not True:
        answer.variant = "gspo"
    answer.patch = {"grpo.learning_rate": _half(run)}
    return answer


RULES = (
    Rule(
        "ratio_mismatch", "vLLM and the trainer disagree about probabilities", (f"{RATIO}|{GAP}",),
        "importance ratio outside {low} to {high}, or a mean gap above {gap} nats a token, over the last fifth", section="update",
        limits={"low": 0.9, "high": 1.1, "gap": 0.05},
        cause="another dtype, kernel, quantisation, sampling setting, or old weights in the sampler",
        remedy="same dtype on both sides, top_p 1, top_k 0, temperature 1; vllm_importance_sampling_mode token_truncate loses less of long completions",
        doubt="the gap is gone when 8 samples are scored by the trainer's own forward pass in float32: then it is vLLM's numerics",
        explains=("rate_without_effect", "clip_always", "dead_groups"), look=_ratio_mismatch,
    ),
    Rule(
        "gradient_zero", "The gradient is zero", ("grad_norm",), "grad_norm at most {zero} in {share} of the last fifth, and no other rule explains it",
        limits={"zero": 1e-7, "share": 0.9}, section="update",
        cause="nothing is trainable: a PEFT model that was loaded with is_trainable=False, frozen layers, or rewards that cancel to a constant",
        remedy="print the trainable parameters; load adapters with is_trainable=True; check that the rewards' weighted sum differs within a group",
        doubt="frac_reward_zero_std is 1: then it is the rewards, not the model", explains=("rate_without_effect",), look=_gradient_zero,
    ),
    Rule(
        "gradient_explosion", "The gradient explodes", ("grad_norm",),
        "median of the last fifth above {times} times that of the first half, or a tenth of it above {spike} times, and above {least}; or infinite in 3 lines",
        limits={"times": 10, "spike": 50, "least": 5}, section="update",
        cause="the rate is too high, the advantages are huge (a reward without bounds, groups that are nearly all alike), or gradients are not clipped",
        remedy="halve the learning rate, keep max_grad_norm at 1, keep rewards within [0, 1]",
        doubt="reward and entropy go on as before: clipped single spikes are harmless", look=_gradient_explosion,
    ),
    Rule(
        "rate_too_high", "The reward collapsed: learning rate too high", ("reward",),
        "correctness (or reward) fell from its smoothed peak by {share} of it, {least} of the maximum and beyond the noise; sure with an upheaval of"
        " gradient, entropy, length or KL", limits={"share": 0.4, "least": 0.1}, section="update",
        cause="updates throw the policy out of the region where it was right: learning rate too high, too few prompts a step, or too many updates a batch",
        remedy="go back to the checkpoint before the peak and train on with a tenth of the rate, or larger batches",
        doubt="the data changed at that step (a curriculum, a new epoch), or the verifier broke: read completions of before and after",
        look=_rate_too_high, explains=("kl_drift", "kl_spike", "entropy_collapse", "dead_groups", "clip_always", "length_growth", "nothing_solved", "hacking",
                                       "truncation", "gradient_zero", "gradient_explosion"),
    ),
    Rule(
        "kl_spike", "KL spikes", ("kl",), "a line above {least} and {times} times the median", limits={"least": 0.5, "times": 10}, section="update",
        cause="one update went far: a batch with extreme advantages, or a rate that is too high",
        remedy="halve the learning rate, clip gradients at 1; a single spike without a drop of the reward can be left alone",
        doubt="reward and entropy did not move at that step", look=_kl_spike,
    ),
    Rule(
        "kl_drift", "The policy drifts far from the reference", ("kl",), "kl at least {level} nats a token over the last fifth and risen by half of that",
        limits={"level": 0.5}, section="update",
        cause="beta is too small for the rate, or the reward pulls somewhere the reference never was, which is often a hack",
        remedy="read samples first; if they are good, leave it; if not, raise beta or lower the rate",
        doubt="held-out accuracy rises along with it", look=_kl_drift,
    ),
    Rule(
        "clip_always", "Most of the update is clipped", (CLIP,),
        "clip_ratio/region_mean at least {share} over the last fifth (not at sequence level, where good runs clip more)",
        limits={"share": 0.3}, section="update",
        cause="batches are used too often or too late: the policy that learns is no longer the one that wrote them (stale policy), or the rate is too high",
        remedy="fewer num_iterations or steps_per_generation, or a lower rate",
        doubt="clip_ratio falls again while reward rises: then it was the warm-up", look=_clip_always,
    ),
    Rule(
        "moe_routing", "The experts' routing is unstable", ("aux_loss",),
        "auxiliary loss up by {rise} of itself, the gap between vLLM and trainer growing, or the clipped share up by {clip}", limits={"rise": 0.3, "clip": 0.1},
        section="update",
        cause="sampler and trainer choose different experts for the same token, so single token ratios jump; TRL has no routing replay",
        remedy="a ratio of whole completions (gspo) if batches are used for several updates, a lower rate, router_aux_loss_coef above 0",
        doubt="the gap stays level and only one metric moved", look=_moe_routing, least=12, explains=("clip_always", "ratio_mismatch"),
    ),
    Rule(
        "entropy_collapse", "Entropy collapsed: all completions are alike", ("entropy", "reward"),
        "entropy below {level} nats over the last fifth, {dead} of the groups without variance (or reward_std halved), below {solved} of what can be had"
        " and no longer rising",
        limits={"level": 0.05, "dead": 0.4, "solved": 0.85, "long": 200}, section="update",
        cause="the policy is certain before it is right: too many updates on the same prompts, a temperature below 1, clipping that holds back rare tokens",
        remedy="go back to a checkpoint with entropy; temperature 1.0 or a little above, harder prompts, fewer updates on the same data; with several"
        " updates a batch a higher epsilon_high (dapo)",
        doubt="completions/clipped_ratio is near 1 with masked truncation (entropy 0 is then an artefact), or the completions of a group still differ",
        look=_entropy_collapse, explains=("dead_groups", "gradient_zero", "rate_without_effect"),
    ),
    Rule(
        "rate_without_effect", "Nothing moves: the learning rate has no effect", ("reward", "entropy|completions/mean_length"),
        "after {steps} steps reward is within its noise, entropy and length within {still}, kl below {kl}; sure below rate {least} (LoRA {lora})",
        limits={"steps": 50, "still": 0.05, "kl": 1e-3, "least": 2e-7, "lora": 5e-6}, section="update",
        cause="the rate is too small, its warm-up is longer than the run, bf16 weights round the updates away, or the gradient is only noise",
        remedy="raise the learning rate by ten (adapters: 1e-5 to 1e-4), float32 weights, eight or more generations",
        doubt="reward rises beyond its noise in the next hundred steps: it was only slow", look=_rate_without_effect, least=20,
    ),
    Rule(
        "clip_never", "Clipping never acts although batches are reused", (CLIP, "reward"),
        "several updates a batch, clip ratio 0 in {lines} lines or more, reward within its noise", limits={"lines": 20}, section="update",
        cause="updates are so small that no ratio leaves the clip range: the rate is too low for reuse to matter",
        remedy="raise the learning rate, or save the time: num_iterations 1",
        doubt="reward rises: then there is nothing to mend", look=_clip_never, least=20,
    ),
)  # fmt: skip
