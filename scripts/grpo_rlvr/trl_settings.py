"""Which settings the installed TRL's `GRPOConfig` has, read from its source text: nothing is imported, no torch.

`python -m grpo_rlvr.trl_settings --write` regenerates the bundled snapshot (used where TRL is not installed) and the
`grpo` part of the config's JSON Schema.
"""

from __future__ import annotations

import argparse
import ast
import importlib.metadata
import importlib.util
import json
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

from grpo_rlvr.trl_removed import REMOVED, Removed

__all__ = ["REMOVED", "Removed", "Setting", "Settings", "read_settings", "read_snapshot", "settings", "snapshot_data"]

HERE = Path(__file__).resolve().parent
SNAPSHOT = HERE / "trl_settings.json"


@dataclass(frozen=True)
class Setting:
    """One field of `GRPOConfig`. `default` is None also where the source computes it; `choices` is () where any value goes."""

    name: str
    annotation: str
    default: Any = None
    choices: tuple[str, ...] = ()
    help: str = ""


@dataclass(frozen=True)
class Settings:
    """All settings by name, with the versions they were read from; `installed` is False for the bundled snapshot."""

    by_name: dict[str, Setting]
    trl: str
    transformers: str
    installed: bool

    @property
    def label(self) -> str:
        """How messages name the version: says so where it is not what this machine would run."""
        return f"TRL {self.trl}" + ("" if self.installed else " (the bundled list; TRL is not installed here)")


@lru_cache(maxsize=1)
def settings() -> Settings:
    """The installed TRL's settings, or the bundled snapshot's where its source is not here."""
    trl, transformers = _folder("trl"), _folder("transformers")
    if trl and transformers and (trl / "trainer" / "grpo_config.py").is_file():
        found = read_settings(trl, transformers)
        if "num_generations" in found and "learning_rate" in found:
            return Settings(found, _version("trl") or "of unknown version", _version("transformers") or "", installed=True)
    return read_snapshot(SNAPSHOT)


def read_settings(trl: Path, transformers: Path) -> dict[str, Setting]:
    """Fields of `GRPOConfig` and its bases from the two packages' source folders, base class first, as dataclasses order them."""
    enums = _enums([transformers / "trainer_utils.py", transformers / "training_args.py", transformers / "debug_utils.py"])
    found: dict[str, Setting] = {}
    for path, name in reversed(_lineage(trl / "trainer" / "grpo_config.py", "GRPOConfig", transformers)):
        body = next(n for n in _parse(path).body if isinstance(n, ast.ClassDef) and n.name == name)
        constants = {t.id: n.value for n in ast.walk(body) if isinstance(n, ast.Assign) for t in n.targets if isinstance(t, ast.Name)}
        for node in body.body:
            if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name) and "ClassVar" not in ast.unparse(node.annotation):
                found[node.target.id] = _setting(node, constants, enums)
    return found


def _setting(node: ast.AnnAssign, constants: dict[str, ast.expr], enums: dict[str, tuple[str, ...]]) -> Setting:
    annotation = ast.unparse(node.annotation)
    keywords: dict[str, ast.expr] = {}
    if isinstance(node.value, ast.Call):
        keywords = {k.arg: k.value for k in node.value.keywords if k.arg}
    elif node.value is not None:
        keywords = {"default": node.value}
    metadata = _literal(keywords.get("metadata"), {}) or {}
    default = keywords.get("default")
    default = _literal(constants.get(default.id, default) if isinstance(default, ast.Name) else default)
    names = {n.id for n in ast.walk(node.annotation) if isinstance(n, ast.Name)}
    choices = next((enums[n] for n in sorted(names) if n in enums and "list" not in names), ())
    return Setting(node.target.id, annotation, default, choices, str(metadata.get("help", "")))


