"""The report's sections about what lies around the log: held-out accuracy, samples, gate, settings."""

from __future__ import annotations

import html
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from grpo_rlvr.diagnosis.findings import Diagnosis
from grpo_rlvr.diagnosis.run import Run
from grpo_rlvr.diagnosis.samples import Shown
from grpo_rlvr.diagnosis.texts import yaml_value
from grpo_rlvr.errors import UserError
from grpo_rlvr.trl_settings import SNAPSHOT, read_snapshot
from grpo_rlvr.visible import fold, visible
from grpo_rlvr.yaml_file import read_mapping

RECIPE = Path(__file__).resolve().parents[3] / "templates" / "config.yaml"
DOUBTS_THE_REWARD = {"hacking", "length_pays", "format_only", "all_solved"}
SECTIONS_COMPARED = ("model", "grpo", "rewards", "variant")


def escaped(value: Any, chars: int = 400) -> str:
    return html.escape(visible(fold(str(value), chars, 40)))


def before_after_section(run: Run, answer: Diagnosis) -> str:
    held = run.result.get("held_out")
    hole = {f.name for f in answer.findings} & DOUBTS_THE_REWARD
    doubt = '<p class="warned">Judged by the rewards of this run: if they have a hole, as the diagnosis says, this figure has it too.</p>'
    doubt = doubt if hole else ""
    if isinstance(held, Mapping) and held.get("difference") is not None and held.get("ci95"):
        low, high = held["ci95"]
        rows = (
            f'<div class="big"><b>{100 * held["before"]:.1f}%</b><i>→</i><b>{100 * held["after"]:.1f}%</b></div>'
            f"<p>{100 * held['difference']:+.1f} points, 95% interval {100 * low:+.1f} to {100 * high:+.1f}, {held.get('prompts', '?')} held-out"
            f" prompts, paired</p>"
        )
        verdict = (
            "better beyond the interval"
            if low > 0
            else "worse beyond the interval"
            if high < 0
            else "no difference that the interval would not cover"
        )
        return f'<section class="card"><h2>Held-out accuracy, before and after</h2>{rows}<p class="muted">{verdict}</p>{doubt}</section>'
    accuracy = run.log.evaluation("held_out/accuracy")
    if len(accuracy) >= 2:
        first, last = ((accuracy.values[i], accuracy.steps[i]) for i in (0, -1))
        text = f"{first[0]:.1%} at step {first[1]}, {last[0]:.1%} at step {last[1]} (the run has no final comparison yet)"
        return f'<section class="card"><h2>Held-out accuracy</h2><p>{text}</p>{doubt}</section>'
    return ""


def samples_section(shown: list[Shown], remark: str) -> str:
    note = f'<p class="muted">{escaped(remark)}</p>' if remark else ""
    columns = []
    for part in shown:
        cards = "".join(
            f'<article class="card sample"><h4>{escaped(s.place or "sample")} <span class="muted">{_paid(s.total)}</span></h4>'
            f'<p class="prompt">{escaped(s.prompt, 600)}</p>'
            f"<pre>{escaped(s.completion, 1500)}</pre>"
            f'<p class="muted">{_scores(s.scores)}</p></article>'
            for s in part.samples
        )
        columns.append(f"<div><h3>{part.when}, step {part.step}</h3>{cards}</div>")
    if not columns:
        return f'<section class="card"><h2>Samples</h2>{note}</section>'
    source = escaped(shown[0].source)
    head = f'<h2>Samples by reward <span class="muted">({source})</span></h2>{note}'
    return f'<section class="plain">{head}<div class="samples">{"".join(columns)}</div></section>'


def _paid(total: float | None) -> str:
    return "" if total is None else f"{total:.3g}"


def _scores(scores: Mapping[str, float | None]) -> str:
    return escaped(", ".join(f"{k} {'none' if v is None else f'{v:.3g}'}" for k, v in scores.items()), 300)


def gate_section(run: Run) -> str:
    gate, without = run.started.get("gate"), run.started.get("without_gate")
    if isinstance(gate, Mapping):
        counts = gate.get("counts") if isinstance(gate.get("counts"), Mapping) else {}
        readers = ", ".join(map(str, gate.get("reviewers") or ())) or "nobody named"
        rows = {
            "read by": f"{readers} ({gate.get('reviewer_kind', '?')})",
            "opened": gate.get("at"),
            **{str(k).replace("_", " "): v for k, v in counts.items() if isinstance(v, int | float)},
        }
        body = "".join(f"<tr><th>{escaped(k)}</th><td>{escaped(v)}</td></tr>" for k, v in rows.items() if v is not None)
        warnings = "".join(f"<li>{escaped(w)}</li>" for w in gate.get("warnings") or ())
        warned = f"<ul>{warnings}</ul>" if warnings else ""
        return f'<section class="card"><h2>Inspection gate: open</h2><table class="evidence">{body}</table>{warned}</section>'
    if without:
        return f'<section class="card warn"><h2>Inspection gate: trained without it</h2><p>The reason given: {escaped(without)}</p></section>'
    return '<section class="card"><h2>Inspection gate</h2><p class="muted">not known from this log</p></section>'


def settings_section(run: Run) -> str:
    if not run.config:
        return ""
    rows = differences(run.config, run.settings)
    if not rows:
        return '<section class="card"><h2>Settings</h2><p>The config is that of the recipe (templates/config.yaml).</p></section>'
    body = "".join(f"<tr><th>{escaped(k)}</th><td>{escaped(a, 200)}</td><td>{escaped(b, 200)}</td></tr>" for k, a, b in rows)
    head = "<tr><th>setting</th><th>recipe</th><th>this run</th></tr>"
    table = f'<div class="scroll"><table class="settings">{head}{body}</table></div>'
    return f'<section class="card"><h2>Settings that differ from the recipe</h2>{table}</section>'


def differences(config: Mapping[str, Any], settings: Mapping[str, Any] | None = None) -> list[tuple[str, str, str]]:
    """(setting, recipe's value, run's value) of the sections that decide what is learned; what is not written has TRL's default.

    Args:
        settings: what the trainer really got, which the config need not write (the run sets logging_steps, for example).
    """
    try:
        recipe = read_mapping(RECIPE)
    except UserError:
        recipe = {}
    defaults = {name: setting.default for name, setting in read_snapshot(SNAPSHOT).by_name.items()}
    rows = []
    for section in SECTIONS_COMPARED:
        theirs, ours = recipe.get(section), config.get(section)
        if section == "rewards":
            one, two = _rewards(theirs), _rewards(ours)
            rows += [("rewards", one, two)] if one != two else []
            continue
        theirs, ours = ({"": v} if not isinstance(v, dict) else v for v in (theirs, ours))
        usual = defaults if section == "grpo" else {}
        given = {**ours, **{k: v for k, v in (settings or {}).items() if k in theirs}} if section == "grpo" else ours
        for key in sorted({*theirs, *ours}):
            a, b = (values.get(key, usual.get(key)) for values in (theirs, given))
            if a != b:
                shown = [_value(v) + (" (default)" if key not in values and section == "grpo" else "") for v, values in ((a, theirs), (b, given))]
                rows.append((f"{section}.{key}".rstrip("."), *shown))
    return rows


def _value(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False) if isinstance(value, dict | list) else yaml_value(value)


def _rewards(entries: Any) -> str:
    found = [e for e in entries or () if isinstance(e, dict)]
    return ", ".join(f"{str(e.get('name') or e.get('use')).rpartition('/')[2]} x {e.get('weight', 1.0):g}" for e in found)
