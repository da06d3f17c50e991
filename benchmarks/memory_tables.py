"""The result of memory_accuracy.py as text: tables for the reference, and for the terminal."""

from __future__ import annotations

import textwrap
from typing import Any


def markdown(result: dict[str, Any]) -> str:
    """The groups as a table, for the reference."""
    rows = [
        f"| {g['title']} | {g['points']} | {g['mean']:+.1%} | {g['mean_absolute']:.1%} | {g['worst']:.1%} |"
        for g in [*result["groups"].values(), {"title": "all exact-config points", **result["exact"]}]
    ]
    sides, runs = result["elsewhere"], len({side["point"] for side in result["elsewhere"]})
    wrong = (
        len(result["verdicts"]) - result["boundaries_right"]["memory_plan.py"] + sum((h["verdict"] != "NO") != (h["seen"] == "fits") for h in sides)
    )
    text = (
        f"Of published runs that fitted or ran out of memory, {len(result['verdicts'])} are described well enough to be planned whole;"
        f" of {runs} of other trainers (verl, Unsloth, an optimizer on the host) {len(sides)} sides are held to the fewest tokens with which"
        f" they fitted, or the most with which they ran out. On the wrong side: {wrong}."
    )
    table = ["| points | number | mean error | mean absolute | worst |", "|---|---|---|---|---|", *rows]
    return "\n".join([*table, "", *textwrap.wrap(text, 140)]) + "\n"


def peers_markdown(result: dict[str, Any]) -> str:
    """The comparison as a table, for the reference."""
    whole = len(result["verdicts"])
    rows = [
        f"| {name} | {e['mean']:+.0%} | {e['mean_absolute']:.0%} | {e['worst']:.0%} | {result['boundaries_right'][name]} of {whole} |"
        for name, e in result["peers"].items()
    ]
    return "\n".join(["| | mean error | mean absolute | worst | fit or not, right |", "|---|---|---|---|---|", *rows]) + "\n"


def show(result: dict[str, Any], every: bool) -> None:
    if every:
        print(f"{'id':<6}{'predicted':>11}{'measured':>11}{'error':>8}  run")
        for r in result["rows"]:
            print(f"{r['id']:<6}{r['predicted']:>11,.2f}{r['measured']:>11,.2f}{r['error']:>8.1%}  {r['run']}")
        print()
    print(f"{'points':>6}{'mean':>8}{'|mean|':>8}{'worst':>8}{'<= 5%':>7}")
    for g in result["groups"].values():
        print(f"{g['points']:>6}{g['mean']:>8.1%}{g['mean_absolute']:>8.1%}{g['worst']:>8.1%}{g['within_5_percent']:>7}  {g['title']}")
    e = result["exact"]
    if e:
        print(f"{e['points']:>6}{e['mean']:>8.1%}{e['mean_absolute']:>8.1%}{e['worst']:>8.1%}{e['within_5_percent']:>7}  all exact-config points")
    print("\nleft out:")
    for reason, count in result["left_out"].items():
        print(f"{count:>6}  {reason}")
    print("\nfit or out of memory, published runs:")
    for name, seen, verdict in result["verdicts"]:
        print(f"  {name}: {seen}; the plan says {verdict}")
    print("\nother trainers, with the fewest tokens they fitted with or the most they ran out with:")
    for h in result["elsewhere"]:
        limit = "" if h["own_limit"] is None else f"; its own limit there: {h['own_limit']} tokens a sequence"
        print(f"  {h['point']} {h['run']}, {h['sequences']} x {h['tokens']}: {h['seen']}; the plan says {h['verdict']}{limit}")
    print("\nnot held to a verdict:")
    for point, reason in result["not_held"].items():
        print(f"  {point}  {reason}")
    whole, sides = len(result["verdicts"]), result["boundaries_right"]
    print(f"\nthe same exact-config steps of whole models, side by side ({next(iter(result['peers'].values()), {}).get('points', 0)} points):")
    print(f"  {'mean':>7}{'|mean|':>8}{'worst':>8}{'<= 5%':>7}{'sides':>9}")
    for name, e in result["peers"].items():
        line = f"  {e['mean']:>+7.0%}{e['mean_absolute']:>8.1%}{e['worst']:>8.0%}{e['within_5_percent']:>7}"
        print(f"{line}{f'{sides[name]} of {whole}':>9}  {name} ({e['how']})")
    times = result["training_times"]
    print(f"\ntraining times inside the plan's interval: {times['inside']} of {times['points']}")
    if "start" in result:
        print("\ncold start, seconds of CPU: " + ", ".join(f"{k} {v:.3f}" for k, v in result["start"].items()))
        bare = result["start"]["import yaml, jsonschema"]
        beyond = ", ".join(f"{name} {result['start'][name] - bare:+.3f} s" for name in ("plan", "fit"))
        print(f"  beyond a bare import of yaml and jsonschema: {beyond} (bar: +0.350 s)")
    for text in result["failures"]:
        print(f"\nNO: {text}")
