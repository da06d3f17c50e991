"""What the inspection of a run in progress says to people, on stderr."""

from __future__ import annotations

from collections.abc import Mapping

from grpo_rlvr.inspection.report import readable, show_finding
from grpo_rlvr.inspection.terminal import show_messages, write
from grpo_rlvr.visible import fold, visible

SHORT, SHOWN = 500, 3
ROWS = (
    ("mean_total", "mean total", "{:.3f}"),
    ("pass_share", "passed by the reward", "{:.0%}"),
    ("gold_share", "end in the gold", "{:.0%}"),
    ("gold_share_of_paid", "of the passed, end in the gold", "{:.0%}"),
    ("none_share", "not scored", "{:.0%}"),
    ("duplicate_share", "repeat another of the prompt", "{:.0%}"),
    ("mean_characters", "mean characters", "{:.0f}"),
    ("truncated_share", "cut off", "{:.0%}"),
)


@readable
def show_step(result: Mapping, samples: Mapping[str, tuple[dict, dict]]) -> None:
    """First against now, the history, and each finding with the completions that show it."""
    first, now = result["first"], dict(result["now"])
    now["truncated_share"] = now.get("logged_truncated_share", now["truncated_share"])
    other = "the first inspection" if result["compared_with"] == "inspection" else f"{result['compared_with']} of this run"
    write(f"step {result['step']}: {now['samples']} completions of {now['prompts']} prompts, against {first['samples']} of {other}\n")
    left_out = ", ".join(f"{n} {what}" for what, n in zip(("held-out", "with two golds", "unknown"), result["left_out"].values(), strict=True) if n)
    if left_out:
        write(f"  left out, by their prompts: {left_out}\n")
    write(f"\n{'':32}{'first':>10}{'now':>10}\n")
    rows = [*ROWS, *((name, f"reward {name}", "{:.3f}") for name in now["mean_scores"])]
    for key, title, form in rows:
        values = [(side["mean_scores"] if title.startswith("reward ") else side).get(key) for side in (first, now)]
        if any(v is not None for v in values):
            write(f"{visible(title)[:31]:32}" + "".join(f"{'unknown' if v is None else form.format(v):>10}" for v in values) + "\n")
    _show_history(result["history"], [f for f in result["findings"] if "kind" in f])
    write("\n")
    if result["signal"] != "go":
        write(f"signal: {result['signal']}: {result['signal_reason']}\n  -> {result['signal_next']}\n")
    for finding in result["findings"]:
        if "probe" in finding:
            show_finding(finding)
            continue
        write(f"{finding['severity']}: {visible(finding['message'])}\n")
        for sample_id in finding["sample_ids"][:SHOWN]:
            sample, row = samples[sample_id]
            total = "none" if row["total"] is None else f"{row['total']:.3f}"
            write(f"  sample {sample_id}, total {total}:\n")
            text = visible(fold(show_messages(sample["completion"]), SHORT, 8))
            write("".join(f"    | {line}\n" for line in text.split("\n")))
    write(f"files: {visible(result['folder'])}\nnext: {result['next']}\n")


def _show_history(history: list, kinds: list) -> None:
    if len(history) < 2:
        return
    write(f"\n{'step':>6}{'mean total':>12}{'in the gold':>13}" + "".join(f"{f'kind {i + 1}':>9}" for i in range(len(kinds))) + "\n")
    for point in history:
        total, gold = point["mean_total"], point["gold_share"]
        write(f"{point['step']:>6}{'' if total is None else f'{total:.3f}':>12}{'' if gold is None else f'{gold:.0%}':>13}")
        write("".join(f"{share:>9.0%}" for share in point["kinds"]) + "\n")
    for i, finding in enumerate(kinds):
        family, pattern = finding["kind"]
        write(f"  kind {i + 1}: {family} '{visible(pattern)[:80]}'\n")
