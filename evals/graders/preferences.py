"""Pairs of replies: a task for preference optimisation, not for verifiable rewards."""

from __future__ import annotations

from graders.left import Left
from graders.task import Outcome
from graders.words import mentions, said, says

METHODS = (r"\bDPO\b", r"direct preference", r"preference (?:optimi[sz]ation|tuning|learning)", r"\b(?:KTO|ORPO|SimPO|IPO)\b")
UNCHECKABLE = (
    r"\b(?:no|not|n['’]t|never|cannot|isn['’]t|nothing|without)\b[^.\n]{0,80}\b(?:verif|check|program|objective)\w*",
    r"\b(?:no|not|n['’]t|never|isn['’]t|without)\b[^.\n]{0,80}\b(?:right answer|ground[- ]truth|correct answer)",
    r"\btaste\b",
    r"\bonly (?:be )?compar\w+",
    r"\bonly\b[^.\n]{0,40}\bwhich\b[^.\n]{0,40}\b(?:prefer|like|better)\w*",
    r"\bunverifiable",
    r"\bsubjective",
)


def grade(left: Left) -> list[Outcome]:
    made = [left.name(p) for p in left.new_files() if p.name in ("rewards.py", "reward.py") or "GRPOTrainer" in _code(left, p)]
    config, _ = left.read_config
    made += ["config.yaml with rewards"] * bool(config and config.rewards)
    return [
        said(says(left.said, *METHODS), "that preference optimisation is the method"),
        said(mentions(left.said, *UNCHECKABLE), "that no program can check the replies"),
        (not made, "; ".join(made) or "no reward, no GRPO config"),
    ]


def _code(left: Left, path) -> str:
    return left.text(path.relative_to(left.folder)) if path.suffix in (".py", ".sh", ".ipynb") else ""
