"""Logs made by code: healthy runs of several kinds, with noise, and each symptom planted into them."""

from __future__ import annotations

import math
import random
from collections.abc import Callable

from grpo_rlvr.diagnosis.metrics import build
from grpo_rlvr.diagnosis.run import Run

KINDS = ("short", "reasoning", "vllm", "off_policy", "kl", "moe", "sparse_log", "plateau")
CONFIG = {"rewards": [{"use": "math", "weight": 1.0}, {"use": "format", "weight": 0.2}]}


def healthy(seed: int, kind: str | None = None, lines: int | None = None) -> tuple[list[dict], dict, dict]:
    """(lines of the log, GRPOConfig settings, held-out accuracy by step) of a run that learns."""
    rng = random.Random(seed)
    kind = kind or KINDS[seed % len(KINDS)]
    n = lines or rng.choice((60, 120, 300))
    every = 10 if kind == "sparse_log" else 1
    start, end = rng.uniform(0.1, 0.4), rng.uniform(0.55, 0.95)
    if kind == "plateau":
        end = rng.uniform(0.5, 0.7)
    speed = rng.uniform(2, 6) if kind != "plateau" else 12
    batch = rng.choice((64, 128, 512))
    length = rng.uniform(150, 900) if kind == "reasoning" else rng.uniform(20, 120)
    growth = rng.uniform(0.0, 0.8)
    entropy0, entropy1 = rng.uniform(0.3, 1.0), rng.uniform(0.08, 0.3)
    gradient = 10 ** rng.uniform(-1, 0.3)
    group = 8
    settings = {"num_generations": group, "max_completion_length": int(4 * length), "learning_rate": 1e-6, "loss_type": "dapo"}
    if kind == "off_policy":
        settings |= {"num_iterations": 2}
    if kind in ("vllm", "moe"):
        settings |= {"use_vllm": True}
    rows, held_out, form = [], {}, 0.5
    for i in range(n):
        t = 1 - math.exp(-speed * i / n)
        p = start + (end - start) * t
        seen = min(1.0, max(0.0, rng.gauss(p, math.sqrt(p * (1 - p) * 3 / batch))))
        form = min(1.0, max(0.0, rng.gauss(0.6 + 0.35 * t, 0.03)))
        mean_length = length * (1 + growth * t) * rng.gauss(1, 0.03) * (1 + 0.1 * (seen - p))
        # Prompts differ: Beta-distributed pass rates with mean p leave this share of groups alike.
        dead = _alike(p, group)
        row = {
            "step": (i + 1) * every, "loss": rng.gauss(0, 0.02), "lr": 1e-6 * min(1, (i + 1) / 5),
            "grad_norm": gradient * math.exp(rng.gauss(0, 0.35)),
            "reward": seen + 0.2 * form, "reward_std": math.sqrt(max(1e-4, seen * (1 - seen))), "rewards/math/mean": seen,
            "rewards/format/mean": form,
            "frac_reward_zero_std": min(1.0, max(0.0, rng.gauss(dead, math.sqrt(0.25 * group / batch) / 2))),
            "entropy": max(0.01, (entropy0 + (entropy1 - entropy0) * t) * rng.gauss(1, 0.08)), "completions/mean_length": mean_length,
            "completions/max_length": min(int(4 * length), 2.2 * mean_length), "completions/min_length": 0.4 * mean_length,
            "completions/clipped_ratio": max(0.0, rng.gauss(0.01, 0.01)), "completions/mean_terminated_length": 0.98 * mean_length,
            "step_time": 2 + mean_length / 100 * rng.gauss(1, 0.1), "num_tokens": (i + 1) * batch * (mean_length + 50),
            "mem_gb": 40 * (1 - 0.05 * math.exp(-i / 5)) + 0.002 * i / n, "dropped_share": 0.0, "reward_seconds": {"math": 0.05, "format": 0.001},
            "clip_ratio/region_mean": 0.0, "clip_ratio/low_mean": 0.0, "clip_ratio/high_mean": 0.0,
        }  # fmt: skip
        if kind == "off_policy":
            row["clip_ratio/region_mean"] = max(0.0, rng.gauss(0.04, 0.02))
        if kind == "kl":
            row["kl"] = 0.15 * t * rng.gauss(1, 0.1) + 1e-4
        if kind in ("vllm", "moe"):
            gap = 0.008 * rng.gauss(1, 0.1)
            row |= {"sampling/sampling_logp_difference/mean": gap, "sampling/importance_sampling_ratio/mean": rng.gauss(1, 0.01)}
        if kind == "moe":
            row["aux_loss"] = 1.0 + rng.gauss(0, 0.02)
        rows.append(row)
        if (i + 1) % max(1, n // 5) == 0:
            held_out[row["step"]] = min(1.0, max(0.0, rng.gauss(p - 0.02, 0.03)))
    held_out[0] = max(0.0, rng.gauss(start, 0.02))
    return rows, settings, held_out


def _alike(p: float, group: int, a: float = 2.0) -> float:
    """E[q^G + (1-q)^G] for q ~ Beta with mean p and concentration 2a."""
    alpha, beta = 2 * a * p, 2 * a * (1 - p)
    up = down = 1.0
    for i in range(group):
        up *= (alpha + i) / (alpha + beta + i)
        down *= (beta + i) / (alpha + beta + i)
    return up + down


def run_of(rows: list[dict], settings: dict, held_out: dict, config: dict | None = None) -> Run:
    log = build([{k: v for k, v in row.items() if v is not None or k == "reward"} for row in rows], "run folder")
    log.evaluations = {"held_out/accuracy": dict(held_out), "held_out/prompts": dict.fromkeys(held_out, 200.0)} if held_out else {}
    return Run(log, settings=settings, known=bool(settings), config=CONFIG if config is None else config)


Planter = Callable[[list[dict], dict, dict, random.Random], None]
PLANTS: dict[str, tuple[str, Planter]] = {}


def plant(name: str, kind: str = "short"):
    """Registers a function that changes a healthy log into one with the symptom `name`."""

    def keep(function: Planter) -> Planter:
        PLANTS[name] = (kind, function)
        return function

    return keep


def planted(name: str, seed: int) -> Run:
    kind, function = PLANTS[name]
    rows, settings, held_out = healthy(seed, kind, 120)
    function(rows, settings, held_out, random.Random(seed + 10_000))
    return run_of(rows, settings, held_out)


def _set(rows: list[dict], **values) -> None:
    """Each value is a number or a function of (share of the run, the line)."""
    for i, row in enumerate(rows):
        t = i / (len(rows) - 1)
        for key, value in values.items():
            row[NAMES.get(key, key)] = value(t, row) if callable(value) else value


NAMES = {
    "dead": "frac_reward_zero_std", "length": "completions/mean_length", "cut": "completions/clipped_ratio",
    "ended": "completions/mean_terminated_length",
    "right": "rewards/math/mean", "form": "rewards/format/mean", "clip": "clip_ratio/region_mean", "gap": "sampling/sampling_logp_difference/mean",
    "ratio": "sampling/importance_sampling_ratio/mean", "longest": "completions/max_length",
}  # fmt: skip


def _pay(rows: list[dict]) -> None:
    """The reward from its parts."""
    _set(rows, reward=lambda t, r: r["rewards/math/mean"] + 0.2 * r["rewards/format/mean"])


def _flat(rows: list[dict], rng: random.Random, level: float = 0.3) -> None:
    _set(rows, right=lambda t, r: rng.gauss(level, 0.03), form=lambda t, r: rng.gauss(0.9, 0.01))
    _pay(rows)


@plant("nan")
def _(rows, settings, held_out, rng):
    at = rng.randint(20, 100)
    for row in rows[at:]:
        row["loss"] = row["grad_norm"] = math.nan


@plant("infinite_reward")
def _(rows, settings, held_out, rng):
    rows[rng.randint(10, 110)].update({"reward": math.inf, "rewards/math/mean": math.inf, "grad_norm": 0.0})


@plant("impossible_values")
def _(rows, settings, held_out, rng):
    _set(rows[60:], longest=lambda t, r: settings["max_completion_length"] + rng.randint(1, 50))


@plant("all_masked")
def _(rows, settings, held_out, rng):
    settings["mask_truncated_completions"] = True
    _flat(rows, rng, 0.05)
    _set(rows, cut=1.0, ended=0.0, entropy=0.0, grad_norm=0.0, loss=0.0, longest=settings["max_completion_length"])
    held_out.clear()


@plant("truncation")
def _(rows, settings, held_out, rng):
    _flat(rows, rng, 0.1)
    _set(rows, cut=lambda t, r: min(1.0, max(0.0, rng.gauss(0.7, 0.05))))
    held_out.clear()


@plant("none_rising")
def _(rows, settings, held_out, rng):
    _set(rows, dropped_share=lambda t, r: max(0.0, 0.3 * t + rng.gauss(0, 0.02)))


@plant("nothing_solved")
def _(rows, settings, held_out, rng):
    _set(rows, right=0.0, form=lambda t, r: rng.gauss(0.5, 0.02), dead=lambda t, r: rng.uniform(0.1, 0.4))
    _pay(rows)
    held_out.clear()


@plant("all_solved")
def _(rows, settings, held_out, rng):
    _set(rows, right=lambda t, r: rng.uniform(0.98, 1), form=1.0, dead=lambda t, r: rng.uniform(0.88, 1.0), reward_std=0.05)
    _pay(rows)
    held_out.clear()


@plant("identical_groups")
def _(rows, settings, held_out, rng):
    _flat(rows, rng, 0.4)
    _set(rows, dead=1.0, grad_norm=0.0, entropy=lambda t, r: rng.gauss(0.6, 0.03))
    held_out.clear()


@plant("dead_groups")
def _(rows, settings, held_out, rng):
    _set(rows, dead=lambda t, r: min(1.0, max(0.0, rng.gauss(0.3 + 0.55 * t, 0.05))), right=lambda t, r: rng.gauss(0.45 + 0.1 * t, 0.03))
    _pay(rows)


@plant("ratio_mismatch", "vllm")
def _(rows, settings, held_out, rng):
    _set(rows, gap=lambda t, r: 0.008 + 0.08 * t * rng.gauss(1, 0.1), ratio=lambda t, r: rng.gauss(1 - 0.25 * t, 0.01))


@plant("moe_routing", "moe")
def _(rows, settings, held_out, rng):
    settings["num_iterations"] = 2
    _set(rows, gap=lambda t, r: 0.01 + 0.05 * t * rng.gauss(1, 0.1), aux_loss=lambda t, r: rng.gauss(1 + 0.6 * t, 0.02))


@plant("gradient_zero")
def _(rows, settings, held_out, rng):
    _flat(rows, rng)
    _set(rows, grad_norm=0.0, loss=0.0, dead=lambda t, r: rng.uniform(0.2, 0.4))
    held_out.clear()


@plant("gradient_explosion")
def _(rows, settings, held_out, rng):
    _set(rows, grad_norm=lambda t, r: r["grad_norm"] * (1 if t < 0.6 else 10 ** (8 * (t - 0.6))))


@plant("rate_too_high")
def _(rows, settings, held_out, rng):
    held_out.clear()
    _set(
        rows, right=lambda t, r: max(0.0, rng.gauss(0.3 + 0.3 * t if t < 0.4 else max(0.02, 0.42 - 2 * (t - 0.4)), 0.03)),
        entropy=lambda t, r: 0.5 * rng.gauss(1, 0.05) * (1 if t < 0.4 else 1 + 8 * (t - 0.4)),
        grad_norm=lambda t, r: 0.4 * rng.gauss(1, 0.1) * (1 if t < 0.4 else 6),
    )  # fmt: skip
    _pay(rows)


@plant("rate_without_effect")
def _(rows, settings, held_out, rng):
    settings["learning_rate"] = 1e-8
    _flat(rows, rng)
    _set(rows, lr=1e-8, entropy=lambda t, r: rng.gauss(0.5, 0.02), length=lambda t, r: rng.gauss(100, 3), dead=lambda t, r: rng.uniform(0.2, 0.4))
    held_out.clear()


@plant("kl_spike", "kl")
def _(rows, settings, held_out, rng):
    for i in (50, 80):
        rows[i]["kl"] = rng.uniform(4, 40)


@plant("kl_drift", "kl")
def _(rows, settings, held_out, rng):
    _set(rows, kl=lambda t, r: 1e-4 + 2.5 * t * rng.gauss(1, 0.05))


@plant("clip_always", "off_policy")
def _(rows, settings, held_out, rng):
    _set(rows, clip=lambda t, r: max(0.0, rng.gauss(0.55, 0.05)))


@plant("clip_never", "off_policy")
def _(rows, settings, held_out, rng):
    _flat(rows, rng)
    _set(rows, clip=0.0, length=lambda t, r: rng.gauss(100, 3), dead=lambda t, r: rng.uniform(0.2, 0.4))
    held_out.clear()


@plant("entropy_collapse", "reasoning")
def _(rows, settings, held_out, rng):
    settings["num_iterations"] = 2
    settings["loss_type"] = "grpo"
    _set(
        rows, entropy=lambda t, r: 0.6 * math.exp(-6 * t) * rng.gauss(1, 0.05), dead=lambda t, r: min(1.0, max(0.0, rng.gauss(0.2 + 0.7 * t, 0.04))),
        right=lambda t, r: rng.gauss(0.3 + 0.15 * min(1, 3 * t), 0.03), clip=lambda t, r: max(0.001, rng.gauss(0.03, 0.01)),
    )  # fmt: skip
    _pay(rows)


@plant("format_only")
def _(rows, settings, held_out, rng):
    _set(
        rows,
        right=lambda t, r: rng.gauss(0.16 - 0.1 * t, 0.01),
        form=lambda t, r: rng.gauss(0.47 + 0.39 * t, 0.01),
        length=lambda t, r: rng.gauss(387 - 197 * t, 6),
    )
    _set(rows, reward=lambda t, r: 0.5 * r["rewards/math/mean"] + r["rewards/format/mean"])
    settings["reward_weights"] = [0.5, 1.0]
    held_out.clear()


@plant("length_pays")
def _(rows, settings, held_out, rng):
    _set(rows, length=lambda t, r: 100 + 150 * t + rng.gauss(0, 8), right=lambda t, r: rng.gauss(0.3, 0.02))
    _set(rows, reward=lambda t, r: r["completions/mean_length"] / 300 + rng.gauss(0, 0.004))
    for row in rows:
        row["rewards/words/mean"] = row["reward"]
        del row["rewards/format/mean"]
    settings["reward_weights"] = [0.0, 1.0]
    held_out.clear()


@plant("hacking")
def _(rows, settings, held_out, rng):
    # Paid by a reward of no known kind; nothing but the held-out accuracy tells.
    for row in rows:
        row["rewards/judge/mean"] = row.pop("rewards/math/mean")
    _set(rows, length=lambda t, r: rng.gauss(100, 3))
    for step in held_out:
        held_out[step] = rng.gauss(0.3, 0.01)


@plant("length_growth")
def _(rows, settings, held_out, rng):
    _flat(rows, rng)
    settings["loss_type"] = "grpo"
    _set(rows, length=lambda t, r: rng.gauss(100 + 120 * t, 4), dead=lambda t, r: rng.uniform(0.2, 0.4))
    held_out.clear()


@plant("reward_slow")
def _(rows, settings, held_out, rng):
    _set(rows, step_time=lambda t, r: rng.gauss(10, 0.5))
    for row in rows:
        row["reward_seconds"] = {"math": rng.gauss(7, 0.5), "format": 0.001}


@plant("memory_creep")
def _(rows, settings, held_out, rng):
    _set(rows, mem_gb=lambda t, r: 30 + 12 * t + rng.gauss(0, 0.1))


@plant("stalled")
def _(rows, settings, held_out, rng):
    pass  # the clock is set by the test


@plant("nothing_trained")
def _(rows, settings, held_out, rng):
    rows.clear()
