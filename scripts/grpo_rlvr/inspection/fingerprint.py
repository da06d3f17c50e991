"""What a gate's verdict rests on, as hashes: reward code, reward settings, data, model, verifying libraries.

Files are named from their outermost package on, never by their place: a project that is moved keeps its fingerprint.
"""

from __future__ import annotations

import dataclasses
import hashlib
import importlib.metadata
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from grpo_rlvr.config import Config
from grpo_rlvr.inspection.jsonl import canonical, sha256
from grpo_rlvr.inspection.model_files import model_part
from grpo_rlvr.reward_uses import LIBRARIES, USES
from grpo_rlvr.sections import FILE_ARGS

SAID = {"reward_settings": "reward settings changed", "data": "training data changed"}


def fingerprint(config: Config, rewards: Sequence, rows: Sequence[dict]) -> dict:
    """Hashes of everything the gate's answer depends on.

    Args:
        rewards: what `build_rewards` returned.
        rows: all training rows, as `load_rows(config, "train")` returns them.
    """
    return {**reward_parts(config, rewards), "data": sha256(list(rows)), "model": model_part(config)}


def reward_parts(config: Config, rewards: Sequence) -> dict:
    """The part that decides scores: `reward_code` {file: sha256}, `reward_settings` and `versions`."""
    files = sorted({Path(f).resolve() for reward in rewards for f in reward.source_files})
    code: dict[str, str] = {}
    for path in files:
        name, digest = _file_name(path), hashlib.sha256(path.read_bytes().replace(b"\r\n", b"\n")).hexdigest()  # git may change line ends
        # Two files in different folders may share a bare name.
        code[name] = digest if name not in code else sha256(sorted([code[name], digest]))
    sections = [_plain(section) for section in config.rewards]
    for section in sections:
        _make_portable(section, config)
    settings = {"rewards": sections, "pass_threshold": config.inspection.pass_threshold}
    return {"reward_code": code, "reward_settings": sha256(settings), "versions": {lib: _version(lib) for lib in _libraries(config)}}


def _libraries(config: Config) -> list[str]:
    """The libraries that decide a score of these rewards; a user's function, or one that wraps another, may use any of ours."""
    decide = [USES[section.use].libraries if section.use in USES else None for section in config.rewards]
    return LIBRARIES if None in decide else sorted({lib for libs in decide for lib in libs})


def differences(old: Mapping[str, Any], new: Mapping[str, Any]) -> list[str]:
    """What changed from one fingerprint (or one of its parts) to another, in words; empty if nothing did."""
    said = _file_changes("reward code", old.get("reward_code") or {}, new.get("reward_code") or {})
    said += [words for part, words in SAID.items() if old.get(part) != new.get(part)]
    before, after = old.get("model") or {}, new.get("model") or {}
    if bool(before.get("files")) != bool(after.get("files")) or before.get("name_or_path") != after.get("name_or_path"):
        said.append(f"model changed: {_model_name(before)} -> {_model_name(after)}")
    elif before.get("revision") != after.get("revision"):
        said.append(f"model revision changed: {before.get('revision')} -> {after.get('revision')}")
    said += _file_changes("model", before.get("files") or {}, after.get("files") or {})
    old_versions, new_versions = old.get("versions") or {}, new.get("versions") or {}
    said += [
        f"{lib} changed: {old_versions.get(lib) or 'absent'} -> {new_versions.get(lib) or 'absent'}"
        for lib in sorted({*old_versions, *new_versions})
        if old_versions.get(lib) != new_versions.get(lib)
    ]
    return said


def is_reward_parts(value: Any) -> bool:
    """Whether a value read from a file has the shape of `reward_parts`."""
    return isinstance(value, Mapping) and all(isinstance(value.get(k), Mapping) for k in ("reward_code", "versions"))


def is_fingerprint(value: Any) -> bool:
    """Whether a value read from a file has the shape of `fingerprint`."""
    model = value.get("model") if is_reward_parts(value) else None
    return isinstance(model, Mapping) and isinstance(model.get("files"), Mapping)


def _file_changes(what: str, old: Mapping, new: Mapping) -> list[str]:
    changed = [f for f in sorted({*old, *new}) if old.get(f) != new.get(f)]
    return [f"{what} {'added' if f not in old else 'removed' if f not in new else 'changed'}: {f}" for f in changed]


def _model_name(part: Mapping) -> str:
    return part.get("name_or_path") or ("a local folder" if part.get("files") else "nothing")


def _file_name(path: Path) -> str:
    """The file's name as a module would be found: from its outermost package on, or the bare name."""
    root = path.parent
    while (root / "__init__.py").is_file() and root != root.parent:
        root = root.parent
    return path.relative_to(root).as_posix()


def _make_portable(section: dict, config: Config) -> None:
    """Takes the places of files out of a rewards section, of one inside it too; what the files hold is in `reward_code`."""
    section["use"], args = _portable_use(section["use"], config), section.get("args") or {}
    for key in FILE_ARGS.get(section["use"], ()):
        if isinstance(args.get(key), str):
            args[key] = _file_name(config.resolve(args[key]).resolve())
    if section["use"] == "length" and isinstance(args.get("use"), str):
        _make_portable(args, config)


def _portable_use(use: str, config: Config) -> str:
    """`use` without the place of the file on this disk."""
    file, colon, function = use.rpartition(":")
    return _file_name(config.resolve(file).resolve()) + colon + function if file.endswith(".py") else use


def _plain(value: Any) -> Any:
    """Dataclasses and read-only mappings as plain JSON values."""
    if dataclasses.is_dataclass(value):
        return {f.name: _plain(getattr(value, f.name)) for f in dataclasses.fields(value)}
    if isinstance(value, Mapping):
        return {str(k): _plain(v) for k, v in value.items()}
    return [_plain(v) for v in value] if isinstance(value, list | tuple) else value


def _version(library: str) -> str | None:
    try:
        return importlib.metadata.version(library)
    except importlib.metadata.PackageNotFoundError:
        return None


def same(old: Any, new: Any) -> bool:
    """Equal as JSON (a tuple equals a list)."""
    return canonical(old) == canonical(new)
