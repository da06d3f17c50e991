"""Rules about the signal: whether there is anything in the rewards that a gradient can be made of."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from grpo_rlvr.diagnosis.findings import Evidence, Rule, Seen, level, moved
from grpo_rlvr.diagnosis.run import Run

DEAD = "frac_reward_zero_std"
CUT = "completions/clipped_ratio"


def _all_masked(run: Run, at: Mapping[str, float]) -> Seen | None:
    cut, gradient, entropy = run.series(CUT), run.series("grad_norm"), run.series("entropy")
    if cut.late.mean < at["cut"]:
        return None
    masked = run.setting("mask_truncated_completions") if run.known else None
    nothing_left = len(gradient) and gradient.late.max <= at["zero"] and (not len(entropy) or entropy.late.max <= at["zero"])
    if masked is False or not (masked or nothing_left):
        return None
    seen = [level(cut, CUT)]
    if len(gradient):
        seen.append(level(gradient, "grad_norm"))
    if len(entropy):
        seen.append(Evidence("entropy", f"{entropy.late.mean:.3g}: an artefact of the mask, no collapse"))
    return Seen(seen, since=cut.first_step(lambda v: v >= at["cut"]), patch={"grpo.mask_truncated_completions": False, **_longer(run)})


def _truncation(run: Run, at: Mapping[str, float]) -> Seen | None:
    cut = run.series(CUT)
    if cut.late.mean < at["share"]:
        return None
    seen = Seen([moved(cut, CUT)], "high" if cut.late.mean >= at["sure"] else "medium", cut.first_step(lambda v: v >= at["share"]))
    ended, length = run.series("completions/mean_terminated_length"), run.series("completions/mean_length")
    if len(length):
        seen.evidence.append(level(length, "completions/mean_length"))
    if cut.late.mean >= at["all"]:
        if len(ended):
            seen.evidence.append(level(ended, "completions/mean_terminated_length"))
        seen.cause = (
            "either the limit is below what an answer needs, or the model never writes its end token: a base model, a prompt without the"
            " chat template, special tokens that were stripped, missing stop strings. The log alone cannot tell the two apart"
        )
        seen.remedy = (
            "generate 100 completions with a limit four times as high. If their 95th percentile lies below it, set max_completion_length there;"
            " if all are cut again, mend the prompt (chat messages, template, stop strings) and check that the last token of 10 samples is the"
            " end token"
        )
    elif cut.rose(at["share"] / 2) and len(length) and length.rose(0.1 * length.early.mean):
        seen.cause = "completions grew into the limit; cut answers score as wrong, which punishes long reasoning"
    seen.patch = _longer(run)
    return seen


def _longer(run: Run) -> dict[str, Any]:
    limit = run.setting("max_completion_length")
    return {"grpo.max_completion_length": 2 * limit if run.known and limit else "twice the present limit, or the measured 95th percentile"}


def _none_rising(run: Run, at: Mapping[str, float]) -> Seen | None:
    dropped = run.series("dropped_share")
    if len(dropped) >= 8 and dropped.late.mean >= at["share"]:
        rising = dropped.rose(at["share"])
        return Seen([moved(dropped, "dropped_share")], "high" if rising or dropped.late.mean > 0.2 else "medium", _since(dropped, at["share"]))
    worst = max(run.log.nulls.items(), key=lambda kv: kv[1] if kv[0].startswith("reward") else 0, default=("", 0))
    share = worst[1] / max(1, len(run.log.steps))
    if worst[0].startswith("reward") and share >= at["share"] and worst[1] >= 3:
        return Seen([Evidence(worst[0], f"without a value in {worst[1]} of {len(run.log.steps)} lines")])
    return None


def _since(series, limit: float) -> int | None:
    return series.first_step(lambda v: v >= limit)


def _dead_late(run: Run) -> float | None:
    dead, spread = run.series(DEAD), run.series("reward_std")
    if len(dead):
        return dead.late.mean
    return float(spread.late.max <= 1e-6) if len(spread) else None


def _nothing_solved(run: Run, at: Mapping[str, float]) -> Seen | None:
    correct = run.correctness
    named = correct is not run.reward
    if not len(correct) or max(correct.smooth.values) > at["share"] * (1 if named else run.ceiling):
        return None
    name = next((f"rewards/{n}/mean" for n in run.rewards_of("correct") if run.mean_of(n) is correct), "reward")
    seen = Seen([Evidence(name, f"never above {correct.max:.3g} in {len(correct)} lines", correct.steps[0], correct.steps[-1])])
    dead = run.series(DEAD)
    if len(dead):
        seen.evidence.append(level(dead, DEAD))
    gradient, kl = run.series("grad_norm"), run.series("kl")
    if len(dead) and dead.late.mean > 0.9 and len(gradient) and gradient.late.mean > 1e-6 and len(kl):
        seen.evidence.append(Evidence("grad_norm", f"{gradient.late.mean:.3g}: of the KL term alone; it trains back to the reference"))
    seen.confidence = "high" if len(correct) >= 20 else "medium"
    return seen


def _all_solved(run: Run, at: Mapping[str, float]) -> Seen | None:
    reward, dead = run.reward, _dead_late(run)
    top = at["share"] * run.ceiling
    if not len(reward) or dead is None or dead < at["dead"] or reward.early.mean < top or reward.late.mean < top:
        return None
    return Seen(
        [moved(reward, "reward"), level(run.series(DEAD), DEAD) if len(run.series(DEAD)) else Evidence("reward_std", "0")], since=reward.steps[0]
    )


def _identical(run: Run, at: Mapping[str, float]) -> Seen | None:
    dead, entropy, reward = run.series(DEAD), run.series("entropy"), run.reward
    if dead.mean < at["dead"] or entropy.mean < at["entropy"] or not len(reward):
        return None
    varies = reward.max - reward.min
    if not (0.05 * run.ceiling < reward.mean < 0.95 * run.ceiling) or varies < 0.02 * run.ceiling:
        return None
    return Seen([level(dead, DEAD), level(entropy, "entropy"), Evidence("reward", f"between {reward.min:.3g} and {reward.max:.3g}")], "medium")


def _dead_groups(run: Run, at: Mapping[str, float]) -> Seen | None:
    dead = run.series(DEAD)
    if dead.late.mean < at["share"] or run.solved >= at["solved"]:
        return None
    if dead.fell(0.03, 2) and run.reward.rose(0.02 * run.ceiling, 2):
        return None  # a hard task that is being learned
    rising = dead.rose(at["rise"])
    seen = Seen([moved(dead, DEAD)], "high" if rising else "medium", _since(dead, at["share"]))
    if len(run.reward):
        seen.evidence.append(moved(run.reward, "reward"))
    kl, gradient = run.series("kl"), run.series("grad_norm")
    if dead.late.mean > 0.9 and len(kl) and kl.late.mean > 0 and len(gradient) and gradient.late.mean > 1e-6:
        seen.evidence.append(Evidence("grad_norm", f"{gradient.late.mean:.3g}, of the KL term: no proof of a reward signal"))
    if run.known and run.setting("num_generations") < 8:
        seen.patch = {"grpo.num_generations": 8}
    return seen


RULES = (
    Rule(
        "all_masked",
        "Every completion is cut and masked: nothing is left in the loss",
        (CUT, "grad_norm|entropy"),
        "clipped_ratio at least {cut} over the last fifth, and mask_truncated_completions on (or gradient and entropy exactly 0)",
        limits={"cut": 0.99, "zero": 1e-7},
        section="signal",
        cause="mask_truncated_completions takes cut completions out of the loss, and all of them are cut. Entropy 0 is then an artefact, not"
        " collapse",
        remedy="raise max_completion_length above the measured 95th percentile, and turn the mask off until few completions are cut",
        doubt="completions/clipped_ratio falls below 0.9 and gradient and entropy come back",
        explains=("truncation", "gradient_zero", "entropy_collapse", "dead_groups", "nothing_solved", "rate_without_effect", "length_growth"),
        look=_all_masked,
    ),
    Rule(
        "truncation",
        "Completions are cut at max_completion_length",
        (CUT,),
        "clipped_ratio at least {share} over the last fifth (sure from {sure})",
        limits={"share": 0.25, "sure": 0.5, "all": 0.99},
        section="signal",
        cause="answers are longer than max_completion_length: they are scored without their end, so nearly always as wrong",
        remedy="measure the length of 100 free generations and set max_completion_length above their 95th percentile, or ask for shorter answers",
        doubt="cut completions score as well as whole ones",
        look=_truncation,
        explains=("nothing_solved", "dead_groups", "gradient_zero", "rate_without_effect", "length_growth", "all_solved", "entropy_collapse"),
    ),
    Rule(
        "none_rising",
        "Completions that no reward can score",
        ("dropped_share|reward",),
        "at least {share} of the completions dropped over the last fifth, or a reward without a value in {share} of the lines",
        limits={"share": 0.05},
        section="signal",
        cause="the verifier dies or runs out of time, or golds cannot be read; such completions teach nothing, and what remains is not a fair sample",
        remedy="look at the warnings of the reward (which row, which error), mend the golds, give the verifier more time or fewer at once",
        doubt="all the dropped completions are of a few rows: delete those rows",
        look=_none_rising,
        explains=("gradient_zero", "dead_groups", "rate_without_effect", "hacking", "format_only"),
    ),
    Rule(
        "nothing_solved",
        "Nothing is ever solved",
        ("reward",),
        "the correctness reward (or, without one, the whole reward) never above {share} of its maximum, smoothed",
        limits={"share": 0.02},
        section="signal",
        cause="either the reward cannot see a right answer (wrong tag, wrong gold column, wrong template) or the task is beyond the model",
        remedy="read 20 completions. If right answers score 0, mend the reward; if there are none, train on worked examples first (SFT) or bring"
        " easier prompts: `inspect_rewards.py run` says which",
        doubt="one completion in some hundred is right: then more generations a prompt can still find it",
        explains=("dead_groups", "gradient_zero", "rate_without_effect", "entropy_collapse", "clip_never"),
        look=_nothing_solved,
    ),
    Rule(
        "all_solved",
        "All is solved from the start",
        ("reward", f"{DEAD}|reward_std"),
        "reward at least {share} of its maximum from the first sixth on, and at least {dead} of the groups without variance",
        limits={"share": 0.95, "dead": 0.8},
        section="signal",
        cause="the prompts are too easy, or the reward pays everybody (form only, a default, a hole)",
        remedy="read 20 completions: if they are right, bring harder prompts (`inspect_rewards.py run config.yaml --keep-band 0.2 0.8`); if not,"
        " mend the reward",
        doubt="held-out accuracy is far below the reward",
        explains=("dead_groups", "gradient_zero", "rate_without_effect", "format_only", "entropy_collapse"),
        look=_all_solved,
    ),
    Rule(
        "identical_groups",
        "The completions of a group are copies of one another",
        (DEAD, "entropy", "reward"),
        "at least {dead} of all groups without variance, while entropy is above {entropy} and the reward differs from step to step",
        limits={"dead": 0.95, "entropy": 0.3},
        section="signal",
        cause="the samples of a group are the same: every process generates with the same seed, or a cache answers",
        remedy="compare the completions of one prompt in the table of completions; update vLLM and TRL, or give each rank a seed of its own",
        doubt="the completions differ and only their scores agree: then it is dead groups",
        look=_identical,
        explains=("dead_groups", "gradient_zero", "rate_without_effect"),
    ),
    Rule(
        "dead_groups",
        "Most groups teach nothing",
        (DEAD, "reward"),
        "at least {share} of the groups without variance over the last fifth, below {solved} of what can be had (sure if it rose by {rise})",
        limits={"share": 0.6, "rise": 0.2, "solved": 0.85},
        section="signal",
        cause="prompts are solved always or never, so a group has nothing to compare",
        remedy="keep prompts that are solved sometimes (`inspect_rewards.py run config.yaml --keep-band 0.2 0.8`), enlarge num_generations, or pay"
        " for partial success. TRL has no dynamic sampling",
        doubt="the pass rate by prompt shows many prompts between 0.2 and 0.8",
        look=_dead_groups,
        explains=("gradient_zero", "rate_without_effect"),
    ),
)
