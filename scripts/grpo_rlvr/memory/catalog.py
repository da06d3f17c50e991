"""Where a model's shape comes from: a folder, a config.json, the bundled list, or the local Hugging Face cache. Nothing is downloaded."""

from __future__ import annotations

import json
import os
from functools import lru_cache
from pathlib import Path
from typing import Any

from grpo_rlvr.errors import MissingError, Problem, UserError
from grpo_rlvr.memory.model_config import read_shape
from grpo_rlvr.memory.shape import ModelShape
from grpo_rlvr.schema_check import nearest

FILE = Path(__file__).resolve().parent / "shapes.json"
MAX_BYTES = 5_000_000  # of a config.json


@lru_cache(maxsize=1)
def _bundled() -> dict[str, Any]:
    return json.loads(FILE.read_text(encoding="utf-8"))


def bundled_names() -> list[str]:
    """The models whose shapes are here (others of the same shape are found too)."""
    return list(_bundled()["models"])


@lru_cache(maxsize=256)
def bundled_shape(name: str) -> ModelShape | None:
    """The bundled shape of a hub name, or of its last part if that names only one model."""
    data = _bundled()
    names = {n.lower(): n for n in (*data["models"], *data["same_shape"])}
    wanted = name.lower()
    if wanted not in names:
        ends = sorted({n for low, n in names.items() if low.rpartition("/")[2] == wanted})
        if len(ends) != 1:
            return None
        wanted = ends[0].lower()
    found = names[wanted]
    return read_shape(data["models"][data["same_shape"].get(found, found)], found)


def bundled_fields(name: str) -> dict[str, Any]:
    """The config of a bundled model, by its exact name."""
    data = _bundled()
    return {k: v for k, v in data["models"][data["same_shape"].get(name, name)].items() if k not in ("parameters", "source")}


def find_shape(name: str, base: Path, as_type: str | None = None) -> ModelShape:
    """The shape of `name`: a folder or a config.json (relative to `base`), else a bundled or cached hub name.

    Args:
        as_type: read the fields as this architecture's, for one that is not known but built alike.

    Raises:
        UserError: the file cannot be read, the architecture is not known or fields are missing.
        MissingError: nothing is known of this name on this machine.
    """
    path = _local(name, base)
    if path:
        return _from_file(path, as_type)
    found = bundled_shape(name)
    if found and as_type and as_type != found.model_type:
        message = f"'{name}' is known, as {found.model_type}; --as {as_type} reads a config.json of an architecture that is not"
        raise UserError("usage", Problem("--as", message, "leave --as out, or name the config.json"))
    if found:
        return found
    cached = _cached(name)
    if cached:
        return _from_file(cached, as_type)
    hint = nearest(name, [*bundled_names(), *_bundled()["same_shape"]], "")
    fix = f"give its config.json (--model path/to/config.json), or fetch it: hf download {name} config.json" + (f"; {hint}" if hint else "")
    raise MissingError("model", Problem("model.name_or_path", f"the shape of '{name}' is neither bundled nor in the local cache", fix))


def _local(name: str, base: Path) -> Path | None:
    """The config.json that `name` means as a path, there or not; None where it can only be a hub name."""
    written_as_path = name.startswith((".", "/", "~")) or name.endswith(".json")
    try:
        path = Path(name).expanduser()
        path = path if path.is_absolute() else base / path
        if path.is_dir():
            inside = path / "config.json"
            return inside if written_as_path or inside.is_file() else None
        return path if written_as_path or path.exists() else None
    except (OSError, ValueError, RuntimeError):  # too long for a path, a null byte, nobody's home
        return None


def _text(path: Path) -> str:
    """The file's text; a pipe or a device is never read.

    Raises:
        UserError: it is not there, cannot be read, or is no file of a config's size.
    """
    give = "give the model's folder or config.json"
    try:
        if not path.is_file():
            adapters = (path.parent / "adapter_config.json").is_file()
            why = "is no ordinary file" if path.exists() else "is not there"
            raise UserError("model", Problem(str(path), why, "these are adapters: name their base model" if adapters else give))
        if path.stat().st_size > MAX_BYTES:
            raise UserError("model", Problem(str(path), "is too large for a config.json", "name the config.json, not the weights"))
        return path.read_bytes().decode("utf-8-sig")
    except OSError as exc:
        raise UserError("model", Problem(str(path), f"cannot be read: {exc.strerror or exc}", give)) from None
    except UnicodeDecodeError as exc:
        raise UserError("model", Problem(str(path), f"is no JSON: {exc}", give)) from None


def _from_file(path: Path, as_type: str | None) -> ModelShape:
    where = str(path.parent.name if path.name == "config.json" else path.name)
    text = _text(path)
    try:
        config = json.loads(text)
    except (ValueError, RecursionError) as exc:
        raise UserError("model", Problem(str(path), f"is no JSON: {exc}", "give the model's config.json")) from None
    if not isinstance(config, dict):
        raise UserError("model", Problem(str(path), f"holds a {type(config).__name__}, not an object", "give the model's config.json"))
    if as_type:
        inner = next((k for k in ("text_config", "language_config", "llm_config") if isinstance(config.get(k), dict)), None)
        config = {**config, inner: {**config[inner], "model_type": as_type}} if inner else {**config, "model_type": as_type}
    return read_shape(config, where)


def _cached(name: str) -> Path | None:
    """The config.json of a hub model that was downloaded before."""
    if name.count("/") > 1 or ".." in name:
        return None
    home = os.environ.get("HF_HUB_CACHE") or os.path.join(os.environ.get("HF_HOME") or os.path.expanduser("~/.cache/huggingface"), "hub")
    snapshots = Path(home) / ("models--" + name.replace("/", "--")) / "snapshots"
    try:
        found = sorted(snapshots.glob("*/config.json"), key=lambda p: p.stat().st_mtime)
    except (OSError, ValueError):  # a name that can be no path: Python 3.13 says so here
        return None
    return found[-1] if found else None
