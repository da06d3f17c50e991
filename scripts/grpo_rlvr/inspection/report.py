"""What the inspection says to people, on stderr."""

from __future__ import annotations

import contextlib
import functools
import os
import sys
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from grpo_rlvr.inspection.band import describe as describe_band
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
    if signal["pass_at_k"]:
        table.add_row("pass@k", "", "  ".join(f"{k}: {share:.1%}" for k, share in signal["pass_at_k"].items()))
        table.add_row("prompts by rate", "", _histogram(signal["per_prompt"]))
    table.add_row(f"dead groups of {dead['size']}", _share(dead["share"]), f"all right or all wrong{_interval(dead)} ({dead['method']})")
    others = [d for d in signal["dead_groups_by_size"].values() if d["size"] != dead["size"] and d["share"] is not None]
    if others:
        table.add_row("  in other sizes", "", "  ".join(f"{d['size']}: {d['share']:.0%}" for d in others))
    table.add_row(f"flat groups of {flat['size']}", _share(flat["share"]), "all totals equal: no gradient")
    table.add_row("cut off", _share(signal["truncated_share"]), f"reached max_completion_length; {signal['truncated_passed']} of them pass")
    table.add_row("length", "", _lengths(signal["length"]))
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
        fix = f"\n    -> {visible(finding['fix'])}" if finding["fix"] and finding["severity"] != "error" else ""  # an error's is the next step
        write(f"data check, reward {visible(finding['reward'])}: {finding['severity']}: {visible(finding['message'])}{fix}\n")
    for finding in result["repeats"]:
        if finding["severity"] == "note":
            write(f"note: {visible(finding['message'])}\n")
    show_findings(result["probes"])
    for warning in result["warnings"]:
        write(f"warning: {visible(warning)}\n")
    if "band" in result:
        write(visible(describe_band(result["band"])) + "\n")
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
    counts = gate["counts"]
    write(f"gate: {'OPEN' if gate['open'] else 'SHUT'}\n")
    for reason in gate["reasons"]:
        write(f"  - {visible(reason)}\n")
    write(
        f"read {counts['read']} of {counts['samples']} samples (needed: {counts['needed']}): "
        f"{counts['pass']} pass, {counts['fail']} fail, {counts['unsure']} unsure"
    )
    by = ", ".join(f"{visible(r['reviewer'])} ({r['kind']}{'' if r['counts'] else ', does not count'})" for r in gate["readers"])
    write(f"; by {by or 'nobody'}\n")
    _show_agreement(gate)
    shown = {f"probe {f['probe']}: {f['message']}" for f in gate["probes"]}  # below, with what proves them
    for warning in (w for w in gate["warnings"] if w not in shown):
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
    elif gate["open"]:
        write("next: train.py CONFIG\n")
    else:
        write("next: mend what the reasons name, then inspect_rewards.py run CONFIG and gate CONFIG\n")


def _show_agreement(gate: Mapping) -> None:
    """Reader and reward, then reader and reader."""
    agreement = gate["agreement"]
    for label, row in agreement["table"].items():
        write(f"  reader {label:6}  reward pass {row['pass']:4}  fail {row['fail']:4}  none {row['none']:4}\n")
    if agreement["none_share"] or agreement["unsure_share"]:
        write(f"of what was read: {agreement['none_share']:.1%} unscored by the reward, {agreement['unsure_share']:.1%} unsure\n")
    if agreement["agreement"] is not None:
        write(f"agreement {_agreed(agreement, agreement['compared'])}, Cohen's kappa {_kappa(agreement['kappa'])}\n")
        weighted = agreement["weighted"]
        write(f"weighted to all that the model writes ({weighted['weights']} weights): {_agreed(weighted)}\n")
    if gate["counts"]["revised"] or gate["counts"]["withdrawn"]:
        first = gate["first_labels"]
        write(f"labels as they were first given, before a score was seen: {first['agreements']} of {first['compared']} agree with the reward\n")
    if agreement["upper_bounds"] is not None:
        both, neither = agreement["table"]["pass"]["pass"], agreement["table"]["fail"]["fail"]
        paid, unpaid = (f"{agreement['upper_bounds'][v]:.1%}" for v in ("pass", "fail"))
        write(
            f"no disagreement: with 95% confidence, fewer than {paid} of what the reward passes is wrong ({both} read), fewer than {unpaid} of "
            f"what it fails is right ({neither} read), and fewer than {agreement['weighted']['upper_bound']:.1%} of all are judged wrongly\n"
        )
    for pair in gate["between"]:
        a, b = (visible(name) for name in pair["reviewers"])
        write(f"{a} and {b} say the same of {_agreed(pair, pair['both_read'])} that both read, Cohen's kappa {_kappa(pair['kappa'])}\n")


def _agreed(value: Mapping, of: int | None = None) -> str:
    low, high = value["interval"]
    return f"{value['agreement']:.1%}{f' of {of}' if of else ''} (95%: {low:.1%} to {high:.1%})"


def _kappa(value: float | None) -> str:
    return "undefined" if value is None else f"{value:.2f}"


def _interval(estimate: Mapping) -> str:
    return "" if estimate["interval"] is None else f", 95%: {estimate['interval'][0]:.1%} to {estimate['interval'][1]:.1%}"


def _histogram(per_prompt: Sequence[Mapping]) -> str:
    """How many prompts never succeed, sometimes (by thirds), always."""
    kinds = {"never": 0, "to 1/3": 0, "to 2/3": 0, "below 1": 0, "always": 0}
    for prompt in per_prompt:
        rate = prompt["rate"]
        name = "never" if rate == 0 else "always" if rate == 1 else "to 1/3" if rate <= 1 / 3 else "to 2/3" if rate <= 2 / 3 else "below 1"
        kinds[name] += 1
    return ", ".join(f"{name} {count}" for name, count in kinds.items())


def _lengths(length: Mapping) -> str:
    said = [f"{name} {of['median']:.0f} (90%: {of['p90']})" for name, of in ((n, length[n]) for n in ("pass", "fail", "none")) if of["count"]]
    return f"median {length['unit']}: " + ", ".join(said)


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
