"""Isolation for untrusted code, a cache that can be written, and the model hub."""

from __future__ import annotations

import contextlib
import os
import tempfile
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Iterator, Sequence
from pathlib import Path

from grpo_rlvr.environment.check import BLOCKED, OK, WARNING, Check
from grpo_rlvr.errors import GrpoRlvrError

HUB, HUB_S = "https://huggingface.co", 4.0


def isolation_check(sandbox: str | Sequence[str] = "auto", needed: bool = False) -> Check:
    """The sandbox that passes its self-test; without one, what each lacks and how to get one.

    Args:
        needed: the config has a `code` reward.
    """
    from grpo_rlvr.sandbox.opening import find_backend

    try:
        backend = find_backend(sandbox)
    except GrpoRlvrError as exc:
        found = "; ".join(f"{p.where}: {p.message}" for p in exc.problems)
        why = "the config's code reward runs nowhere else" if needed else "only code rewards need it"
        return Check("isolation", BLOCKED if needed else WARNING, f"no sandbox ({why}): {found}", exc.problems[0].fix)
    return Check("isolation", OK, f"{backend.name}, self-test passed", data={"backend": backend.name})


def cache_folder() -> Path:
    """Where models and data from the hub are kept."""
    return Path(os.environ.get("HF_HUB_CACHE") or Path(os.environ.get("HF_HOME") or "~/.cache/huggingface").expanduser() / "hub")


def cache_check() -> Check:
    """Whether it can be written; a folder that is not there yet is tried at its nearest parent, and not made."""
    folder = cache_folder()
    place = folder
    while not place.exists() and place != place.parent:
        place = place.parent
    try:
        with tempfile.TemporaryFile(dir=place):
            pass
    except OSError as exc:
        fix = "export HF_HOME=/a/folder/with/space"
        return Check("cache", WARNING, f"{folder} cannot be written ({exc.strerror or exc}); downloads fail", fix, {"folder": str(folder)})
    return Check("cache", OK, str(folder), data={"folder": str(folder)})


def hub_answers() -> bool:
    """Whether the hub, or the mirror in HF_ENDPOINT, can be asked; waits at most HUB_S."""
    return hub_silent() is None


def hub_silent() -> str | None:
    """Why nothing can be asked of the hub or its mirror, or None. Its own clients would retry for most of a minute before they say so.

    A server that is there and in trouble, or whose certificate is unknown to Python alone, is left to them.
    """
    if _offline():
        return "HF_HUB_OFFLINE is set"
    problem = answers(_endpoint())
    return None if problem is None or problem.startswith(("HTTP ", "[SSL")) else problem


@contextlib.contextmanager
def cache_only(silent: str | None) -> Iterator[None]:
    """While `silent` names a reason, the hub's clients look into their caches and ask nobody; `datasets` has no argument for that.

    Args:
        silent: what `hub_silent` returned.
    """
    import datasets.config
    import huggingface_hub.constants

    places = (datasets.config, huggingface_hub.constants)
    before = [place.HF_HUB_OFFLINE for place in places]
    try:
        for place in places if silent else ():
            place.HF_HUB_OFFLINE = True
        yield
    finally:
        for place, value in zip(places, before, strict=True):
            place.HF_HUB_OFFLINE = value


def _endpoint() -> str:
    return (os.environ.get("HF_ENDPOINT") or HUB).rstrip("/")


def _offline() -> bool:
    return os.environ.get("HF_HUB_OFFLINE", "").lower() in ("1", "on", "yes", "true")


def hub_check(needed_for: Sequence[str] = ()) -> Check:
    """Whether the hub, or the mirror in HF_ENDPOINT, answers.

    Args:
        needed_for: what of the config is not on this machine yet.
    """
    place = _endpoint()
    shown = place if place == HUB else f"{_without_password(place)} (HF_ENDPOINT)"
    want = f"; needed for {', '.join(needed_for)}" if needed_for else ""
    status = BLOCKED if needed_for else WARNING
    if _offline():
        if needed_for:
            return Check("hub", BLOCKED, f"HF_HUB_OFFLINE is set{want}", "unset it, or give local folders")
        return Check("hub", OK, "not asked: HF_HUB_OFFLINE is set", data={"offline": True})
    problem = answers(place)
    if problem is None:
        return Check("hub", OK, shown, data={"endpoint": _without_password(place)})
    fix = "give local folders for model and data and export HF_HUB_OFFLINE=1 (else each start waits for it), or a mirror: export HF_ENDPOINT=https://..."
    return Check("hub", status, f"{shown} does not answer: {problem}{want}", fix)


def answers(place: str) -> str | None:
    """None if a server is there, whatever it says of the page; else what went wrong."""
    if urllib.parse.urlsplit(place).scheme not in ("http", "https"):
        return "not an http address"
    try:
        with urllib.request.urlopen(urllib.request.Request(f"{place}/api/models?limit=1", method="HEAD"), timeout=HUB_S):  # noqa: S310  (http or https)
            return None
    except urllib.error.HTTPError as exc:
        return None if exc.code < 500 and exc.code != 407 else f"HTTP {exc.code}"
    except (OSError, ValueError) as exc:
        return str(getattr(exc, "reason", exc))[:200]


def _without_password(place: str) -> str:
    parts = urllib.parse.urlsplit(place)
    return parts._replace(netloc=parts.netloc.rpartition("@")[2]).geturl()
