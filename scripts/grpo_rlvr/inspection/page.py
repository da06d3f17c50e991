"""The review page as one HTML text, with a policy that runs its own script and nothing else; and the page with the samples inside."""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path

from grpo_rlvr.cli import write_text
from grpo_rlvr.inspection.jsonl import canonical
from grpo_rlvr.inspection.labels import NAME_CHARS, NOTE_CHARS
from grpo_rlvr.inspection.labels import SCHEMA as LABEL_SCHEMA
from grpo_rlvr.inspection.reading import Reading
from grpo_rlvr.inspection.view import sample_view

HERE = Path(__file__).resolve().parent


@lru_cache(maxsize=1)
def policy() -> str:
    """The content security policy: this page's own style and script by their hashes, requests to its own server, nothing else."""
    return (
        f"default-src 'none'; script-src 'sha256-{_hash(_source('js'))}'; style-src 'sha256-{_hash(_source('css'))}'; connect-src 'self'; "
        "img-src data:; base-uri 'none'; form-action 'none'"
    )


def served_page() -> bytes:
    """The page without any sample or secret in it; it asks its server for them."""
    return _page({"mode": "server", **_limits()}, meta="").encode()


def write_static_page(reading: Reading, path: Path, reviewer: str) -> dict:
    """Write one file with the selected samples inside, which opens from a disk without a server.

    The scores are in it, since the reader sees them after judging, but scrambled: they cannot be read at a glance or found by searching
    for a number. Someone who wants to know them before judging can unscramble them; the blindness protects readers from themselves.

    Returns:
        `file`, `samples`, `bytes`.
    """
    samples = [sample_view(sample, reading.gold_names) for sample in reading.selection]
    scores = [scramble(json.dumps(reading.hidden_score(view["sample_id"])), view["sample_id"]) for view in samples]
    data = {
        "mode": "static",
        "page_id": hashlib.sha256(canonical([view["sample_id"] for view in samples]).encode()).hexdigest()[:12],
        "label_schema": LABEL_SCHEMA,
        "reviewer": reviewer,
        "notice": reading.notice,
        "samples": samples,
        "scores": scores,
        **_limits(),
    }
    # A policy in the file itself holds from file:// too. `connect-src 'self'` is of no use there.
    rules = policy().replace("connect-src 'self'; ", "")
    page = _page(data, f'<meta http-equiv="Content-Security-Policy" content="{rules}">')
    write_text(path, page)
    return {"file": str(path), "samples": len(samples), "bytes": len(page.encode())}


def scramble(text: str, key: str) -> str:
    """Base64 of `text` with each byte changed by a stream that `key` starts (xorshift32 from FNV-1a); the page's script undoes it."""
    state = 0x811C9DC5
    for byte in key.encode():
        state = (state ^ byte) * 0x01000193 & 0xFFFFFFFF
    state, out = state or 1, bytearray()
    for byte in text.encode("ascii"):
        state ^= state << 13 & 0xFFFFFFFF
        state ^= state >> 17
        state ^= state << 5 & 0xFFFFFFFF
        out.append(byte ^ state & 0xFF)
    return base64.b64encode(bytes(out)).decode()


def json_for_html(value: object) -> str:
    """JSON that can stand inside a script element: nothing in it ends the element, starts a comment or is no ASCII."""
    return json.dumps(value, ensure_ascii=True).replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")


def _page(data: Mapping, meta: str) -> str:
    text = (HERE / "review.html").read_text(encoding="utf-8")
    # Data last: what stands in it is never searched for a place to fill.
    for name, filling in (("{{policy}}", meta), ("{{style}}", _source("css")), ("{{script}}", _source("js")), ("{{data}}", json_for_html(data))):
        before, _, after = text.partition(name)
        text = before + filling + after
    return text


def _limits() -> dict:
    return {"note_chars": NOTE_CHARS, "name_chars": NAME_CHARS}


@lru_cache(maxsize=2)
def _source(kind: str) -> str:
    return (HERE / f"review.{kind}").read_text(encoding="utf-8")


def _hash(text: str) -> str:
    return base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
