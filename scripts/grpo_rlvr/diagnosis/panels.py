"""Which curves a person wants to see, from whatever the log holds."""

from __future__ import annotations

from grpo_rlvr.diagnosis.curves import Curve, Mark, Panel
from grpo_rlvr.diagnosis.findings import Diagnosis
from grpo_rlvr.diagnosis.run import Run
from grpo_rlvr.diagnosis.series import Series

# Where a symptom is marked: the panel its evidence is about.
PANELS_OF = {
    "reward": ("reward", "rewards/", "held", "correctness"),
    "length": ("completions/",),
    "entropy": ("entropy",),
    "groups": ("frac_reward_zero_std", "reward_std", "dropped_share"),
    "gradient": ("grad_norm", "loss"),
    "kl": ("kl",),
    "clip": ("clip_ratio", "cispo"),
    "ratio": ("sampling/",),
    "moe": ("aux_loss",),
    "speed": ("step_time", "reward ", "share_"),
    "memory": ("memory",),
}


def panels(run: Run) -> dict[str, Panel]:
    """Panels by key, without those of which nothing was logged."""
    s = run.series
    rewards = [Curve(f"{n}{_weight(run, n)}", run.mean_of(n), 1 + i % 4) for i, n in enumerate(run.log.rewards[:6])]
    held = run.log.evaluation("held_out/accuracy")
    name = "held-out accuracy"
    if not len(held):
        held, name = run.log.evaluation("reward"), "held-out reward"
    paid = [n for n in run.log.rewards if run.weights.get(n) != 0]
    if len(paid) == 1 and run.weights.get(paid[0]) in (1.0, None):  # it is the reward itself
        rewards = [curve for curve, n in zip(rewards, run.log.rewards, strict=False) if n != paid[0]]
    length = "completions/"
    found = {
        "reward": Panel("Reward", "", [Curve("reward", run.reward, 0), *rewards, Curve(name, held, 5, points=True)], lowest=0.0),
        "length": Panel("Completion length", "tokens", [Curve("mean", s(length + "mean_length"), 0),
                                                        Curve("ended by itself", s(length + "mean_terminated_length"), 2),
                                                        Curve("longest", s(length + "max_length"), 4)], lowest=0.0),
        "entropy": Panel("Entropy", "nats a token", [Curve("entropy", s("entropy"), 0)], lowest=0.0),
        "groups": Panel("Dead groups, cut completions", "share", [Curve("groups without variance", s("frac_reward_zero_std"), 0),
                        Curve("cut at the limit", s(length + "clipped_ratio"), 3), Curve("dropped", s("dropped_share"), 5)], 0.0, 1.0),
        "gradient": Panel("Gradient norm", "", [Curve("grad_norm", s("grad_norm"), 0)]),
        "kl": Panel("KL to the reference", "nats a token", [Curve("kl", s("kl"), 0)], lowest=0.0),
        "clip": Panel("Clipped share", "share", [Curve("either side", s("clip_ratio/region_mean"), 0), Curve("low", s("clip_ratio/low_mean"), 2),
                                                Curve("high", s("clip_ratio/high_mean"), 3), Curve("cispo", s("cispo_clip_ratio"), 0)], lowest=0.0),
        "ratio": Panel("vLLM against trainer: importance ratio", "", [Curve("mean", s("sampling/importance_sampling_ratio/mean"), 0)]),
        "gap": Panel("vLLM against trainer: gap of log-probabilities", "nats a token",
                     [Curve("mean", s("sampling/sampling_logp_difference/mean"), 0)], lowest=0.0),
        "moe": Panel("Auxiliary loss of the router", "", [Curve("aux_loss", s("aux_loss"), 0)]),
        "speed": Panel("Time of a step", "seconds", [Curve("step", s("step_time"), 0), *_reward_times(run)], lowest=0.0),
        "throughput": Panel("Throughput", "tokens a second", [Curve("prompt and completion tokens", throughput(run), 0)], lowest=0.0),
        "shares": Panel("Where a step's time goes", "share", [Curve("rollout", s("share_rollout"), 0), Curve("reward", s("share_reward"), 5),
                                                              Curve("update", s("share_update"), 1)], 0.0, 1.0),
        "memory": Panel("Memory", "GB", [Curve("this process, peak", s("mem_gb"), 0), Curve("GPU in use", s("gpu_used_gb"), 2)], lowest=0.0),
        "rate": Panel("Learning rate", "", [Curve("learning_rate", s("learning_rate"), 0)], lowest=0.0),
    }  # fmt: skip
    return {key: panel for key, panel in found.items() if panel.drawn and any(c.series.max != 0 for c in panel.drawn)}


def _weight(run: Run, name: str) -> str:
    weight = run.weights.get(name)
    return "" if weight is None else " (only watched)" if weight == 0 else f" (weight {weight:g})"


def _reward_times(run: Run) -> list[Curve]:
    names = [n for n in run.log.columns if n.startswith("reward_seconds/")]
    steps = run.series("step_time")
    seen = [n for n in names if len(steps) and len(run.series(n)) and run.series(n).max > 0.02 * steps.max]
    return [Curve(f"reward {n.removeprefix('reward_seconds/')}", run.series(n), 1 + i % 4) for i, n in enumerate(seen[:4])]


def throughput(run: Run) -> Series:
    """Tokens a second between two lines; only over steps that say how long they took."""
    if len(run.series("tokens_per_s")):
        return run.series("tokens_per_s")
    tokens, times = run.series("num_tokens"), run.series("step_time")
    at = dict(zip(times.steps, times.values, strict=True))
    steps, values = [], []
    for (a, x), (b, y) in zip(zip(tokens.steps, tokens.values, strict=True), list(zip(tokens.steps, tokens.values, strict=True))[1:], strict=False):
        spent = sum(at[s] for s in range(a + 1, b + 1) if s in at) if b - a <= 64 else at.get(b, 0) * (b - a)
        spent = spent if b - a == 1 or all(s in at for s in range(a + 1, b + 1)) else at.get(b, 0) * (b - a)
        if spent > 0 and y > x:
            steps.append(b)
            values.append((y - x) / spent)
    return Series(steps, values)


def marks(answer: Diagnosis) -> dict[str, list[Mark]]:
    """Marks by panel: each symptom with a step stands on the panels that its evidence is about."""
    found: dict[str, list[Mark]] = {}
    for number, finding in enumerate(answer.findings, 1):
        if finding.since is None:
            continue
        for panel, prefixes in PANELS_OF.items():
            if any(e.metric.startswith(prefixes) for e in finding.evidence):
                found.setdefault(panel, []).append(Mark(finding.since, finding.rule.title, number))
    return found
