"""Rules about what the reward really pays for: form, length, or a hole that only held-out accuracy sees."""

from __future__ import annotations

import math
from collections.abc import Mapping

from grpo_rlvr.diagnosis.findings import Evidence, Rule, Seen, moved
from grpo_rlvr.diagnosis.run import Run
from grpo_rlvr.diagnosis.series import Series, detrended_correlation

LENGTH = "completions/mean_length"


FEWEST = 30  # lines before "it does not rise" can be said


def _flat_or_falling(series: Series, by: float) -> bool:
    """Whether it did not rise by `by`, seen sharply enough to say so, or fell for certain."""
    return (len(series) >= FEWEST and series.change <= by and series.noise <= 0.1) or series.fell(by, 2)


def _format_only(run: Run, at: Mapping[str, float]) -> Seen | None:
    correct = [(n, run.mean_of(n)) for n in run.rewards_of("correct")]
    form = [(n, run.mean_of(n)) for n in run.rewards_of("form") if run.weights.get(n) != 0]
    learned = [(n, s) for n, s in form if s.rose(at["form"]) or (len(s) >= 8 and s.early.mean >= at["top"] and s.late.mean >= at["top"])]
    if not correct or not learned or not run.reward.rose(at["reward"] * run.ceiling):
        return None
    if not all(_flat_or_falling(s, at["correct"]) and s.late.mean < 0.85 for _, s in correct):
        return None
    seen = Seen([moved(s, f"rewards/{n}/mean") for n, s in [*learned, *correct]])
    falls = any(s.fell(at["correct"], 2) for _, s in correct)
    # Form is often learned first, and correctness after it: as long as form still rises, there is hope.
    settled = all(s.late.mean - s.part(0.4, 0.6).mean <= 0.05 for _, s in learned)
    seen.confidence = "high" if falls or (settled and len(run.reward) >= 40) else "medium"
    length = run.series(LENGTH)
    if len(length) >= 8:
        seen.evidence.append(moved(length, LENGTH))
    weights = {n: run.weights.get(n) for n, _ in learned}
    known = {n: w for n, w in weights.items() if w}
    seen.patch = {f"rewards: {n}, weight": round(min(w, 0.2), 3) if w > 0.2 else round(w / 2, 3) for n, w in known.items()} or None
    return seen


def _length_pays(run: Run, at: Mapping[str, float]) -> Seen | None:
    length, reward = run.series(LENGTH), run.reward
    if len(length) < 20 or len(reward) < 20:
        return None
    r = detrended_correlation(length, reward)
    if r is None or abs(r) < at["r"]:
        return None
    longer = r > 0
    if not (length.rose(at["grows"] * length.early.mean) if longer else length.fell(at["grows"] * length.early.mean)) or not reward.rose(
        0.02 * run.ceiling
    ):
        return None
    correct = run.correctness
    named = correct is not reward
    if named and not _flat_or_falling(correct, at["correct"]):
        return None
    together = Evidence(f"reward ~ {LENGTH}", f"their changes from step to step correlate with r = {r:.2f}")
    seen = Seen([together, moved(length, LENGTH), moved(reward, "reward")], "high" if named else "medium")
    if named:
        seen.evidence.append(moved(correct, "correctness"))
    if not longer:
        seen.cause = "shorter completions are paid more, whatever they say"
    return seen


def _hacking(run: Run, at: Mapping[str, float]) -> Seen | None:
    reward = run.reward
    if not reward.rose(at["rise"] * run.ceiling):
        return None
    seen = []
    for name in run.rewards_of("correct"):
        series = run.mean_of(name)
        unpaid = run.weights.get(name) == 0
        turned = _turned(series, reward, at["turn"])
        if turned:
            seen.append(turned)
        elif series.fell(at["fall"], 2) or (unpaid and _flat_or_falling(series, at["fall"]) and series.late.mean < 0.85):
            seen.append(moved(series, f"rewards/{name}/mean" + (" (weight 0, only watched)" if unpaid else "")))
    held_out, room = _held_out(run, at)
    if not seen and not held_out:
        return None
    # Held-out prompts that are mostly solved leave little room to rise: easier than the training's, perhaps.
    confidence = "high" if seen or room >= at["room"] else "medium"
    seen += held_out
    return Seen([moved(reward, "reward"), *seen], confidence, reward.first_step(lambda v: v >= reward.early.mean + at["rise"] * run.ceiling))


def _turned(correct: Series, reward: Series, least: float) -> Evidence | None:
    """Correctness rose and fell again while the reward went on rising."""
    if len(correct) < 30 or len(reward) < 30:
        return None
    parts = [correct.part(i / 6, (i + 1) / 6) for i in range(6)]
    top = max(range(5), key=lambda i: parts[i].mean)
    drop = parts[top].mean - correct.late.mean
    scatter = correct.noise / math.sqrt(1 / len(correct.early) + 1 / len(correct.late))
    if (
        drop < max(least, 2 * scatter * math.sqrt(1 / len(parts[top]) + 1 / len(correct.late)))
        or reward.late.mean <= reward.part(top / 6, (top + 1) / 6).mean
    ):
        return None
    text = f"{parts[top].mean:.3g} (steps {parts[top].steps[0]}-{parts[top].steps[-1]}) -> {correct.late.mean:.3g}, while the reward went on rising"
    return Evidence("correctness", text, parts[top].steps[-1], correct.steps[-1])


