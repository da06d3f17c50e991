"""The diagnosis as text: for a terminal, for status.md, and the rule table of the reference. Names in a log are hostile text."""

from __future__ import annotations

import textwrap
from collections.abc import Mapping
from typing import Any

from grpo_rlvr.diagnosis.findings import Diagnosis, Finding
from grpo_rlvr.diagnosis.names import METRICS, OWN, Metric
from grpo_rlvr.diagnosis.rules import RULES
from grpo_rlvr.diagnosis.run import Run
from grpo_rlvr.visible import fold, visible

WIDTH = 110
STATUS_LINES = 40
SECTIONS = {
    "broken-numbers": "Broken numbers and runs that stand still",
    "signal": "The signal",
    "update": "The update",
    "reward": "What the reward pays for",
    "machine": "Time and memory",
}
HEADLINE = ("reward", "completions/mean_length", "entropy", "kl", "frac_reward_zero_std", "completions/clipped_ratio", "grad_norm", "step_time")


def safe(text: Any) -> str:
    """One line of text that acts on no terminal and in no table."""
    return visible(fold(str(text), 300, 1)).replace("\n", " ").replace("\t", " ")


def summary(run: Run, answer: Diagnosis) -> str:
    """'symptoms: 2 (reward hacking, ...)' or 'healthy', with the state of the run."""
    state = {True: "finished", False: "unfinished", None: "end unknown"}[run.finished]
    of = f" of {run.max_steps}" if run.max_steps else ""
    lines = f"{len(run.log.steps)} line{'' if len(run.log.steps) == 1 else 's'}, step {run.log.last_step}{of}, {state}"
    if answer.healthy and {n.name for n in answer.notes} & {"no_reward", "only_evaluations"}:
        return f"no symptom in what the log holds, which is not enough to call the run healthy ({lines}; {answer.checked} rules checked)"
    if answer.healthy:
        return f"healthy: no symptom ({lines}; {answer.checked} rules checked)"
    many = f"{len(answer.findings)} symptom{'s' if len(answer.findings) > 1 else ''}"
    return f"{many}: {'; '.join(f.rule.title for f in answer.findings)} ({lines})"


def patch_lines(patch: Mapping[str, Any]) -> list[str]:
    """The patch as lines of config.yaml; a value that the log cannot tell stands as a comment."""
    sections: dict[str, list[str]] = {}
    for key, value in patch.items():
        section, _, name = key.partition(".")
        if key == "variant":
            sections.setdefault("", []).append(f"variant: {yaml_value(value)}")
        elif not name:
            sections.setdefault("", []).append(f"# {safe(key)}: {safe(value)}")
        elif isinstance(value, str) and " " in value:
            sections.setdefault(section, []).append(f"  # {name}: {value}")
        else:
            sections.setdefault(section, []).append(f"  {name}: {yaml_value(value)}")
    lines = []
    for section, entries in sections.items():
        lines += [f"{section}:", *entries] if section else entries
    return lines


def yaml_value(value: Any) -> str:
    if isinstance(value, bool) or value is None:
        return {True: "true", False: "false", None: "null"}[value]
    if isinstance(value, float):
        text = f"{value:.6g}"
        mantissa, e, exponent = text.partition("e")
        return f"{mantissa}{'' if '.' in mantissa else '.0'}e{exponent}" if e else text if "." in text else f"{text}.0"
    return safe(value)


def finding_lines(finding: Finding, number: int) -> list[str]:
    """One finding for a terminal."""
    since = f", since step {finding.since}" if finding.since else ""
    lines = [f"{number}. {finding.rule.title}   [{finding.name}, confidence {finding.confidence}{since}]"]
    lines += [f"     {safe(e.metric)}: {safe(e.text)}" for e in finding.evidence]
    for name, text in (("why", finding.cause), ("do", finding.remedy)):
        lines += _wrapped(name, text)
    patch = patch_lines(finding.patch)
    if patch:
        lines += ["   patch for config.yaml:", *[f"     {line}" for line in patch]]
    if finding.variant:
        lines += _wrapped("variant", f"{finding.variant['name']}: {finding.variant['why']} ({finding.variant['source']})")
        lines += _wrapped("it does nothing when", finding.variant["does_nothing_when"])
        lines += _wrapped("TRL lacks of it", finding.variant["missing"]) if finding.variant["missing"] else []
    if finding.follows:
        lines += _wrapped("explains", "; ".join(finding.follows))
    lines += _wrapped("I would think otherwise if", finding.doubt)
    return lines


