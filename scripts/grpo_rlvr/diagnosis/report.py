"""report.html: one file that opens without a network: the answer, the curves with symptoms marked, samples, settings, gate, before and after.

Everything that a model, a dataset or a file wrote is escaped; the page's policy lets nothing load and only its own script run.
"""

from __future__ import annotations

import base64
import hashlib
import json
import re
from collections.abc import Mapping
from pathlib import Path

from grpo_rlvr.cli import write_text
from grpo_rlvr.diagnosis.curves import Curve, Mark, Panel, svg, thin
from grpo_rlvr.diagnosis.findings import Diagnosis, Finding
from grpo_rlvr.diagnosis.panels import marks, panels
from grpo_rlvr.diagnosis.report_sections import before_after_section, escaped, gate_section, samples_section, settings_section
from grpo_rlvr.diagnosis.run import Run
from grpo_rlvr.diagnosis.samples import shown_samples
from grpo_rlvr.diagnosis.texts import patch_lines, summary
from grpo_rlvr.visible import fold, visible

HERE = Path(__file__).resolve().parent


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
        before_after_section(run, answer),
        _curves(drawn, marked, first, last),
        samples_section(samples, remark),
        gate_section(run),
        settings_section(run),
        _not_checked(answer, run),
    ))  # fmt: skip
    style, script = _source("css"), _source("js")
    data = _json({key: _numbers(panel, first, last) for key, panel in drawn.items()})
    rules = f"default-src 'none'; style-src 'sha256-{_hash(style)}'; script-src 'sha256-{_hash(script)}'; base-uri 'none'; form-action 'none'"
    return (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        f'<meta http-equiv="Content-Security-Policy" content="{rules}">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>{escaped(root.resolve().name)}: training report</title>\n<style>{style}</style>\n</head>\n"
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
    shown = "".join(f"<div><dt>{k}</dt><dd>{escaped(v)}</dd></div>" for k, v in facts if v)
    top = f'<h1>{escaped(root.resolve().name)} <span class="verdict {tone}">{word}</span></h1>'
    return f'<header>{top}<p class="lead">{escaped(summary(run, answer))}</p><dl class="facts">{shown}</dl></header>'


def _symptoms(answer: Diagnosis) -> str:
    notes = "".join(f"<li>{escaped(n.text)}</li>" for n in answer.notes)
    notes = f'<ul class="notes">{notes}</ul>' if notes else ""
    if answer.healthy:
        body = f"<p>No rule found a symptom; {answer.checked} rules were checked.</p>"
        return f'<section class="card"><h2>Diagnosis</h2>{body}{notes}</section>'
    return (
        '<section class="plain"><h2>Diagnosis: what to check first</h2>'
        + "".join(_symptom(f, i) for i, f in enumerate(answer.findings, 1))
        + notes
        + "</section>"
    )


def _symptom(finding: Finding, number: int) -> str:
    evidence = "".join(f"<tr><th>{escaped(e.metric)}</th><td>{escaped(e.text)}</td></tr>" for e in finding.evidence)
    patch = "\n".join(patch_lines(finding.patch))
    since = f", since step {finding.since}" if finding.since else ""
    variant = ""
    if finding.variant:
        v = finding.variant
        said = f"{v['why']}. It does nothing when: {v['does_nothing_when']}." + (f" TRL lacks of it: {v['missing']}." if v["missing"] else "")
        variant = f"<p><b>Variant {escaped(v['name'])}:</b> {_prose(said)} Source: {escaped(v['source'])}</p>"
    follows = f'<p class="muted">explains: {escaped("; ".join(finding.follows))}</p>' if finding.follows else ""
    return (
        f'<article class="card symptom"><h3><span class="number">{number}</span>{escaped(finding.rule.title)}</h3>'
        f'<p class="muted"><code>{finding.name}</code>, confidence {finding.confidence}{since}</p>'
        f'<div class="scroll"><table class="evidence">{evidence}</table></div>'
        f"<p><b>Why:</b> {_prose(finding.cause)}.</p><p><b>Do:</b> {_prose(finding.remedy)}.</p>"
        + (f"<pre>{escaped(patch)}</pre>" if patch else "")
        + variant
        + follows
        + f'<p class="muted">What would speak against it: {_prose(finding.doubt)}.</p></article>'
    )


def _curves(drawn: Mapping[str, Panel], marked: Mapping[str, list[Mark]], first: int, last: int) -> str:
    if not drawn:
        return '<section class="card"><h2>Curves</h2><p>The log holds nothing to draw yet.</p></section>'
    figures = []
    for key, panel in drawn.items():
        keys = "".join(f'<li><i class="key c{c.colour}{" round" if c.points else ""}"></i>{escaped(c.label)}</li>' for c in panel.drawn)
        unit = f' <span class="muted">{escaped(panel.unit)}</span>' if panel.unit else ""
        single = len(panel.drawn) == 1 and not panel.drawn[0].points
        legend = "" if single else f'<ul class="legend">{keys}</ul>'
        figures.append(
            f'<figure class="card{" wide" if key == "reward" else ""}" data-panel="{key}"><figcaption>{escaped(panel.title)}{unit}</figcaption>'
            f'{legend}<div class="chart">{svg(panel, marked.get(key, ()), first, last)}</div><output></output></figure>'
        )
    return f'<section class="plain"><h2>Curves over the steps</h2><div class="grid">{"".join(figures)}</div></section>'


def _not_checked(answer: Diagnosis, run: Run) -> str:
    rows = "".join(f"<tr><th><code>{escaped(k)}</code></th><td>{escaped(v)}</td></tr>" for k, v in answer.not_checked.items())
    unknown = f"<p class='muted'>Metrics that no rule knows: {escaped(', '.join(run.log.unknown[:40]), 800)}</p>" if run.log.unknown else ""
    if not rows and not unknown:
        return ""
    table = f'<div class="scroll"><table class="evidence">{rows}</table></div>'
    return f'<details class="card"><summary>Rules that could not be checked ({len(answer.not_checked)})</summary>{table}{unknown}</details>'


def _numbers(panel: Panel, first: int, last: int) -> dict:
    """What the page's script shows under the pointer: the drawn points of each curve."""
    return {"first": first, "last": last, "curves": [_curve_numbers(c) for c in panel.drawn]}


def _curve_numbers(curve: Curve) -> dict:
    line, _ = thin(curve.series)
    return {"label": visible(fold(curve.label, 60, 1)), "steps": [round(s) for s, _ in line], "values": [float(f"{v:.4g}") for _, v in line]}


def _prose(text: str) -> str:
    """Our own sentences: what stands between backticks is code."""
    return re.sub(r"`([^`]+)`", r"<code>\1</code>", escaped(text, 1500))


def _json(value: object) -> str:
    """JSON that can stand inside a script element: nothing in it ends the element."""
    return json.dumps(value, ensure_ascii=True, separators=(",", ":")).replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")


def _source(kind: str) -> str:
    return (HERE / f"report.{kind}").read_text(encoding="utf-8")


def _hash(text: str) -> str:
    return base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
