"""Curves as inline SVG: no script, no font, no picture file. Text in them is escaped."""

from __future__ import annotations

import html
import math
from collections.abc import Sequence
from dataclasses import dataclass

from grpo_rlvr.diagnosis.series import Series
from grpo_rlvr.visible import fold, visible

WIDTH, HEIGHT = 440, 200
LEFT, RIGHT, TOP, BOTTOM = 54, 12, 10, 26  # report.js has the same numbers
POINTS = 400  # at most so many points of a curve; a longer one is drawn by the means of its stretches


@dataclass(frozen=True)
class Curve:
    """One line: its label, its values, and which of the page's colours (0 to 5) it has. `points` draws dots: few values, as of evaluations."""

    label: str
    series: Series
    colour: int = 0
    points: bool = False


@dataclass(frozen=True)
class Mark:
    """A symptom at a step."""

    step: int
    label: str
    number: int


@dataclass(frozen=True)
class Panel:
    """One picture: curves that share a scale. `lowest`/`highest` widen the scale to hold these values."""

    title: str
    unit: str
    curves: Sequence[Curve]
    lowest: float | None = None
    highest: float | None = None

    @property
    def drawn(self) -> list[Curve]:
        return [curve for curve in self.curves if len(curve.series)]


def thin(series: Series) -> tuple[list[tuple[float, float]], list[tuple[float, float, float]]]:
    """(points of the line, (step, low, high) of each stretch) with at most POINTS entries."""
    n = len(series)
    if n <= POINTS:
        return list(zip(series.steps, series.values, strict=True)), []
    width = math.ceil(n / POINTS)
    line, band = [], []
    for i in range(0, n, width):
        values, steps = series.values[i : i + width], series.steps[i : i + width]
        step = (steps[0] + steps[-1]) / 2
        line.append((step, math.fsum(values) / len(values)))
        band.append((step, min(values), max(values)))
    return line, band


def smoothed(points: Sequence[tuple[float, float]]) -> list[tuple[float, float]]:
    """A running mean over a twentieth of the run, so that the trend shows through the noise; empty for a short curve."""
    n = len(points)
    half = n // 40
    if half < 1:
        return []
    sums = [0.0]
    for _, value in points:
        sums.append(sums[-1] + value)
    return [(points[i][0], (sums[min(n, i + half + 1)] - sums[max(0, i - half)]) / (min(n, i + half + 1) - max(0, i - half))) for i in range(n)]


def ticks(low: float, high: float, count: int = 4) -> list[float]:
    """Round numbers between `low` and `high`."""
    span = high - low
    raw = span / count
    size = 10 ** math.floor(math.log10(raw))
    step = next(m * size for m in (1, 2, 2.5, 5, 10) if m * size >= raw * 0.999)
    first = math.ceil(low / step - 1e-9)
    return [round(i * step, 12) for i in range(first, math.floor(high / step + 1e-9) + 1)]


def short(value: float) -> str:
    """A number for an axis: 12.5k, 0.3, 1e-6."""
    size = abs(value)
    if size >= 1e6:
        return f"{value / 1e6:g}M"
    if size >= 1e4:
        return f"{value / 1e3:g}k"
    return f"{value:.4g}" if size >= 1e-3 or value == 0 else f"{value:.0e}"


def svg(panel: Panel, marks: Sequence[Mark], first: int, last: int) -> str:
    """The panel over the steps `first` to `last`."""
    first, last = (first - 1, last + 1) if first == last else (first, last)
    lows = [c.series.min for c in panel.drawn] + ([panel.lowest] if panel.lowest is not None else [])
    highs = [c.series.max for c in panel.drawn] + ([panel.highest] if panel.highest is not None else [])
    low, high = min(lows), max(highs)
    log = low > 0 and high / low > 1000 and panel.lowest is None
    if high - low < 1e-9 * max(1.0, abs(high)):
        low, high = low - 0.5 * max(abs(low), 1e-3), high + 0.5 * max(abs(high), 1e-3)
    to = math.log10 if log else float
    bottom, top = to(low), to(high)
    pad = 0.04 * (top - bottom)
    bottom, top = bottom - pad * (panel.lowest is None or low < panel.lowest), top + pad
    span = max(1, last - first)

    def x(step: float) -> float:
        return LEFT + (step - first) / span * (WIDTH - LEFT - RIGHT)

    def y(value: float) -> float:
        return TOP + (top - to(value)) / (top - bottom) * (HEIGHT - TOP - BOTTOM)

    levels = [10.0**e for e in range(math.ceil(bottom), math.floor(top) + 1)][:: max(1, int((top - bottom) / 4))] if log else ticks(bottom, top, 5)
    parts = []
    for value in levels:
        parts.append(f'<line class="grid" x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{y(value):.1f}" y2="{y(value):.1f}"/>')
        parts.append(f'<text class="tick" x="{LEFT - 5}" y="{y(value) + 4.5:.1f}" text-anchor="end">{short(value)}</text>')
    for value in ticks(first, last, 5):
        if value == int(value):
            parts.append(f'<text class="tick" x="{x(value):.1f}" y="{HEIGHT - 8}" text-anchor="{_anchor(x(value))}">{short(value)}</text>')
    for mark in marks:
        at = x(min(max(mark.step, first), last))
        parts.append(
            f'<g class="mark"><line x1="{at:.1f}" x2="{at:.1f}" y1="{TOP}" y2="{HEIGHT - BOTTOM}"/><circle cx="{at:.1f}" cy="{TOP + 7}" r="7"/>'
        )
        parts.append(
            f'<text x="{at:.1f}" y="{TOP + 10.5}" text-anchor="middle">{mark.number}</text><title>step {mark.step}: {_label(mark.label)}</title></g>'
        )
    for curve in panel.drawn:
        parts += _curve(curve, x, y)
    names = ", ".join(_label(c.label) for c in panel.drawn)
    label = f"{_label(panel.title)}: {names}"
    return f'<svg viewBox="0 0 {WIDTH} {HEIGHT}" role="img" aria-label="{label}">{"".join(parts)}</svg>'


def _anchor(x: float) -> str:
    """The last label ends at its tick, so that the picture's edge cuts none."""
    return "end" if x > WIDTH - 2 * RIGHT else "middle"


def _label(text: str) -> str:
    return html.escape(visible(fold(text, 120, 1)))


def _curve(curve: Curve, x, y) -> list[str]:
    line, band = thin(curve.series)
    colour = f"c{curve.colour}"
    if curve.points:
        drawn = [f'<polyline class="dashed {colour}" points="{_points(line, x, y)}"/>']
        for step, value in line:
            drawn.append(
                f'<circle class="dot {colour}" cx="{x(step):.1f}" cy="{y(value):.1f}" r="3.5">'
                f"<title>{_label(curve.label)} at step {step:g}: {value:.4g}</title></circle>"
            )
        return drawn
    drawn = []
    if band:
        there = [(s, h) for s, _, h in band] + [(s, low) for s, low, _ in reversed(band)]
        drawn.append(f'<polygon class="band {colour}" points="{_points(there, x, y)}"/>')
    trend = smoothed(line)
    drawn.append(f'<polyline class="{"faint" if trend else "line"} {colour}" points="{_points(line, x, y)}"/>')
    if trend:
        drawn.append(f'<polyline class="line {colour}" points="{_points(trend, x, y)}"/>')
    return drawn


def _points(points: Sequence[tuple[float, float]], x, y) -> str:
    return " ".join(f"{x(s):.1f},{y(v):.1f}" for s, v in points)