def _wrapped(name: str, text: str) -> list[str]:
    return textwrap.wrap(f"{name}: {text}", WIDTH, initial_indent="   ", subsequent_indent="     ")


def terminal(run: Run, answer: Diagnosis, all_rules: bool = False) -> str:
    """The page that `diagnose.py` prints."""
    lines = [f"{safe(run.path)} ({run.log.kind})", *textwrap.wrap(summary(run, answer), WIDTH), ""]
    for number, finding in enumerate(answer.findings, 1):
        lines += [*finding_lines(finding, number), ""]
    for note in answer.notes:
        lines += textwrap.wrap(f"note: {note.text}", WIDTH, subsequent_indent="      ")
    if answer.not_checked:
        lines.append(
            f"not checked, since the log does not hold what they need: {len(answer.not_checked)} of {len(RULES)} rules"
            + ("" if all_rules else " (--all lists them)")
        )
        lines += [f"  {name}: {safe(why)}" for name, why in answer.not_checked.items()] if all_rules else []
    if run.log.unknown and all_rules:
        lines.append("metrics that no rule knows: " + ", ".join(map(safe, run.log.unknown[:40])))
    return "\n".join(lines).rstrip()


def status(run: Run, answer: Diagnosis, at: str) -> str:
    """status.md: at most 40 lines, for an agent that looks in now and then."""
    head = [
        f"# {'healthy' if answer.healthy else 'symptoms: ' + ', '.join(f.name for f in answer.findings)}",
        "",
        f"{summary(run, answer)}; written {at}",
        "",
    ]
    table = ["| metric | first sixth | last fifth |", "| --- | --- | --- |"]
    names = [*HEADLINE[:1], *[f"rewards/{n}/mean" for n in run.log.rewards[:3]], *HEADLINE[1:]]
    for name in names:
        series = run.series(name)
        if len(series) >= 3:
            table.append(f"| {safe(name)} | {series.early.mean:.3g} | {series.late.mean:.3g} |")
    accuracy = run.log.evaluation("held_out/accuracy")
    if len(accuracy):
        table.append(
            f"| held-out accuracy | {accuracy.values[0]:.3g} (step {accuracy.steps[0]}) | {accuracy.values[-1]:.3g} (step {accuracy.steps[-1]}) |"
        )
    found: list[str] = []
    for number, f in enumerate(answer.findings[:3], 1):
        shown = "; ".join(f"{e.metric} {e.text}" for e in f.evidence[:2])
        found += ["", f"{number}. **{f.rule.title}** (`{f.name}`, {f.confidence}): {safe(shown)}", f"   do: {safe(f.remedy)}"]
        patch = "; ".join(line.strip() for line in patch_lines(f.patch) if not line.endswith(":"))
        found += [f"   patch: `{patch[:300]}`"] if patch else []
    left = len(answer.findings) - 3
    found += ["", f"and {left} more: {', '.join(f.name for f in answer.findings[3:])}"] if left > 0 else []
    notes = [f"- {safe(n.text)}" for n in answer.notes]
    lines = [*head, *(table if len(table) > 2 else []), *found, *([""] if notes else []), *notes]
    return "\n".join(lines[:STATUS_LINES]) + "\n"


def metric_table(metrics: tuple[Metric, ...]) -> str:
    """Markdown table of metrics."""
    rows = [f"| `{m.name}` | {m.when} | {m.meaning} | {m.healthy} |" for m in metrics]
    return "\n".join(["| metric | logged | what it says | healthy |", "| --- | --- | --- | --- |", *rows])


def rule_tables() -> str:
    """The rules as Markdown, by section; references/diagnosis.md holds exactly this."""
    parts = []
    for section, title in SECTIONS.items():
        parts += [
            f"### {title}",
            "",
            '<a id="' + section + '"></a>',
            "",
            "| symptom | test | cause | remedy | what would speak against it |",
            "| --- | --- | --- | --- | --- |",
        ]
        parts += [
            f"| `{r.name}` {r.title} | {_cell(r.test_text)} | {_cell(r.cause)} | {_cell(r.remedy)} | {_cell(r.doubt)} |"
            for r in RULES
            if r.section == section
        ]
        parts.append("")
    return "\n".join(parts).rstrip()


def _cell(text: str) -> str:
    return text.replace("|", "\\|").replace("\n", " ")


def reference_tables() -> dict[str, str]:
    """What references/diagnosis.md takes from code, by the name of its marks."""
    return {"metrics": metric_table(METRICS), "own metrics": metric_table(OWN), "rules": rule_tables()}
