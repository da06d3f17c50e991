"""Where the config's model is, and what identifies it."""

from __future__ import annotations

import hashlib
from pathlib import Path

from grpo_rlvr.config import Config, looks_like_hub_name
from grpo_rlvr.errors import Problem, UserError

WHOLE_FILE = 64 * 2**20  # up to here the content is hashed; of larger files the size and blocks spread from the first byte to the last
BLOCK, BLOCKS = 2**20, 64


def model_folder(config: Config) -> Path | None:
    """The local folder that `model.name_or_path` means, or None for a name on the hub.

    Raises:
        UserError: it looks like a local path and nothing is there, or it is no model folder.
    """
    name = config.model.name_or_path
    folder = config.resolve(name)
    if folder.is_dir():
        if not any((folder / f).is_file() for f in ("config.json", "adapter_config.json")):
            raise UserError("model", Problem("model.name_or_path", f"{folder} holds no config.json", "give the folder that save_pretrained wrote"))
        if not (folder / "config.json").is_file():
            fix = "merge it into its base model first (peft: merge_and_unload, save_pretrained) and give that folder"
            raise UserError("model", Problem("model.name_or_path", f"{folder} holds a LoRA adapter, not a model", fix))
        return folder
    if not looks_like_hub_name(name) or (config.base / name.split("/")[0]).is_dir():
        fix = "correct the path (it is relative to the config file), or give a hub name of the form owner/name"
        raise UserError("model", Problem("model.name_or_path", f"there is no folder {folder} (written as '{name}')", fix))
    return None


def model_part(config: Config) -> dict:
    """The model's part of a fingerprint: `name_or_path`, `revision`, `files` {name: {size, sha256}} (empty for a hub name).

    A local folder is identified by its files alone, so its place on the disk does not matter.
    """
    folder = model_folder(config)
    if folder is None:
        return {"name_or_path": config.model.name_or_path, "revision": config.model.revision, "files": {}}
    files = {}
    for path in sorted(folder.rglob("*")):
        name = path.relative_to(folder)
        if path.is_file() and not any(part.startswith(".") for part in name.parts):
            files[name.as_posix()] = {"size": path.stat().st_size, "sha256": _digest(path)}
    return {"name_or_path": None, "revision": None, "files": files}


def _digest(path: Path) -> str:
    digest = hashlib.sha256()
    size = path.stat().st_size
    with open(path, "rb") as source:
        if size <= WHOLE_FILE:
            while block := source.read(BLOCK):
                digest.update(block)
        else:
            digest.update(str(size).encode())
            for i in range(BLOCKS):
                source.seek(i * (size - BLOCK) // (BLOCKS - 1))
                digest.update(source.read(BLOCK))
    return digest.hexdigest()