def _lineage(path: Path, name: str, transformers: Path) -> list[tuple[Path, str]]:
    """(file, class) of `name` and its bases, nearest first, followed through the imports of each file."""
    tree = _parse(path)
    body = next((n for n in tree.body if isinstance(n, ast.ClassDef) and n.name == name), None)
    if body is None:
        return []
    out = [(path, name)]
    imports = {a.asname or a.name: (n, a.name) for n in tree.body if isinstance(n, ast.ImportFrom) for a in n.names}
    for base in body.bases:
        node, original = imports.get(getattr(base, "id", ""), (None, ""))
        if node is not None and node.module and node.module.split(".")[0] == "transformers" and not node.level:
            out += _lineage(transformers / "training_args.py", original, transformers)
        elif node is not None and node.level and node.module:
            out += _lineage(path.parents[node.level - 1].joinpath(*node.module.split(".")).with_suffix(".py"), original, transformers)
    return out


def _enums(paths: list[Path]) -> dict[str, tuple[str, ...]]:
    """Text values of the enum classes in these files."""
    out = {}
    for path in filter(Path.is_file, paths):
        for node in _parse(path).body:
            if isinstance(node, ast.ClassDef) and any(getattr(b, "id", "").endswith("Enum") for b in node.bases):
                values = tuple(_literal(n.value) for n in node.body if isinstance(n, ast.Assign))
                if values and all(isinstance(v, str) for v in values):
                    out[node.name] = values
    return out


@lru_cache(maxsize=8)
def _parse(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"))


def _literal(node: ast.expr | None, otherwise: Any = None) -> Any:
    try:
        return ast.literal_eval(node) if node is not None else otherwise
    except (ValueError, TypeError):
        return otherwise


def _folder(package: str) -> Path | None:
    try:
        # A top-level name is looked up without running the package's code.
        spec = importlib.util.find_spec(package)
    except (ImportError, ValueError):
        return None
    return Path(spec.origin).parent if spec and spec.origin else None


def _version(package: str) -> str | None:
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return None


def read_snapshot(path: Path) -> Settings:
    """The settings in a file written by `snapshot_data`."""
    data = json.loads(path.read_text(encoding="utf-8"))
    by_name = {n: Setting(n, s["type"], s.get("default"), tuple(s.get("choices", ()))) for n, s in data["settings"].items()}
    return Settings(by_name, data["trl"], data["transformers"], installed=False)


def snapshot_data(found: Settings) -> dict:
    """What the bundled snapshot holds: names, types, defaults and choices. The help texts are TRL's and stay there."""
    rows = {
        s.name: {
            "type": s.annotation,
            **({"default": s.default} if s.default is not None else {}),
            **({"choices": list(s.choices)} if s.choices else {}),
        }
        for s in found.by_name.values()
    }
    return {"trl": found.trl, "transformers": found.transformers, "settings": rows}


def _write() -> list[Path]:
    from grpo_rlvr import grpo_section
    from grpo_rlvr.cli import write_json, write_text
    from grpo_rlvr.rewards.registry import REGISTRY
    from grpo_rlvr.training.variants import VARIANTS

    write_json(SNAPSHOT, "trl-settings", 1, snapshot_data(settings()))
    written = [SNAPSHOT, HERE / "config.schema.json"]
    schema = json.loads(written[1].read_text(encoding="utf-8"))
    schema["properties"]["grpo"]["properties"] = grpo_section.editor_properties(read_snapshot(SNAPSHOT))
    schema["properties"]["variant"]["enum"] = [*VARIANTS, None]
    schema["properties"]["rewards"]["items"]["properties"]["use"]["examples"] = [*REGISTRY, "rewards.py:my_reward"]
    if (HERE.parents[1] / "templates").is_dir():
        written.append(HERE.parents[1] / "templates" / "config.schema.json")
    for path in written[1:]:
        write_text(path, json.dumps(schema, indent=1, ensure_ascii=False) + "\n")
    return written


def main() -> int:
    """Print the settings' versions, or with `--write` regenerate the bundled files."""
    options = argparse.ArgumentParser(
        prog="python -m grpo_rlvr.trl_settings", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    options.add_argument(
        "--write", action="store_true", help="write trl_settings.json and, in config.schema.json, grpo and the names of variants and rewards"
    )
    args = options.parse_args()
    found = settings()
    print(f"{found.label}, transformers {found.transformers}: {len(found.by_name)} settings")
    if args.write and not found.installed:
        print("nothing written: TRL is not installed here")
        return 3
    for path in _write() if args.write else []:
        print(f"wrote {path}")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
