"""report.html: one file that opens without a network: the answer, the curves with symptoms marked, samples, settings, gate, before and after.

Everything that a model, a dataset or a file wrote is escaped; the page's policy lets nothing load and only its own script run.
"""

from __future__ import annotations

import base64
import hashlib
import html
import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from grpo_rlvr.cli import write_text
from grpo_rlvr.diagnosis.curves import Curve, Mark, Panel, svg, thin
from grpo_rlvr.diagnosis.findings import Diagnosis, Finding
from grpo_rlvr.diagnosis.panels import marks, panels
from grpo_rlvr.diagnosis.run import Run
from grpo_rlvr.diagnosis.samples import Shown, shown_samples
from grpo_rlvr.diagnosis.texts import patch_lines, summary, yaml_value
from grpo_rlvr.errors import UserError
from grpo_rlvr.visible import fold, visible
from grpo_rlvr.yaml_file import read_mapping

HERE = Path(__file__).resolve().parent
RECIPE = HERE.parents[2] / "templates" / "config.yaml"
DOUBTS_THE_REWARD = {"hacking", "length_pays", "format_only", "all_solved"}
SECTIONS_COMPARED = ("model", "grpo", "rewards", "variant")


def write_report(run: Run, answer: Diagnosis, path: Path) -> Path:
    """Write the page, whole or not at all."""
    write_text(path, page(run, answer))
    return path


def page(run: Run, answer: Diagnosis) -> str:
    """The page as text."""
    root = run.path if run.path.is_dir() else run.path.parent
    drawn, marked = panels(run), marks(answer)
    first, last = (run.log.steps[0], run.log.steps[-1]) if run.log.steps else (0, 1)
    evaluated = [s for at in run.log.evaluations.values() for s in at]
    first, last = min([first, *evaluated]), max([last, *evaluated])
    samples, remark = shown_samples(root, run.weights)
    main = "".join((
        _head(run, answer, root),
        _symptoms(answer),
        _before_after(run, answer),
        _curves(drawn, marked, first, last),
        _samples(samples, remark),
        _gate(run),
        _settings(run),
        _not_checked(answer, run),
    ))  # fmt: skip
    style, script = _source("css"), _source("js")
    data = _json({key: _numbers(panel, first, last) for key, panel in drawn.items()})
    rules = f"default-src 'none'; style-src 'sha256-{_hash(style)}'; script-src 'sha256-{_hash(script)}'; base-uri 'none'; form-action 'none'"
    return (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        f'<meta http-equiv="Content-Security-Policy" content="{rules}">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>{_text(root.resolve().name)}: training report</title>\n<style>{style}</style>\n</head>\n"
        f'<body>\n<main>{main}</main>\n<script type="application/json" id="data">{data}</script>\n<script>{script}</script>\n</body>\n</html>\n'
    )


def _head(run: Run, answer: Diagnosis, root: Path) -> str:
    word = "healthy" if answer.healthy else f"{len(answer.findings)} symptom{'s' if len(answer.findings) > 1 else ''}"
    tone = "good" if answer.healthy else "bad"
    versions = run.started.get("versions") if isinstance(run.started.get("versions"), dict) else {}
    model = run.config.get("model")
    facts = [
        ("model", model.get("name_or_path") if isinstance(model, dict) else None),
        ("log", run.log.kind),
        ("steps", f"{run.log.last_step}" + (f" of {run.max_steps}" if run.max_steps else "")),
        ("started", run.started.get("at")),
        ("TRL", versions.get("trl")),
    ]
    shown = "".join(f"<div><dt>{k}</dt><dd>{_text(v)}</dd></div>" for k, v in facts if v)
    top = f'<h1>{_text(root.resolve().name)} <span class="verdict {tone}">{word}</span></h1>'
    return f'<header>{top}<p class="lead">{_text(summary(run, answer))}</p><dl class="facts">{shown}</dl></header>'


def _before_after(run: Run, answer: Diagnosis) -> str:
    held = run.result.get("held_out")
    if isinstance(held, Mapping) and held.get("difference") is not None and held.get("ci95"):
        low, high = held["ci95"]
        rows = (
            f'<div class="big"><b>{100 * held["before"]:.1f}%</b><i>→</i><b>{100 * held["after"]:.1f}%</b></div>'
            f"<p>{100 * held['difference']:+.1f} points, 95% interval {100 * low:+.1f} to {100 * high:+.1f}, {held.get('prompts', '?')} held-out prompts, paired</p>"
        )
        hole = {f.name for f in answer.findings} & DOUBTS_THE_REWARD
        doubt = '<p class="warned">Judged by the rewards of this run: if they have a hole, as the diagnosis says, this figure has it too.</p>' if hole else ""
        verdict = "better beyond the interval" if low > 0 else "worse beyond the interval" if high < 0 else "no difference that the interval would not cover"
        return f'<section class="card"><h2>Held-out accuracy, before and after</h2>{rows}<p class="muted">{verdict}</p>{doubt}</section>'
    accuracy = run.log.evaluation("held_out/accuracy")
    if len(accuracy) >= 2:
        text = f"{accuracy.values[0]:.1%} at step {accuracy.steps[0]}, {accuracy.values[-1]:.1%} at step {accuracy.steps[-1]} (the run has no final comparison yet)"
        return f'<section class="card"><h2>Held-out accuracy</h2><p>{text}</p></section>'
    return ""


