"""Rules about numbers that are broken and runs that stand still: checked before anything is read into the curves."""

from __future__ import annotations

from collections.abc import Mapping

from grpo_rlvr.diagnosis.findings import Evidence, Rule, Seen
from grpo_rlvr.diagnosis.run import Run

HANGS = (
    "at a weight sync or in a collective call (a rank that waits for another; a server on a GPU that also trains; MoE expert layers that some"
    " ranks do not reach under ZeRO-3), at a prompt longer than vllm_max_model_length - max_completion_length, or in a reward that waits for a"
    " service"
)


def _nothing_trained(run: Run, at: Mapping[str, float]) -> Seen | None:
    over = run.finished or "train_runtime" in run.log.end
    if not over or run.log.last_step > 0 or run.log.end.get("global_step", 0) > 0:
        return None
    return Seen([Evidence("step", "the run ended at step 0")])


def _nan(run: Run, at: Mapping[str, float]) -> Seen | None:
    found = [(step, name) for name in ("loss", "grad_norm", "kl", "entropy", "policy_loss") for step, v in run.log.nonfinite(name) if v != v]
    found += [(step, name) for name in ("reward", *(f"rewards/{n}/mean" for n in run.log.rewards)) for step, v in run.log.nonfinite(name) if v != v]
    # A gradient that was infinite once and is finite again is what gradient scaling does; a NaN loss is not.
    found += [(step, name) for name in ("loss",) for step, _ in run.log.nonfinite(name)]
    if not found:
        return None
    first = min(step for step, _ in found)
    names = sorted({name for step, name in found if step == first})
    good = max((s for s in run.log.steps if s < first), default=None)
    last = "there is no line before it" if good is None else f"the last line without is of step {good}"
    lines = len({step for step, _ in found})
    many = f"{lines} line{'s' if lines > 1 else ''} in all"
    seen = Seen([Evidence(", ".join(names), f"not a number at step {first} ({many}); {last}", first, max(s for s, _ in found))], since=first)
    if all(name.startswith("reward") for name in names):
        seen.cause = "a reward returned NaN: the numbers that the trainer computes itself were still in order at that step"
        seen.remedy = (
            "mend the reward (0 divided by 0, a mean of nothing, NaN of a model): a value in [0, 1], or None for what it cannot score; then go on"
            " from the last checkpoint before that step"
        )
        seen.patch = {}
    zero = [s for s, v in zip(run.series("loss").steps, run.series("loss").values, strict=True) if v == 0 and s >= first]
    if zero and "loss" not in names:
        seen.evidence.append(Evidence("loss", "0 in these lines: transformers logs a loss that is NaN as 0 (logging_nan_inf_filter)"))
    if len(run.series("kl")) and run.series("kl").max > 1:
        seen.evidence.append(Evidence("kl", f"up to {run.series('kl').max:.3g}"))
    return seen


def _infinite_reward(run: Run, at: Mapping[str, float]) -> Seen | None:
    names = ["reward", *(f"rewards/{n}/mean" for n in run.log.rewards)]
    found = [(step, name, value) for name in names for step, value in run.log.nonfinite(name) if value == value]
    for name in names:
        series = run.series(name)
        found += [(s, name, v) for s, v in zip(series.steps, series.values, strict=True) if abs(v) > at["largest"]]
    if not found:
        return None
    step, _, value = min(found)
    names = sorted({n for _, n, _ in found})
    return Seen(
        [Evidence(", ".join(names), f"{value:g} at step {step}; {len({s for s, _, _ in found})} such lines in all", step, max(found)[0])], since=step
    )


def _impossible(run: Run, at: Mapping[str, float]) -> Seen | None:
    seen = []
    limit = run.setting("max_completion_length") if run.known else None
    longest = run.series("completions/max_length")
    if limit and len(longest) and longest.max > limit:
        seen.append(Evidence("completions/max_length", f"{longest.max:g}, above max_completion_length {limit}"))
    for name in ("completions/clipped_ratio", "frac_reward_zero_std", "clip_ratio/region_mean", "tools/failure_frequency"):
        series = run.series(name)
        if len(series) and (series.min < -1e-6 or series.max > 1 + 1e-6):
            seen.append(Evidence(name, f"between {series.min:g} and {series.max:g}; a share lies between 0 and 1"))
    entropy = run.series("entropy")
    if len(entropy) and entropy.min < -1e-3:
        seen.append(Evidence("entropy", f"{entropy.min:g}; an entropy is not below 0"))
    return Seen(seen, "medium") if seen else None


