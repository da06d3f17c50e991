"""What a terminal shows of a run below its bar: the figures of the last line and the course of the reward."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from grpo_rlvr.bars import sparkline


def figures(line: Mapping[str, object], rewards: Sequence[float | None]) -> list[str]:
    """Three lines of text; a figure that was not measured is left out."""
    learning = [
        _figure("reward", line.get("reward"), ".3f"),
        _figure("dead groups", line.get("frac_reward_zero_std"), ".0%"),
        _figure("length", line.get("completions/mean_length"), ".0f", " tokens"),
        _figure("cut", line.get("completions/clipped_ratio"), ".0%"),
        _figure("entropy", line.get("entropy"), ".2f"),
        _figure("grad", line.get("grad_norm"), ".2g"),
        _figure("importance ratio", line.get("sampling/importance_sampling_ratio/mean"), ".2f"),
    ]
    machine = [
        _figure("", line.get("tokens_per_s"), ",.0f", " tokens/s"),
        _figure("rollout", line.get("share_rollout"), ".0%"),
        _figure("reward", line.get("share_reward"), ".0%"),
        _figure("update", line.get("share_update"), ".0%"),
        _figure("memory", line.get("mem_gb"), ".1f", " GB"),
        _figure("", line.get("temp_c"), ".0f", " °C"),
    ]
    course = sparkline(rewards)
    return [text for text in ("  ".join(filter(None, learning)), "  ".join(filter(None, machine)), f"reward {course}" if course else "") if text]


def _figure(name: str, value: object, form: str, unit: str = "") -> str:
    if not isinstance(value, (int, float)):
        return ""
    return f"{name} {value:{form}}{unit}".strip()
