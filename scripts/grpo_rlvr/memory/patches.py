"""Patches to a config: mappings that are laid over it, in which None deletes a key."""

from __future__ import annotations

from typing import Any


def merge(into: dict[str, Any], more: dict[str, Any]) -> None:
    """Add `more` to the patch `into`, mapping by mapping."""
    for key, value in more.items():
        if isinstance(value, dict) and isinstance(into.get(key), dict):
            merge(into[key], value)
        else:
            into[key] = {**value} if isinstance(value, dict) else value


def apply_patch(raw: dict[str, Any], patch: dict[str, Any]) -> dict[str, Any]:
    """The config mapping `raw` with `patch` merged in; None deletes a key."""
    out = dict(raw)
    for key, value in patch.items():
        if value is None:
            out.pop(key, None)
        elif isinstance(value, dict):
            out[key] = apply_patch(out[key] if isinstance(out.get(key), dict) else {}, value)
        else:
            out[key] = value
    return out


def tidy_patch(patch: dict[str, Any], raw: dict[str, Any]) -> dict[str, Any]:
    """`patch` without deletions of what is not there."""
    out: dict[str, Any] = {}
    for key, value in patch.items():
        held = raw.get(key) if isinstance(raw, dict) else None
        if isinstance(value, dict):
            inner = tidy_patch(value, held if isinstance(held, dict) else {})
            if inner:
                out[key] = inner
        elif value is not None or (isinstance(raw, dict) and key in raw):
            out[key] = value
    return out
