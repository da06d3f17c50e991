"""The table of rules, in the order to check, and the diagnosis of a run by it."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

from grpo_rlvr.diagnosis import rules_machine, rules_numbers, rules_policy, rules_reward, rules_sampler, rules_signal, rules_update
from grpo_rlvr.diagnosis.findings import Diagnosis, Finding, Note, Rule, Seen
from grpo_rlvr.diagnosis.patches import completed
from grpo_rlvr.diagnosis.rates import half
from grpo_rlvr.diagnosis.run import Run
from grpo_rlvr.diagnosis.variants import named

ORDER = (
    "nothing_trained", "nan", "infinite_reward", "impossible_values", "stalled", "all_masked", "truncation", "none_rising",
    "nothing_solved", "all_solved", "identical_groups", "moe_routing", "ratio_mismatch", "gradient_zero", "gradient_explosion",
    "entropy_collapse", "format_only", "length_pays", "hacking", "rate_too_high", "kl_spike", "kl_drift", "clip_always", "dead_groups",
    "length_growth", "rate_without_effect", "clip_never", "reward_slow", "memory_creep",
)  # fmt: skip
MODULES = (rules_numbers, rules_signal, rules_sampler, rules_update, rules_policy, rules_reward, rules_machine)
_BY_NAME = {rule.name: rule for part in MODULES for rule in part.RULES}
RULES: tuple[Rule, ...] = tuple(_BY_NAME[name] for name in ORDER)


def diagnose(run: Run, only: Collection[str] | None = None) -> Diagnosis:
    """Apply the table; a rule whose metrics are missing is reported as not checked, with their names.

    Args:
        only: names of the rules to apply; None for all.
    """
    seen: dict[str, Seen] = {}
    skipped: dict[str, str] = {}
    rules = [rule for rule in RULES if only is None or rule.name in only]
    for rule in rules:
        lacking = _lacking(run, rule)
        if lacking:
            skipped[rule.name] = lacking
            continue
        if (answer := rule.look(run, rule.limits)) is not None:
            seen[rule.name] = answer
    roots = [name for name in seen if not any(_explains(other, name, seen) for other in seen)]
    findings = [_finding(run, rule, seen[rule.name], seen) for rule in rules if rule.name in roots]
    return Diagnosis(tuple(findings), tuple(_notes(run, seen)), skipped, len(rules) - len(skipped))


def _explains(one: str, other: str, seen: Mapping[str, Seen]) -> bool:
    """Whether `other` follows from `one`; of two that explain each other the one to check first stands."""
    if one == other or other not in _follows(one, seen):
        return False
    return one not in _follows(other, seen) or ORDER.index(one) < ORDER.index(other)


def _follows(name: str, seen: Mapping[str, Seen]) -> tuple[str, ...]:
    return tuple(other for other in _BY_NAME[name].explains if other not in seen[name].spares)


def _finding(run: Run, rule: Rule, seen: Seen, all_seen: Mapping[str, Seen]) -> Finding:
    patch: dict[str, Any] = dict(rule.patch if seen.patch is None else seen.patch)
    if "grpo.learning_rate" in patch and isinstance(patch["grpo.learning_rate"], str):
        patch["grpo.learning_rate"] = half(run)
    variant, settings = named(run, seen.variant)
    patch = completed(run, {**patch, **settings})
    return Finding(
        rule=rule, evidence=tuple(seen.evidence), confidence=seen.confidence, cause=seen.cause or rule.cause, remedy=seen.remedy or rule.remedy,
        patch=patch, doubt=seen.doubt or rule.doubt, since=seen.since, variant=variant,
        follows=tuple(_BY_NAME[name].title for name in all_seen if _explains(rule.name, name, all_seen)),
    )  # fmt: skip


def _lacking(run: Run, rule: Rule) -> str:
    """Why the rule cannot be applied; empty if it can."""
    for need in rule.needs:
        names = need.split("|")
        if not any(_has(run, name, rule.least) for name in names):
            there = [name for name in names if _has(run, name, 1)]
            shown = " or ".join(names)
            return f"needs {rule.least} lines with {shown}; there are fewer" if there else f"needs {shown}, which the log does not hold"
    return "" if len(run.log.steps) >= rule.least else f"needs {rule.least} lines; there are {len(run.log.steps)}"


def _has(run: Run, name: str, least: int) -> bool:
    if name.endswith("/<name>/mean"):
        return bool(run.log.rewards)
    if name == "reward_seconds/<name>":
        return any(column.startswith("reward_seconds/") for column in run.log.columns)
    if name == "profiling":
        return any(column.startswith("profiling/") for column in run.log.columns)
    if name == "held_out/accuracy":
        return len(run.log.evaluation(name)) > 0
    # A trend needs finite values; for the rules about broken numbers one that is nan will do.
    return (len(run.series(name)) if least > 1 else run.log.count(name)) >= max(1, least)


def lines_of(run: Run) -> str:
    return "1 line is" if len(run.log.steps) == 1 else f"{len(run.log.steps)} lines are"


def _notes(run: Run, seen: Mapping[str, Seen]) -> list[Note]:
    """What looks like a fault and is none; what one should know."""
    notes = []
    loss, gradient, clip = run.series("loss"), run.series("grad_norm"), run.series("clip_ratio/region_mean")
    if "nan" not in seen and len(loss) and len(gradient) and max(abs(loss.late.min), abs(loss.late.max)) < 1e-4 and gradient.late.median > 1e-4:
        notes.append(
            Note(
                "loss_zero",
                "the loss is about 0 while the gradient is not: healthy. With one update a batch the ratio is 1 and the"
                " advantages of a group sum to 0; watch reward and grad_norm",
            )
        )
    if len(clip) >= 8 and clip.max == 0 and "clip_never" not in seen:
        why = (
            "each batch is used for one update"
            if run.on_policy
            else "no ratio left the clip range"
            if run.on_policy is False
            else "usual with one update a batch"
        )
        notes.append(Note("clip_zero", f"the clip ratio is always 0: {why}; no sign that nothing is learned"))
    reward = run.reward
    if len(reward) >= 8 and reward.rose(0.05 * run.ceiling) and run.solved >= 0.9 and "hacking" not in seen:
        notes.append(
            Note(
                "solved",
                f"reward reached {reward.late.mean / run.ceiling:.0%} of its maximum: little is left to learn from these prompts;"
                " groups without variance are then to be expected",
            )
        )
    if run.finished is False and not run.watched and run.max_steps:
        notes.append(Note("unfinished", f"the log ends at step {run.log.last_step} of {run.max_steps}: still running, stopped, or killed"))
    if len(run.log.steps) < 8 and run.log.steps:
        notes.append(Note("short", f"{lines_of(run)} too few for trends; broken numbers are looked for all the same"))
    if not run.log.steps and run.log.evaluations:
        notes.append(Note("only_evaluations", "the log holds evaluations and no line of the training: most rules have nothing to look at"))
    elif run.log.steps and "reward" not in run.log:
        notes.append(Note("no_reward", "the log holds no reward: what the run learned cannot be judged from it"))
    if not run.known:
        notes.append(Note("no_settings", "the run's settings are not known: give them with --config config.yaml, and patches get numbers"))
    return notes
