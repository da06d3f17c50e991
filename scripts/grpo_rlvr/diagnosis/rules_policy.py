"""Rules about the policy: its entropy, its distance to the reference, the clipping of its ratios."""

from __future__ import annotations

from collections.abc import Mapping

from grpo_rlvr.diagnosis.findings import Evidence, Rule, Seen, moved
from grpo_rlvr.diagnosis.rates import double, half
from grpo_rlvr.diagnosis.run import Run

CLIP = "clip_ratio/region_mean"


def _kl_spike(run: Run, at: Mapping[str, float]) -> Seen | None:
    kl = run.series("kl")
    usual = kl.median
    spikes = [(s, v) for s, v in zip(kl.steps, kl.values, strict=True) if v > at["least"] and v > at["times"] * max(usual, 1e-3)]
    if not spikes:
        return None
    step, value = max(spikes, key=lambda p: p[1])
    return Seen(
        [Evidence("kl", f"{value:.3g} at step {step}, median {usual:.3g}; {len(spikes)} such lines", spikes[0][0], spikes[-1][0])],
        "high" if len(spikes) > 1 else "medium",
        spikes[0][0],
        patch={"grpo.learning_rate": half(run)},
    )


def _kl_drift(run: Run, at: Mapping[str, float]) -> Seen | None:
    kl = run.series("kl")
    if kl.late.mean < at["level"] or not kl.rose(at["level"] / 2):
        return None
    beta = run.setting("beta") if run.known else None
    patch = {"grpo.beta": float(f"{max(0.001, 2 * beta):.2g}")} if beta else {"grpo.beta": "twice the present value"}
    return Seen(
        [moved(kl, "kl"), *([moved(run.reward, "reward")] if len(run.reward) else [])],
        "medium",
        kl.first_step(lambda v: v >= at["level"]),
        patch=patch,
    )


def _clip_always(run: Run, at: Mapping[str, float]) -> Seen | None:
    clip = run.series(CLIP)
    sequence = run.known and run.setting("importance_sampling_level") == "sequence"
    # The narrow bounds of the sequence level (3e-4) clip most of what they see in good runs too.
    if sequence or clip.late.mean < at["share"]:
        return None
    seen = Seen([moved(clip, CLIP)], since=clip.first_step(lambda v: v >= at["share"]))
    used = run.setting("num_iterations") if run.known else None
    seen.patch = {"grpo.num_iterations": max(1, used // 2)} if used and used > 1 else {"grpo.learning_rate": half(run)}
    return seen


def _clip_never(run: Run, at: Mapping[str, float]) -> Seen | None:
    clip = run.series(CLIP)
    if not run.known or run.on_policy is not False or clip.max > 0 or len(clip) < at["lines"]:
        return None
    if not len(run.reward) or abs(run.reward.change) > max(0.02 * run.ceiling, 1.5 * run.reward.noise):
        return None
    used = f"num_iterations {run.setting('num_iterations')}, steps_per_generation {run.setting('steps_per_generation')}"
    settings = Evidence("settings", f"{used}: a batch is used for several updates")
    return Seen(
        [Evidence(CLIP, f"0 in all {len(clip)} lines"), settings, moved(run.reward, "reward")], "low", patch={"grpo.learning_rate": double(run)}
    )


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
    if (
        (not len(length) or length.late.mean >= at["long"])
        and run.on_policy is not True
        and run.setting("loss_type") in ("grpo", "dapo", "bnpo", "dr_grpo")
        and run.setting("importance_sampling_level") == "token"
    ):
        seen.variant = "dapo"
    elif run.on_policy:
        seen.evidence.append(Evidence("settings", "each batch is used for one update: a higher epsilon_high would do nothing here"))
    return seen


RULES = (
    Rule(
        "kl_spike",
        "KL spikes",
        ("kl",),
        "a line above {least} and {times} times the median",
        limits={"least": 0.5, "times": 10},
        section="update",
        cause="one update went far: a batch with extreme advantages, or a rate that is too high",
        remedy="halve the learning rate, clip gradients at 1; a single spike without a drop of the reward can be left alone",
        doubt="reward and entropy did not move at that step",
        look=_kl_spike,
    ),
    Rule(
        "kl_drift",
        "The policy drifts far from the reference",
        ("kl",),
        "kl at least {level} nats a token over the last fifth and risen by half of that",
        limits={"level": 0.5},
        section="update",
        cause="beta is too small for the rate, or the reward pulls somewhere the reference never was, which is often a hack",
        remedy="read samples first; if they are good, leave it; if not, raise beta or lower the rate",
        doubt="held-out accuracy rises along with it",
        look=_kl_drift,
    ),
    Rule(
        "clip_always",
        "Most of the update is clipped",
        (CLIP,),
        "clip_ratio/region_mean at least {share} over the last fifth (not at sequence level, where good runs clip more)",
        limits={"share": 0.3},
        section="update",
        cause="batches are used too often or too late: the policy that learns is no longer the one that wrote them (stale policy), or the rate is"
        " too high",
        remedy="fewer num_iterations or steps_per_generation, or a lower rate",
        doubt="clip_ratio falls again while reward rises: then it was the warm-up",
        look=_clip_always,
    ),
    Rule(
        "clip_never",
        "Clipping never acts although batches are reused",
        (CLIP, "reward"),
        "several updates a batch, clip ratio 0 in {lines} lines or more, reward within its noise",
        limits={"lines": 20},
        section="update",
        cause="updates are so small that no ratio leaves the clip range: the rate is too low for reuse to matter",
        remedy="raise the learning rate, or save the time: num_iterations 1",
        doubt="reward rises: then there is nothing to mend",
        look=_clip_never,
        least=20,
    ),
    Rule(
        "entropy_collapse",
        "Entropy collapsed: all completions are alike",
        ("entropy", "reward"),
        "entropy below {level} nats over the last fifth, {dead} of the groups without variance (or reward_std halved), below {solved} of what can"
        " be had"
        " and no longer rising",
        limits={"level": 0.05, "dead": 0.4, "solved": 0.85, "long": 200},
        section="update",
        cause="the policy is certain before it is right: too many updates on the same prompts, a temperature below 1, clipping that holds back rare"
        " tokens",
        remedy="go back to a checkpoint with entropy; temperature 1.0 or a little above, harder prompts, fewer updates on the same data; with several"
        " updates a batch a higher epsilon_high (dapo)",
        doubt="completions/clipped_ratio is near 1 with masked truncation (entropy 0 is then an artefact), or the completions of a group still"
        " differ",
        look=_entropy_collapse,
        explains=("dead_groups", "gradient_zero", "rate_without_effect"),
    ),
)
