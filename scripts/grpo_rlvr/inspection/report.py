"""What the inspection says to people, on stderr."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from grpo_rlvr.inspection.terminal import fold, show_messages, visible, write

SHORT = 1200


def show_run(result: Mapping, rewards: Sequence) -> None:
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
    Console(stderr=True, highlight=False).print(table)
    write(f"\nsignal: {signal['verdict']}: {signal['reason']}\n")
    for note in signal["notes"]:
        write(f"  note: {note}\n")
    for finding in result["dataset"]:
        write(f"data check, reward {visible(finding['reward'])}: {finding['severity']}: {visible(finding['message'])}\n")
    for finding in result["probes"]:
        show_finding(finding)
    write(f"files: {visible(result['folder'])}\nnext: {result['next']}\n")


def show_finding(finding: Mapping) -> None:
    """One probe's finding, with the smallest completion that proves it."""
    write(f"probe {finding['probe']}: {finding['severity']}: {finding['message']}\n")
    example = finding.get("example")
    if example:
        original, mutant = example["original"], example["mutant"]
        write(
            f"  the smallest of them; answer {_line(original['answer'])} made {_line(mutant['answer'])}, "
            f"total {_number(original['total'])} -> {_number(mutant['total'])}:\n"
        )
        write(_indented(show_messages(mutant["completion"])))


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
    if agreement["upper_bound"] is not None and agreement["compared"]:
        write(
            f"no disagreement in {agreement['compared']} shows, with 95% confidence, "
            f"that the reward errs on fewer than {agreement['upper_bound']:.1%} of such samples\n"
        )
    worst = gate["worst"]
    if worst:
        write(f"worst disagreement, sample {worst['sample_id']}: the reader says {worst['label']}, the reward gives {_number(worst['total'])}\n")
        write(_indented(show_messages(worst["prompt"])) + _indented(show_messages(worst["completion"])))
    for finding in gate["probes"]:
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
