"""Is there something to learn: the success rate, pass@k, dead groups, lengths, truncation. Pure functions over lists."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Hashable, Mapping, Sequence

from grpo_rlvr.completions import completion_text
from grpo_rlvr.inspection.jsonl import canonical
from grpo_rlvr.inspection.rates import Spread, all_equal, fit_spread, pass_at_k
from grpo_rlvr.inspection.signal_gold import cut_note
from grpo_rlvr.intervals import clopper_pearson, effective_size, upper_bound_of_none, wilson

GROUP_SIZES = (4, 8, 16, 32, 64)
TOO_EASY = 0.95
UNSCORED = 0.10
CUT = 0.2

NEXT_STEP = {
    "go": "read the selected samples: inspect_rewards.py review CONFIG",
    "sft_first": "supervised fine-tuning first (references/lifecycle.md has the block to run): a fluent model needs hundreds to thousands of worked "
    "examples to learn a format, one that has never learnt the task as many as the task takes. Measure pass@k again with run, and stop while answers "
    "still differ (success between 20% and 80%): a model that SFT has finished leaves GRPO little",
    "too_easy": "take harder prompts, or leave out those that always succeed (run CONFIG --keep-band 0.2 0.8); nothing is left to learn here",
    "unscored": "find out why the reward returns None (unreadable gold, a verifier that dies or times out) and mend it; then inspect again",
}


def estimate_signal(
    prompt_indices: Sequence[int],
    verdicts: Sequence[bool | None],
    totals: Sequence[float | None],
    finishes: Sequence[str],
    tokens: Sequence[int | None],
    completions: Sequence[Hashable],
    num_generations: int,
    characters: Sequence[int] | None = None,
    golds: Mapping | None = None,
) -> dict:
    """What the sampled completions say about the gradient that training would get. All lists are aligned, one item a completion.

    Args:
        verdicts: the reward's own pass or fail; None = could not be scored.
        totals: weighted sums, as training sees them.
        finishes: "stop", "length" (cut off) or "unknown".
        completions: anything hashable that is equal for equal completions.
        num_generations: completions per group in training.
        characters: lengths of the completions' texts, for where the tokens are not known.
        golds: of `signal_gold.measure_golds`.

    Returns:
        `verdict` (go, sft_first, too_easy, unscored) with `reason` and `next_step`, `notes`, and the numbers behind them. `dead_groups` is the
        share of groups in which all completions pass or all fail (no signal about being right), `flat_groups` the share whose
        totals are all equal (no signal at all; TRL logs it as frac_reward_zero_std). `pass_at_k` is the mean over prompts, `per_prompt` has
        each one's rate with its exact 95% interval, and `expected_rate`, drawn towards the other prompts by `spread` (see `rates`).
    """
    n = len(verdicts)
    scored = [v for v in verdicts if v is not None]
    groups = _by_prompt(prompt_indices, verdicts)
    total_groups = _by_prompt(prompt_indices, [None if t is None else round(t, 9) for t in totals])
    none_share = (n - len(scored)) / n if n else 0.0
    success = _success(groups)
    known = [f for f in finishes if f != "unknown"]
    truncated = known.count("length") / len(known) if known else None
    verdict, reason = _judge(n, len(scored), none_share, success)
    counts = {i: (sum(g), len(g)) for i, g in groups.items()}
    spread = fit_spread(counts.values())
    dead = dead_groups(list(groups.values()), num_generations, spread)
    flat = dead_groups(list(total_groups.values()), num_generations)
    return {
        "verdict": verdict,
        "reason": reason,
        "next_step": NEXT_STEP[verdict],
        "notes": _notes(verdict, dead, flat, num_generations) + ([cut_note(truncated, finishes, verdicts, golds)] if (truncated or 0) > CUT else []),
        "samples": n,
        "scored": len(scored),
        "prompts": len(set(prompt_indices)),
        "num_generations": num_generations,
        "success": success,
        "none_share": none_share,
        "pass_at_k": _pass_at_k(counts),
        "truncated_share": truncated,
        "truncated_passed": sum(f == "length" and v is True for f, v in zip(finishes, verdicts, strict=True)),
        "duplicate_share": 1 - len(set(zip(prompt_indices, completions, strict=True))) / n if n else 0.0,
        "mean_tokens": _mean_tokens(verdicts, tokens),
        "dead_groups": dead,
        "flat_groups": flat,
        "length": _lengths(verdicts, tokens, characters),
        "gold_length": golds,
        "dead_groups_by_size": {str(size): dead_groups(list(groups.values()), size, spread) for size in sorted({*GROUP_SIZES, num_generations})},
        "spread": [list(part) for part in spread.parts] if spread else None,
        "per_prompt": _per_prompt(counts, spread),
    }


def signal_of(samples: Sequence[dict], scores: Sequence[dict], num_generations: int, golds: Mapping | None = None) -> dict:
    """`estimate_signal` on samples and their score rows."""
    return estimate_signal(
        [s["prompt_index"] for s in samples],
        [row["verdict"] for row in scores],
        [row["total"] for row in scores],
        [s["finish"] for s in samples],
        [s["tokens"] for s in samples],
        [canonical(s["completion"]) for s in samples],
        num_generations,
        [len(completion_text(s["completion"])) for s in samples],
        golds,
    )


def dead_groups(groups: Sequence[Sequence[Hashable]], size: int, spread: Spread | None = None) -> dict:
    """Expected share of groups of `size` completions of one prompt in which all outcomes are equal, with a 95% interval over the prompts.

    With at least `size` outcomes of a prompt: the unbiased estimate. With fewer, of outcomes True and False with a `spread`: what is expected
    of p^size + (1-p)^size; without one the plug-in sum of (count / n)^size, which leans high. `method` says which.
    """
    groups = [g for g in groups if g]
    if not groups:
        return {"size": size, "share": None, "interval": None, "method": "none"}
    shares, exact = [], 0
    for group in groups:
        n, counts = len(group), Counter(group)
        if n >= size:
            exact += 1
            shares.append(all_equal(list(counts.values()), size))
        elif spread is not None:
            shares.append(spread.all_equal(counts[True], n, size))
        else:
            shares.append(sum((c / n) ** size for c in counts.values()))
    share = min(1.0, math.fsum(shares) / len(shares))
    other = "plug-in" if spread is None else "beta-binomial"
    method = "unbiased" if exact == len(groups) else other if exact == 0 else f"unbiased and {other}"
    # Of all quantities in [0, 1] with this mean a yes or no varies most, so this is wide rather than narrow.
    return {"size": size, "share": share, "interval": list(wilson(share, len(groups))), "method": method}


def _pass_at_k(counts: dict[int, tuple[int, int]]) -> dict[str, float]:
    """k = 1, 2, 4, ... and the most samples of a prompt: the mean of the prompts' unbiased estimates, over those with k samples or more.

    A k for which more than a fifth of the prompts have too few is left out.
    """
    most = max((n for _, n in counts.values()), default=0)
    out = {}
    for k in sorted({*(1 << i for i in range(most.bit_length()) if 1 << i <= most), most} - {0}):
        each = [pass_at_k(passed, n, k) for passed, n in counts.values() if n >= k]
        if len(each) >= 0.8 * len(counts):
            out[str(k)] = math.fsum(each) / len(each)
    return out


def _per_prompt(counts: dict[int, tuple[int, int]], spread: Spread | None) -> list[dict]:
    intervals = {pair: list(clopper_pearson(*pair)) for pair in set(counts.values())}
    return [
        {
            "prompt_index": i,
            "scored": n,
            "passed": passed,
            "rate": passed / n,
            "interval": intervals[passed, n],
            "expected_rate": spread.mean(passed, n) if spread else None,
        }
        for i, (passed, n) in counts.items()
    ]


def _lengths(verdicts: Sequence[bool | None], tokens: Sequence[int | None], characters: Sequence[int] | None) -> dict:
    """Count, mean, median, ninth decile and longest of each outcome, in tokens if all are known, else in characters."""
    known = all(t is not None for t in tokens) or characters is None
    lengths = tokens if known else characters
    out: dict = {"unit": "tokens" if known else "characters"}
    for name, outcome in (("pass", True), ("fail", False), ("none", None)):
        of = sorted(t for v, t in zip(verdicts, lengths, strict=True) if v is outcome and t is not None)
        n = len(of)
        out[name] = {
            "count": n,
            "mean": sum(of) / n if n else None,
            "median": (of[(n - 1) // 2] + of[n // 2]) / 2 if n else None,
            "p90": of[min(n - 1, math.ceil(0.9 * n) - 1)] if n else None,
            "longest": of[-1] if n else None,
        }
    return out


def _by_prompt(prompt_indices: Sequence[int], values: Sequence) -> dict[int, list]:
    groups: dict[int, list] = {}
    for index, value in zip(prompt_indices, values, strict=True):
        if value is not None:
            groups.setdefault(index, []).append(value)
    return groups


def _success(groups: dict[int, list[bool]]) -> dict:
    passes, sizes = [sum(g) for g in groups.values()], [len(g) for g in groups.values()]
    k, n = sum(passes), sum(sizes)
    if n == 0:
        return {"passed": 0, "scored": 0, "rate": None, "interval": [0.0, 1.0], "method": "nothing scored", "effective_samples": 0.0}
    rate = k / n
    if k == 0 or k == n:
        # Samples of one prompt are no independent draws of the task: only the prompts are counted.
        effective = float(len(groups))
        bound = upper_bound_of_none(len(groups))
        interval, method = ([0.0, bound] if k == 0 else [1 - bound, 1.0]), "exact one-sided 95% bound over the prompts"
    else:
        effective = effective_size(passes, sizes)
        interval, method = list(wilson(rate, effective)), "Wilson 95%, effective sample size from per-prompt means"
    return {"passed": k, "scored": n, "rate": rate, "interval": interval, "method": method, "effective_samples": effective}


def _judge(n: int, scored: int, none_share: float, success: dict) -> tuple[str, str]:
    if scored == 0 or none_share > UNSCORED:
        return "unscored", f"{n - scored} of {n} completions could not be scored ({none_share:.0%}; at most {UNSCORED:.0%} is fine)"
    rate, (_, high) = success["rate"], success["interval"]
    if success["passed"] == 0:
        on_these = upper_bound_of_none(scored)
        return (
            "sft_first",
            f"no success in {scored} samples: with 95% confidence it succeeds in fewer than {on_these:.2%} of the tries at these prompts, "
            f"and fewer than {high:.1%} of all prompts are ones it solves; every group would be all wrong",
        )
    if rate >= TOO_EASY:
        return "too_easy", f"{success['passed']} of {scored} samples succeed ({rate:.1%}); from {TOO_EASY:.0%} on nearly every group is all right"
    return "go", f"{success['passed']} of {scored} samples succeed ({rate:.1%})"


def _notes(verdict: str, dead: dict, flat: dict, num_generations: int) -> list[str]:
    notes = []
    if verdict == "go" and dead["share"] is not None and dead["share"] > 0.8:
        flat_share = f"; {flat['share']:.0%} have one and the same total" if flat["share"] is not None else ""
        notes.append(
            f"{dead['share']:.0%} of the groups of {num_generations} would be all right or all wrong{flat_share}: "
            "most generation is wasted; raise num_generations, or keep prompts with a success rate between 20% and 80% (--keep-band 0.2 0.8)"
        )
    return notes


def _mean_tokens(verdicts: Sequence[bool | None], tokens: Sequence[int | None]) -> dict[str, float | None]:
    means = {}
    for name, outcome in (("pass", True), ("fail", False), ("none", None)):
        counted = [t for v, t in zip(verdicts, tokens, strict=True) if v is outcome and t is not None]
        means[name] = sum(counted) / len(counted) if counted else None
    return means
