"""What the inspection says to people, on stderr."""

from __future__ import annotations

import contextlib
import functools
import os
import sys
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from grpo_rlvr.inspection.terminal import show_messages, write
from grpo_rlvr.visible import fold, visible

SHORT = 1200


def readable(show: Callable[..., None]) -> Callable[..., None]:
    """A report whose reader has gone (`2>&1 | head -1`) ends there, and the answer of the check stays what it was."""

    @functools.wraps(show)
    def shown(*args: Any, **more: Any) -> None:
        try:
            show(*args, **more)
        except BrokenPipeError:
            # What is still buffered would fail again when the interpreter ends, and change the exit code.
            with contextlib.suppress(OSError, ValueError, AttributeError):
                os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stderr.fileno())

    return shown


@readable
def show_run(result: Mapping, rewards: Sequence, min_read: int = 0) -> None:
    """The table of a run, its verdict and what the probes found."""
    from rich.console import Console
    from rich.table import Table

    signal = result["signal"]
    success = signal["success"]
    low, high = success["interval"]
    dead, flat = signal["dead_groups"], signal["flat_groups"]
    table = Table(show_header=False, box=None, pad_edge=False)
    for reward in rewards:
        name, mean = reward.name, result["mean_scores"][reward.name]
        table.add_row(f"reward {_safe(name)}", f"mean {_number(mean)}", f"weight {reward.weight:g}, {result['seconds'][name]:.1f} s")
    table.add_row("success", _share(success["rate"]), f"{success['passed']} of {success['scored']}, 95%: {low:.1%} to {high:.1%}")
    table.add_row(f"dead groups of {dead['size']}", _share(dead["share"]), f"all right or all wrong ({dead['method']} estimate)")
    table.add_row(f"flat groups of {flat['size']}", _share(flat["share"]), "all totals equal: no gradient")
    table.add_row("cut off", _share(signal["truncated_share"]), "reached max_completion_length")
    table.add_row("unscored", _share(signal["none_share"]), "the reward returned None")
    table.add_row("duplicates", _share(signal["duplicate_share"]), "of completions of one prompt")
    table.add_row("to read", str(result["selected"]), f"of {result['samples']} samples")
    console = Console(stderr=True, highlight=False)
    with console.capture() as printed:  # rich answers a closed pipe by ending the program
        console.print(table)
    write(printed.get())
    write(f"\nsignal: {signal['verdict']}: {signal['reason']}\n")
    for note in signal["notes"]:
        write(f"  note: {note}\n")
    for finding in result["dataset"]:
        write(f"data check, reward {visible(finding['reward'])}: {finding['severity']}: {visible(finding['message'])}\n")
    show_findings(result["probes"])
    for warning in result["warnings"]:
        write(f"warning: {visible(warning)}\n")
    write(f"files: {visible(result['folder'])}\nnext: {result['next']}\n")
    if result["selected"] < min_read:
        write(f"warning: only {result['selected']} different completions, but inspection.min_read is {min_read}: raise inspection.prompts\n")


def show_findings(findings: Sequence[Mapping]) -> None:
    """What the probes found, the answers made wrong first; those that found nothing in one line."""
    for finding in findings:
        if finding["severity"] != "ok" or finding["probe"] == "mutated_answer":
            show_finding(finding)
    fine = [f["probe"] for f in findings if f["severity"] == "ok" and f["probe"] != "mutated_answer"]
    if fine:
        write(f"{len(fine)} other probes found nothing: {', '.join(fine)}\n")


def show_finding(finding: Mapping) -> None:
    """One probe's finding, with the smallest completion that proves it."""
    grave = f"{finding['severity']}, accepted ({visible(finding['accepted'])})" if finding.get("accepted") else finding["severity"]
    write(f"probe {finding['probe']}: {grave}: {visible(finding['message'])}\n")
    example = finding.get("example")
    if example and "pair" in example:
        for word, half in example["pair"].items():
            write(f"  {word}: total {_number(half['total'])}, {_line(str(half['scores']))}\n")
            write(_indented(show_messages(half["completion"])))
    elif example:
        original, mutant = example["original"], example["mutant"]
        what = f"; {visible(example['what'])}" if example.get("what") else ""
        made = f"; answer {_line(original['answer'])} made {_line(mutant['answer'])}" if mutant["answer"] or not what else ""
        write(f"  the smallest of them{what}{made}, total {_number(original['total'])} -> {_number(mutant['total'])}:\n")
        write(_indented(show_messages(mutant["completion"])))


@readable
def show_gate(gate: Mapping) -> None:
    """The gate's answer, its reasons and the worst case against it."""
    counts, agreement = gate["counts"], gate["agreement"]
    write(f"gate: {'OPEN' if gate['open'] else 'SHUT'}\n")
    for reason in gate["reasons"]:
        write(f"  - {visible(reason)}\n")
    write(
        f"read {counts['read']} of {counts['samples']} samples (needed: {counts['needed']}): "
        f"{counts['pass']} pass, {counts['fail']} fail, {counts['unsure']} unsure"
    )
    write(f"; by {visible(', '.join(gate['reviewers'])) or 'nobody'}\n")
    for label, row in agreement["table"].items():
        write(f"  reader {label:6}  reward pass {row['pass']:4}  fail {row['fail']:4}  none {row['none']:4}\n")
    if agreement["agreement"] is not None:
        low, high = agreement["interval"]
        kappa = "undefined" if agreement["kappa"] is None else f"{agreement['kappa']:.2f}"
        write(f"agreement {agreement['agreement']:.1%} of {agreement['compared']} (95%: {low:.1%} to {high:.1%}), Cohen's kappa {kappa}\n")
    if agreement["upper_bounds"] is not None:
        both, neither = agreement["table"]["pass"]["pass"], agreement["table"]["fail"]["fail"]
        paid, unpaid = (f"{agreement['upper_bounds'][v]:.1%}" for v in ("pass", "fail"))
        write(
            f"no disagreement: with 95% confidence, fewer than {paid} of what the reward passes is wrong ({both} read), "
            f"and fewer than {unpaid} of what it fails is right ({neither} read)\n"
        )
    for warning in gate["warnings"]:
        write(f"warning: {visible(warning)}\n")
    worst = gate["worst"]
    if worst:
        write(f"worst disagreement, sample {worst['sample_id']}: the reader says {worst['label']}, the reward gives {_number(worst['total'])}\n")
        write(_indented(show_messages(worst["prompt"])) + _indented(show_messages(worst["completion"])))
    for finding in gate["probes"]:
        if finding["severity"] != "ok":
            show_finding(finding)
    if counts["read"] < counts["needed"]:
        write("next: inspect_rewards.py review CONFIG\n")
    elif not gate["open"]:
        write("next: mend what the reasons name, then inspect_rewards.py run CONFIG and gate CONFIG\n")


def _indented(text: str) -> str:
    return "".join(f"    | {line}\n" for line in visible(fold(text, SHORT, 20)).split("\n"))


def _line(text: str) -> str:
    return repr(visible(fold(text, 80, 3)).replace("\n", " "))


def _safe(text: str) -> str:
    from rich.markup import escape

    return escape(visible(text))


def _share(value: float | None) -> str:
    return "unknown" if value is None else f"{value:.1%}"


def _number(value: float | None) -> str:
    return "none" if value is None else f"{value:.3f}"
