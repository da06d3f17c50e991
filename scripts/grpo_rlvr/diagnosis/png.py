"""The report's curves as one picture, drawn by matplotlib."""

from __future__ import annotations

import math
import os
from pathlib import Path

from grpo_rlvr.diagnosis.curves import smoothed, thin
from grpo_rlvr.diagnosis.findings import Diagnosis
from grpo_rlvr.diagnosis.panels import marks, panels
from grpo_rlvr.diagnosis.run import Run
from grpo_rlvr.diagnosis.texts import safe, summary
from grpo_rlvr.errors import Problem, UserError, missing_package

COLOURS = ("#1d5fc4", "#0f8a5f", "#b4600a", "#8a3fb5", "#7a7f88", "#d0362c")
COLUMNS = 3


def write_png(run: Run, answer: Diagnosis, path: Path) -> Path:
    """Draw the panels of the report.

    Raises:
        MissingError: matplotlib is not installed.
        UserError: the log holds nothing to draw.
    """
    try:
        from matplotlib.backends.backend_agg import FigureCanvasAgg
        from matplotlib.figure import Figure
    except ImportError as exc:
        raise missing_package("matplotlib", "--png", "pip install matplotlib (--report needs nothing)") from exc
    drawn, marked = panels(run), marks(answer)
    if not drawn:
        raise UserError("run", Problem(str(run.path), "the log holds nothing to draw yet", "wait for its first lines"))
    rows = math.ceil(len(drawn) / COLUMNS)
    figure = Figure(figsize=(5 * COLUMNS, 2.7 * rows + 0.6), layout="constrained")
    FigureCanvasAgg(figure)
    figure.suptitle(_plain(summary(run, answer)[:160]), fontsize=11, x=0.01, ha="left")
    axes = figure.subplots(rows, COLUMNS, squeeze=False)
    for axis, (key, panel) in zip(axes.flat, drawn.items(), strict=False):
        for curve in panel.drawn:
            line, _ = thin(curve.series)
            colour = COLOURS[curve.colour]
            trend = [] if curve.points else smoothed(line)
            axis.plot(*zip(*line, strict=True), color=colour, alpha=0.3 if trend else 1, linewidth=1, linestyle="--" if curve.points else "-",
                      marker="o" if curve.points else None, markersize=4, label=None if trend else _plain(curve.label))  # fmt: skip
            if trend:
                axis.plot(*zip(*trend, strict=True), color=colour, linewidth=1.6, label=_plain(curve.label))
        for mark in marked.get(key, ()):
            axis.axvline(mark.step, color="#b0231c", linestyle=":", linewidth=1)
            axis.annotate(str(mark.number), (mark.step, 1), xycoords=("data", "axes fraction"), color="#b0231c", ha="center", va="bottom", fontsize=8)
        axis.set_title(panel.title + (f" ({panel.unit})" if panel.unit else ""), fontsize=9, loc="left")
        if panel.lowest is not None:
            bottom, top = axis.get_ylim()
            below = any(c.series.min < panel.lowest for c in panel.drawn)
            # A flat curve far above 0 leaves matplotlib no margin: the frame would lie on it.
            axis.set_ylim(bottom if below else panel.lowest, max(top, panel.lowest + 1.05 * (max(c.series.max for c in panel.drawn) - panel.lowest)))
        axis.set_xlabel("step", fontsize=7, labelpad=1)
        axis.tick_params(labelsize=7)
        axis.grid(alpha=0.3)
        if len(panel.drawn) > 1:
            axis.legend(fontsize=7, frameon=False)
    for axis in axes.flat[len(drawn) :]:
        axis.set_axis_off()
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f".{path.name}.part")
    figure.savefig(temporary, dpi=110, format="png")
    os.replace(temporary, path)
    return path


def _plain(text: str) -> str:
    """Text that matplotlib draws as it stands: `$` would begin a formula."""
    return safe(text).replace("$", r"\$")