def _symptoms(answer: Diagnosis) -> str:
    notes = "".join(f"<li>{_text(n.text)}</li>" for n in answer.notes)
    notes = f'<ul class="notes">{notes}</ul>' if notes else ""
    if answer.healthy:
        body = f"<p>No rule found a symptom; {answer.checked} rules were checked.</p>"
        return f'<section class="card"><h2>Diagnosis</h2>{body}{notes}</section>'
    return '<section class="plain"><h2>Diagnosis: what to check first</h2>' + "".join(_symptom(f, i) for i, f in enumerate(answer.findings, 1)) + notes + "</section>"


def _symptom(finding: Finding, number: int) -> str:
    evidence = "".join(f"<tr><th>{_text(e.metric)}</th><td>{_text(e.text)}</td></tr>" for e in finding.evidence)
    patch = "\n".join(patch_lines(finding.patch))
    since = f", since step {finding.since}" if finding.since else ""
    variant = ""
    if finding.variant:
        v = finding.variant
        variant = f"<p><b>Variant {_text(v['name'])}:</b> {_text(v['why'])}. It does nothing when: {_text(v['does_nothing_when'])}. Source: {_text(v['source'])}</p>"
    follows = f'<p class="muted">explains: {_text("; ".join(finding.follows))}</p>' if finding.follows else ""
    return (
        f'<article class="card symptom"><h3><span class="number">{number}</span>{_text(finding.rule.title)}</h3>'
        f'<p class="muted"><code>{finding.name}</code>, confidence {finding.confidence}{since}</p>'
        f'<div class="scroll"><table class="evidence">{evidence}</table></div>'
        f"<p><b>Why:</b> {_prose(finding.cause)}.</p><p><b>Do:</b> {_prose(finding.remedy)}.</p>"
        + (f"<pre>{_text(patch)}</pre>" if patch else "")
        + variant
        + follows
        + f'<p class="muted">What would speak against it: {_prose(finding.doubt)}.</p></article>'
    )


def _curves(drawn: Mapping[str, Panel], marked: Mapping[str, list[Mark]], first: int, last: int) -> str:
    if not drawn:
        return '<section class="card"><h2>Curves</h2><p>The log holds nothing to draw yet.</p></section>'
    figures = []
    for key, panel in drawn.items():
        keys = "".join(f'<li><i class="key c{c.colour}{" round" if c.points else ""}"></i>{_text(c.label)}</li>' for c in panel.drawn)
        unit = f' <span class="muted">{_text(panel.unit)}</span>' if panel.unit else ""
        single = len(panel.drawn) == 1 and not panel.drawn[0].points
        legend = "" if single else f'<ul class="legend">{keys}</ul>'
        figures.append(
            f'<figure class="card{" wide" if key == "reward" else ""}" data-panel="{key}"><figcaption>{_text(panel.title)}{unit}</figcaption>'
            f'{legend}<div class="chart">{svg(panel, marked.get(key, ()), first, last)}</div><output></output></figure>'
        )
    return f'<section class="plain"><h2>Curves over the steps</h2><div class="grid">{"".join(figures)}</div></section>'


def _samples(shown: list[Shown], remark: str) -> str:
    note = f'<p class="muted">{_text(remark)}</p>' if remark else ""
    columns = []
    for part in shown:
        cards = "".join(
            f'<article class="card sample"><h4>{_text(s.place or "sample")} <span class="muted">{"" if s.total is None else f"{s.total:.3g}"}</span></h4>'
            f'<p class="prompt">{_text(s.prompt, 600)}</p><pre>{_text(s.completion, 1500)}</pre><p class="muted">{_scores(s.scores)}</p></article>'
            for s in part.samples
        )
        columns.append(f"<div><h3>{part.when}, step {part.step}</h3>{cards}</div>")
    if not columns:
        return f'<section class="card"><h2>Samples</h2>{note}</section>'
    source = _text(shown[0].source)
    return f'<section class="plain"><h2>Samples by reward <span class="muted">({source})</span></h2>{note}<div class="samples">{"".join(columns)}</div></section>'


def _scores(scores: Mapping[str, float | None]) -> str:
    return _text(", ".join(f"{k} {'none' if v is None else f'{v:.3g}'}" for k, v in scores.items()), 300)