def _stalled(run: Run, at: Mapping[str, float]) -> Seen | None:
    if not run.watched or run.finished or run.age_s is None:
        return None
    usual = (run.step_s or 0) * run.log.every
    limit = max(at["least_s"], at["times"] * usual)
    if not run.log.steps:
        limit = max(limit, at["start_s"])  # loading a model and starting vLLM takes minutes
    if run.age_s < limit:
        return None
    after = f"after step {run.log.last_step}" if run.log.steps else "since the start"
    usually = f"; a line usually comes every {usual:.0f} s" if usual else ""
    return Seen([Evidence("step", f"no line for {run.age_s:.0f} s {after}{usually}", run.log.last_step)], since=run.log.last_step)


RULES = (
    Rule(
        "nothing_trained",
        "No step was trained",
        (),
        "the run ended at step 0",
        section="broken-numbers",
        least=0,
        cause="fewer prompts than one generation batch needs: TRL drops a generation batch that is not full, trains nothing and reports success",
        remedy="bring more prompts, or lower gradient_accumulation_steps or per_device_train_batch_size; `train.py config.yaml --check` names the"
        " numbers",
        doubt="the log was cut, or the run only evaluated",
        look=_nothing_trained,
    ),
    Rule(
        "nan",
        "NaN in the loss, the gradient or a reward",
        ("loss|grad_norm|reward",),
        "loss, grad_norm, kl, entropy or a reward is not a number, or the loss is infinite, in any line",
        section="broken-numbers",
        least=1,
        cause="a step that was too large (learning rate, no gradient clipping), float16, or a reward that returned NaN. Earlier metrics often show"
        " no sign: no log can foretell it",
        remedy="go back to the last checkpoint before that step (nothing after it is worth keeping), halve the learning rate, keep max_grad_norm"
        " at 1 or below, use bf16 instead of fp16, save often",
        patch={"grpo.learning_rate": "half of the present rate", "grpo.max_grad_norm": 0.5},
        doubt="the same step runs clean when it is repeated from the checkpoint with another seed: then it was the batch, look at its prompts",
        explains=(
            "gradient_explosion",
            "gradient_zero",
            "rate_too_high",
            "kl_spike",
            "kl_drift",
            "entropy_collapse",
            "dead_groups",
            "nothing_solved",
            "truncation",
            "rate_without_effect",
            "hacking",
            "format_only",
            "ratio_mismatch",
            "clip_always",
            "clip_never",
            "length_growth",
        ),
        look=_nan,
    ),
    Rule(
        "infinite_reward",
        "A reward is infinite or absurdly large",
        ("reward",),
        "a reward is infinite or beyond {largest} in any line",
        limits={"largest": 1e6},
        section="broken-numbers",
        least=1,
        cause="the reward function divides by zero or takes the logarithm of one; TRL then zeroes the advantages of the whole group or batch"
        " without an error, and with scale_rewards none destroys the model",
        remedy="keep every reward within [0, 1] (shaping within [-1, 0]); the rewards of this skill refuse such values by name",
        doubt="the reward is meant to have such a scale: then divide it by that scale",
        explains=("gradient_zero", "dead_groups", "rate_too_high", "rate_without_effect", "gradient_explosion", "hacking", "length_pays"),
        look=_infinite_reward,
    ),
    Rule(
        "impossible_values",
        "Values that cannot be",
        (),
        "a share outside 0 to 1, a completion longer than max_completion_length, an entropy below 0",
        section="broken-numbers",
        least=1,
        cause="a version that computes the metric wrongly, or settings that are not those of this run",
        remedy="compare the versions with constraints.txt and the settings with the run's own; with Unsloth set per_device_train_batch_size to"
        " num_generations or update",
        doubt="the settings given with --config are of another run",
        look=_impossible,
    ),
    Rule(
        "stalled",
        "The run stands still",
        (),
        "watched, and no line for {times} times the usual time between two lines (at least {least_s} s; {start_s} s before the first line)",
        limits={"times": 5, "least_s": 300, "start_s": 1800},
        section="broken-numbers",
        least=0,
        cause="the process hangs: " + HANGS,
        remedy="look where it stands (py-spy dump --pid PID; NCCL_DEBUG=INFO), then stop it and go on with --resume; give rewards a time limit,"
        " filter prompts by length, keep the server on GPUs of its own",
        doubt="an evaluation or a checkpoint of a large model takes that long: then a line comes soon",
        look=_stalled,
    ),
)
