"""Findings that the config accepts with a written reason (`inspection.accept`): they stay visible and no longer shut the gate."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from grpo_rlvr.sections import AcceptedProbe


def with_waivers(findings: Sequence[dict], accept: Sequence[AcceptedProbe]) -> list[dict]:
    """The findings; those that are accepted have a key `accepted` with the reason. What is fine needs no waiver and gets none."""
    reasons = {a.probe: a.reason for a in accept}
    return [{**f, "accepted": reasons[f["probe"]]} if f["probe"] in reasons and f["severity"] != "ok" else f for f in findings]


def accepted(findings: Sequence[Mapping]) -> list[dict]:
    """What was accepted: `probe`, `severity`, `message`, `reason`."""
    return [{**{k: f[k] for k in ("probe", "severity", "message")}, "reason": f["accepted"]} for f in findings if f.get("accepted")]


def open_errors(findings: Sequence[Mapping]) -> list[Mapping]:
    """Errors that nobody has accepted."""
    return [f for f in findings if f["severity"] == "error" and not f.get("accepted")]


def waiver_warnings(findings: Sequence[Mapping], accept: Sequence[AcceptedProbe]) -> list[str]:
    """Each accepted finding with its reason, and each waiver that accepts nothing."""
    said = [f"probe {f['probe']} ({f['severity']}) is accepted: {f['accepted']}; it said: {f['message']}" for f in findings if f.get("accepted")]
    found = {f["probe"] for f in findings if f["severity"] != "ok"}
    said += [f"inspection.accept names the probe {a.probe}, which found nothing: delete the line" for a in accept if a.probe not in found]
    return said


def lost_waivers(gate: Mapping, accept: Sequence[AcceptedProbe]) -> list[str]:
    """Probes whose errors were accepted when the gate was decided and are so no longer."""
    now = {a.probe for a in accept}
    return sorted({a["probe"] for a in gate.get("accepted") or [] if a["severity"] == "error" and a["probe"] not in now})