def _gate(run: Run) -> str:
    gate, without = run.started.get("gate"), run.started.get("without_gate")
    if isinstance(gate, Mapping):
        counts = gate.get("counts") if isinstance(gate.get("counts"), Mapping) else {}
        readers = ", ".join(map(str, gate.get("reviewers") or ())) or "nobody named"
        rows = {"read by": f"{readers} ({gate.get('reviewer_kind', '?')})", "opened": gate.get("at"), **{str(k): v for k, v in counts.items() if isinstance(v, int | float)}}
        body = "".join(f"<tr><th>{_text(k)}</th><td>{_text(v)}</td></tr>" for k, v in rows.items() if v is not None)
        warnings = "".join(f"<li>{_text(w)}</li>" for w in gate.get("warnings") or ())
        return f'<section class="card"><h2>Inspection gate: open</h2><table class="evidence">{body}</table>{f"<ul>{warnings}</ul>" if warnings else ""}</section>'
    if without:
        return f'<section class="card warn"><h2>Inspection gate: trained without it</h2><p>The reason given: {_text(without)}</p></section>'
    return '<section class="card"><h2>Inspection gate</h2><p class="muted">not known from this log</p></section>'


def _settings(run: Run) -> str:
    if not run.config:
        return ""
    rows = differences(run.config)
    if not rows:
        return '<section class="card"><h2>Settings</h2><p>The config is that of the recipe (templates/config.yaml).</p></section>'
    body = "".join(f"<tr><th>{_text(k)}</th><td>{_text(a, 200)}</td><td>{_text(b, 200)}</td></tr>" for k, a, b in rows)
    head = "<tr><th>setting</th><th>recipe</th><th>this run</th></tr>"
    return f'<section class="card"><h2>Settings that differ from the recipe</h2><div class="scroll"><table class="settings">{head}{body}</table></div></section>'


def differences(config: Mapping[str, Any]) -> list[tuple[str, str, str]]:
    """(setting, recipe's value, run's value) of the sections that decide what is learned; 'TRL's default' where nothing is written."""
    try:
        recipe = read_mapping(RECIPE)
    except UserError:
        recipe = {}
    rows = []
    for section in SECTIONS_COMPARED:
        theirs, ours = recipe.get(section), config.get(section)
        if section == "rewards":
            one, two = _rewards(theirs), _rewards(ours)
            rows += [("rewards", one, two)] if one != two else []
            continue
        theirs, ours = ({"": v} if not isinstance(v, dict) else v for v in (theirs, ours))
        for key in sorted({*theirs, *ours}):
            a, b = theirs.get(key, ...), ours.get(key, ...)
            if a != b and not (a is ... and b is None):
                rows.append((f"{section}.{key}".rstrip("."), _value(a), _value(b)))
    return rows


def _value(value: Any) -> str:
    if value is ...:
        return "(default)"
    return json.dumps(value, ensure_ascii=False) if isinstance(value, dict | list) else yaml_value(value)


def _rewards(entries: Any) -> str:
    found = [e for e in entries or () if isinstance(e, dict)]
    return ", ".join(f"{str(e.get('name') or e.get('use')).rpartition('/')[2]} x {e.get('weight', 1.0):g}" for e in found)


def _not_checked(answer: Diagnosis, run: Run) -> str:
    rows = "".join(f"<tr><th><code>{_text(k)}</code></th><td>{_text(v)}</td></tr>" for k, v in answer.not_checked.items())
    unknown = f"<p class='muted'>Metrics that no rule knows: {_text(', '.join(run.log.unknown[:40]), 800)}</p>" if run.log.unknown else ""
    if not rows and not unknown:
        return ""
    return f'<details class="card"><summary>Rules that could not be checked ({len(answer.not_checked)})</summary><div class="scroll"><table class="evidence">{rows}</table></div>{unknown}</details>'


def _numbers(panel: Panel, first: int, last: int) -> dict:
    """What the page's script shows under the pointer: the drawn points of each curve."""
    return {"first": first, "last": last, "curves": [_curve_numbers(c) for c in panel.drawn]}


def _curve_numbers(curve: Curve) -> dict:
    line, _ = thin(curve.series)
    return {"label": visible(fold(curve.label, 60, 1)), "steps": [round(s) for s, _ in line], "values": [float(f"{v:.4g}") for _, v in line]}


def _text(value: Any, chars: int = 400) -> str:
    return html.escape(visible(fold(str(value), chars, 40)))


def _prose(text: str) -> str:
    """Our own sentences: what stands between backticks is code."""
    return re.sub(r"`([^`]+)`", r"<code>\1</code>", _text(text, 1500))


def _json(value: object) -> str:
    """JSON that can stand inside a script element: nothing in it ends the element."""
    return json.dumps(value, ensure_ascii=True, separators=(",", ":")).replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")


def _source(kind: str) -> str:
    return (HERE / f"report.{kind}").read_text(encoding="utf-8")


def _hash(text: str) -> str:
    return base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