def _held_out(run: Run, at: Mapping[str, float]) -> tuple[list[Evidence], float]:
    """The first held-out measure that was taken three times, if it stayed or fell while the reward rose; and how far it could have risen."""
    names = ["held_out/accuracy", *(f"rewards/{n}/mean" for n in run.rewards_of("correct")), "reward"]
    for name in names:
        series = run.log.evaluation(name)
        if len(series) < 3:
            continue
        prompts = run.log.evaluation("held_out/prompts")
        n = prompts.values[-1] if len(prompts) else 64
        top = run.ceiling if name == "reward" else 1.0
        best, first, last = max(series.values) / top, series.values[0] / top, series.values[-1] / top
        middle = min(1.0, max(0.0, series.mean / top))
        noise = math.sqrt(2 * max(0.05, middle * (1 - middle)) / n)  # of a difference of two shares, unpaired
        rise = run.reward.change / run.ceiling
        if rise > 2.5 * noise and last - first < 0.25 * rise and best - first < 0.5 * rise and last < 0.85:
            text = f"{series.values[0]:.3g} (step {series.steps[0]}) -> {series.values[-1]:.3g} (step {series.steps[-1]})"
            return [Evidence(f"held-out {name.removeprefix('held_out/')}", text, series.steps[0], series.steps[-1])], 1 - first
        break
    return [], 0.0


def _length_growth(run: Run, at: Mapping[str, float]) -> Seen | None:
    length, reward = run.series(LENGTH), run.correctness if len(run.correctness) >= 8 else run.reward
    if not length.rose(at["times"] * length.early.mean - length.early.mean) or not len(reward):
        return None
    sharp = reward.noise <= 0.04 * run.ceiling  # a noisy curve of few lines can hide a rise
    still = (sharp and reward.change <= max(0.02 * run.ceiling, reward.noise)) or reward.fell(0.05 * run.ceiling)
    if not still or run.solved >= 0.9:
        return None
    seen = Seen(
        [moved(length, LENGTH), moved(reward, "reward" if reward is run.reward else "correctness")],
        "high" if len(length) >= 2 * FEWEST else "medium",
        length.first_step(lambda v: v >= 1.25 * length.early.mean),
    )
    wrong = run.series("completions/mean_terminated_length")
    if len(wrong) >= 8:
        seen.evidence.append(moved(wrong, "completions/mean_terminated_length"))
    loss = run.settings.get("loss_type") if run.known else None
    if not run.known or (loss == "grpo" and run.setting("importance_sampling_level") == "token"):
        seen.variant = "dr_grpo"
    return seen


RULES = (
    Rule(
        "format_only",
        "Only the form is learned",
        ("reward", "rewards/<name>/mean"),
        "a paid reward of form rose by {form} (or is at {top}) and the reward by {reward} of its maximum, while no correctness reward rose by"
        " {correct}",
        limits={"form": 0.1, "top": 0.95, "reward": 0.03, "correct": 0.03},
        section="reward",
        cause="form is cheap and paid whatever the answer: the policy takes it, often with shorter and worse answers",
        remedy="give form a small weight (0.1 to 0.2 of correctness) or pay it only for right answers; check that correctness can be reached at all",
        doubt="correctness starts to rise once the form is learned: look again in a hundred steps",
        explains=("hacking", "length_pays", "rate_too_high", "dead_groups"),
        look=_format_only,
    ),
    Rule(
        "length_pays",
        "Reward follows length",
        ("reward", LENGTH),
        "step-to-step changes of reward and mean length correlate by {r} or more (a skill that needs length reaches 0.5 to 0.9), the reward rises,"
        " the"
        " length moves by {grows} of itself, and a correctness reward, if there is one, does not rise by {correct}",
        limits={"r": 0.95, "grows": 0.15, "correct": 0.03},
        section="reward",
        cause="longer completions are paid more, whatever they say: a reward of length, of steps, of words",
        remedy="take the length out of the reward, or lower long right answers only (`use: length`); watch correctness with weight 0",
        doubt="within one prompt longer completions are right more often: then length is a skill, not a hole",
        explains=("hacking", "length_growth", "truncation", "rate_too_high"),
        look=_length_pays,
    ),
    Rule(
        "hacking",
        "Reward rises, what it stands for does not (reward hacking)",
        ("reward", "rewards/<name>/mean|held_out/accuracy"),
        "reward up by {rise} of its maximum, while a correctness reward falls by {fall} (or by {turn} from its height), one that is only watched"
        " (weight 0) does not rise, or"
        " held-out accuracy stays where it was over 3 evaluations (sure if it had {room} to rise)",
        limits={"rise": 0.05, "fall": 0.03, "turn": 0.1, "room": 0.3},
        section="reward",
        cause="the reward has a hole, and the policy has found it",
        remedy="stop; read 20 of the best-paid completions (`inspect_rewards.py run config.yaml --from-run RUN`), close the hole, train again from"
        " the"
        " start, with an honest measure at weight 0 beside it",
        doubt="an independent judge accepts the completions that are paid most",
        look=_hacking,
        explains=("length_growth", "kl_drift", "rate_too_high", "dead_groups", "truncation"),
    ),
    Rule(
        "length_growth",
        "Completions grow without getting better",
        (LENGTH, "reward"),
        "mean length up by the factor {times} or more, correctness within its noise",
        limits={"times": 1.4},
        section="reward",
        cause="wrong answers get longer because their penalty is shared by more tokens (a mean over each completion), or nothing stops rambling",
        remedy="a loss that does not weigh by length (dr_grpo, or dapo with an overlong penalty), a length penalty on right answers, an end token"
        " that is learned",
        doubt="correctness follows with a delay, as in long-reasoning runs",
        look=_length_growth,
    ),
)
