"""Who wrote the samples, as far as the folder knows: this model, someone elsewhere, or the policy of a run at a step."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from grpo_rlvr.inspection.token_counts import uneven_warning

UNPROVEN = "the completions were recorded elsewhere: nothing shows that this model wrote them, or with these sampling settings"
VOUCH = "whoever cannot vouch for the file draws before anyone reads: run CONFIG --redraw"
OF_A_RUN = "these are completions of step {step} of a run: what a trained policy does says nothing about the model it started from"
BASE_NEXT = (
    "look at the run: diagnose.py RUN; whether there is something to learn shows only in completions of the base model: "
    "draw them with run CONFIG (--redraw sets recorded ones aside) or record them"
)
# TRL's table of step 1 holds what was written before the first update.
START = 1


def is_recorded(header: Mapping) -> bool:
    """Taken from a file; what `--from-run` reads is the run's own."""
    return header["sampling"].get("source") not in ("model", "tables")


def step_of(header: Mapping) -> int | None:
    """The latest step of the run that wrote the samples; None if they are of no run as far as is known, or of its start."""
    step = header["sampling"].get("step")
    return step if type(step) is int and step > START else None


def latest_step(values: Sequence[Any]) -> int | None:
    """The latest of the steps that the lines of a file name; None unless each names one."""
    return max(values) if values and all(type(v) is int and v >= 0 for v in values) else None


def origin_warnings(header: Mapping, samples: Sequence[Mapping]) -> list[str]:
    """What has to be said of samples that were not drawn here."""
    if not is_recorded(header):
        return []
    step = step_of(header)
    return [UNPROVEN, *([OF_A_RUN.format(step=step)] if step is not None else []), *uneven_warning(samples)]


def signal_of_step(signal: Mapping, step: int | None) -> dict:
    """The signal; of a trained policy that is never (or always) right, without advice that is meant for a model that is to train."""
    if step is None or step <= START or signal["verdict"] not in ("sft_first", "too_easy"):
        return dict(signal)
    return {**signal, "verdict": "trained", "reason": f"{OF_A_RUN.format(step=step)}; {signal['reason']}", "next_step": BASE_NEXT}
