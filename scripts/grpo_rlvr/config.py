"""One YAML file -> frozen dataclasses. Every problem is reported at once; TRL's own settings pass through, checked.

The shape is config.schema.json (templates/ has an identical copy for editors). Paths stay as they were written and are
relative to the config's folder: use `Config.resolve`.
"""

from __future__ import annotations

import dataclasses
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import Any

from grpo_rlvr import grpo_section, schema_check, yaml_file
from grpo_rlvr.errors import Problem, UserError
from grpo_rlvr.hazards import hazards
from grpo_rlvr.sections import (
    FILE_ARGS,
    AcceptedProbe,
    DataSection,
    HardwareSection,
    InspectionSection,
    LoraSection,
    ModelSection,
    RewardSection,
    RunSection,
    ServerSection,
    VllmServerSection,
)
from grpo_rlvr.trl_settings import settings
from grpo_rlvr.variant_section import with_variant

__all__ = [
    "AcceptedProbe", "Config", "DataSection", "HardwareSection", "InspectionSection", "LoraSection", "ModelSection", "RewardSection", "RunSection",
    "ServerSection", "VllmServerSection",
    "config_from", "config_to_yaml", "load_config", "plain",
]  # fmt: skip

SCHEMA = Path(__file__).resolve().parent / "config.schema.json"


@lru_cache(maxsize=1)
def _schema() -> dict:
    schema = json.loads(SCHEMA.read_text(encoding="utf-8"))
    # TRL's settings are checked against the installed version, which may differ from the one listed in the file.
    schema["properties"]["grpo"] = {}
    return schema


# The names of the built-in rewards, without importing them; `python -m grpo_rlvr.trl_settings --write` takes them from the registry.
REWARDS = tuple(use for use in _schema()["properties"]["rewards"]["items"]["properties"]["use"]["examples"] if ":" not in use)
SAMPLING = (
    "temperature", "top_p", "top_k", "min_p", "repetition_penalty", "max_completion_length", "chat_template_kwargs", "generation_kwargs",
)  # fmt: skip

# What the inspection itself writes into a request: the samples would not be training's if a server were asked for something else.
SERVER_OWN = (
    "model", "messages", "prompt", "n", "seed", "stream", "max_tokens",
    "temperature", "top_p", "top_k", "min_p", "repetition_penalty", "chat_template_kwargs",
)  # fmt: skip

_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
REASON_CHARACTERS = 20  # the least of inspection.accept.reason, as in the schema

_HUB_NAME = re.compile(r"\w[\w.-]*/\w[\w.-]*(:[\w.-]+){0,2}")
_FILE_ENDINGS = {".jsonl", ".json", ".csv", ".tsv", ".parquet", ".arrow", ".txt", ".gz", ".zip", ".yaml", ".yml", ".py", ".gguf", ".safetensors"}
_USER_FUNCTION = re.compile(r"(?:.+\.py|[A-Za-z_]\w*(?:\.[A-Za-z_]\w*)*):[A-Za-z_]\w*")


@dataclass(frozen=True, eq=False)
class Config:
    """The whole file. Two configs are equal when they ask for the same: their paths are compared resolved.

    `grpo` and `rewards` hold what `variant` adds to them. `path` is the file it was read from and `raw` what YAML made of it, before
    checks and defaults.
    """

    model: ModelSection
    data: DataSection
    rewards: tuple[RewardSection, ...]
    inspection: InspectionSection = InspectionSection()
    hardware: HardwareSection = HardwareSection()
    variant: str | None = None
    grpo: Mapping[str, Any] = field(default_factory=dict)
    run: RunSection = RunSection()
    path: Path = Path("config.yaml")
    raw: dict = field(default_factory=dict, repr=False)

    @property
    def base(self) -> Path:
        """The folder of the config file, which relative paths start from."""
        return self.path.absolute().parent

    def resolve(self, name: str | Path) -> Path:
        """`name` as a path: absolute and `~` as they are, else relative to the config's folder."""
        path = Path(name).expanduser()
        return path if path.is_absolute() else self.base / path

    @property
    def run_folder(self) -> Path:
        folder = self.resolve(self.run.folder)
        return folder.resolve() if ".." in folder.parts else folder

    @property
    def inspection_folder(self) -> Path:
        return self.run_folder / "inspection"

    @property
    def gate_path(self) -> Path:
        return self.resolve(self.run.gate) if self.run.gate else self.inspection_folder / "gate.json"

    def setting(self, name: str) -> Any:
        """TRL's setting `name`: as written under `grpo:`, else TRL's default (None where TRL computes it)."""
        known = settings().by_name.get(name)
        return self.grpo.get(name, known.default if known else None)

    @property
    def num_generations(self) -> int:
        return self.setting("num_generations")

    @property
    def sampling(self) -> dict[str, Any]:
        """The sampling settings of training, with TRL's defaults; inspection draws with the same."""
        return {name: self.setting(name) for name in SAMPLING}

    def resolved(self) -> Config:
        """The same config with absolute paths, so that it means the same in another folder; hub names stay."""
        rewards = []
        for reward in self.rewards:
            use, args = self._absolute_reward(reward.use, reward.args)
            rewards.append(dataclasses.replace(reward, use=use, args=args))
        data = dataclasses.replace(self.data, train=self._data_place(self.data.train), eval=self.data.eval and self._data_place(self.data.eval))
        # A model in a folder beside the config; transformers itself would look from the working directory.
        local = self.resolve(self.model.name_or_path)
        model = dataclasses.replace(self.model, name_or_path=str(local) if local.is_dir() else self.model.name_or_path)
        run = dataclasses.replace(self.run, folder=str(self.run_folder), gate=str(self.gate_path) if self.run.gate else None)
        return dataclasses.replace(self, model=model, data=data, rewards=tuple(rewards), run=run)

    def _absolute_reward(self, use: str, args: Mapping[str, Any]) -> tuple[str, Mapping[str, Any]]:
        place, colon, function = use.rpartition(":")
        if place.endswith(".py"):
            use = f"{self.resolve(place)}{colon}{function}"
        files = {key: str(self.resolve(args[key])) for key in FILE_ARGS.get(use, ()) if isinstance(args.get(key), str)}
        if use == "length" and isinstance(args.get("use"), str):
            inner = args.get("args")
            files["use"], inner_args = self._absolute_reward(args["use"], inner if isinstance(inner, Mapping) else {})
            if isinstance(inner, Mapping):
                files["args"] = inner_args
        return use, {**args, **files}

    def _data_place(self, name: str) -> str:
        # A hub data set is `owner/name` or `owner/name:split`; anything else is a file.
        local = self.resolve(name).exists() or not looks_like_hub_name(name)
        return str(self.resolve(name)) if local else name

    def __eq__(self, other: object) -> bool:
        return plain(self) == plain(other) if isinstance(other, Config) else NotImplemented

    __hash__ = None


def looks_like_hub_name(name: str) -> bool:
    """Whether `name` has the form `owner/name`, `owner/name:split` or `owner/name:configuration:split`, and not that of a file."""
    return _HUB_NAME.fullmatch(name) is not None and Path(name.partition(":")[0]).suffix.lower() not in _FILE_ENDINGS


def load_config(path: str | Path) -> Config:
    """Read and check the config file.

    Raises:
        UserError: kind `config`, with all the problems of the file.
    """
    path = Path(path).expanduser().absolute()
    return config_from(yaml_file.read_mapping(path), path)


def config_from(raw: dict, path: Path) -> Config:
    """The config that the mapping `raw` asks for, as if `path` held it.

    Raises:
        UserError: kind `config`, with all the problems.
    """
    try:
        return _build(raw, path)
    except RecursionError:
        raise UserError(
            "config", Problem(str(path), "the YAML refers to itself or is nested too deeply", "a config is two or three levels deep")
        ) from None


def _build(raw: dict, path: Path) -> Config:
    schema = _schema()
    flat, of_flat = grpo_section.of_flat_recipe(raw, schema["properties"])
    elsewhere = {"grpo", *flat, *(p.where for p in of_flat)}
    values, problems = schema_check.check({k: v for k, v in raw.items() if k not in elsewhere}, schema)
    problems = of_flat + [_with_place(p, schema) for p in problems]
    grpo = raw.get("grpo")
    if grpo is None or (flat and isinstance(grpo, dict)):
        grpo = {**flat, **(grpo or {})}
    if isinstance(grpo, dict):
        of_old = [] if values.get("variant") else grpo_section.silent_defaults(grpo)
        grpo, found = grpo_section.check_settings(grpo)
        problems += found + of_old
    else:
        problems.append(
            Problem("grpo", f"must be a mapping of TRL settings, got {schema_check.got(grpo)}", "write one `name: value` line for each setting")
        )
    problems += [*_relations(values), *hazards(raw)]
    if not problems and values.get("variant"):
        grpo, values["rewards"], found = with_variant(values["variant"], grpo, values["rewards"])
        problems += found
    if problems:
        raise UserError("config", problems)

    model = dict(values["model"])
    if model.get("lora") is not None:
        model["lora"] = LoraSection(**model["lora"])
    inspection = dict(values.get("inspection") or {})
    if "reviewers" in inspection:
        inspection["reviewers"] = tuple(inspection["reviewers"])
    if inspection.get("server") is not None:
        inspection["server"] = ServerSection(**inspection["server"])
    if "accept" in inspection:
        inspection["accept"] = tuple(AcceptedProbe(**a) for a in inspection["accept"])
    hardware = dict(values.get("hardware") or {})
    if hardware.get("vllm_server") is not None:
        hardware["vllm_server"] = VllmServerSection(**hardware["vllm_server"])
    return Config(
        model=ModelSection(**model),
        data=DataSection(**{**values["data"], "columns": values["data"].get("columns") or {}}),
        rewards=tuple(RewardSection(**{**r, "args": r.get("args") or {}}) for r in values["rewards"]),
        inspection=InspectionSection(**inspection),
        hardware=HardwareSection(**hardware),
        variant=values.get("variant"),
        grpo=grpo,
        run=RunSection(**{**(values.get("run") or {}), "stop_on": tuple((values.get("run") or {}).get("stop_on") or ())}),
        path=path,
        raw=raw,
    )


def _relations(values: Mapping[str, Any]) -> list[Problem]:
    """What the schema cannot say: names of rewards, settings that must agree. Sections may be of a wrong type here."""
    problems = []
    rewards = values.get("rewards")
    for i, reward in enumerate(rewards if isinstance(rewards, list) else []):
        use = reward.get("use") if isinstance(reward, dict) else None
        if isinstance(use, str) and use and use not in REWARDS and not _USER_FUNCTION.fullmatch(use):
            fallback = f"use one of {', '.join(REWARDS)}, or your own as `file.py:function` or `module:function`"
            problems.append(Problem(f"rewards[{i}].use", f"there is no reward `{use}`", schema_check.nearest(use, REWARDS, fallback)))
    data = values.get("data")
    if isinstance(data, dict) and data.get("eval") is not None and data.get("eval_split") is not None:
        problems.append(Problem("data.eval_split", f"{data['eval_split']} and data.eval {data['eval']} are both set", "delete one of them"))
    inspection = values.get("inspection")
    if isinstance(inspection, dict):
        problems += _accepted_twice(inspection.get("accept"))
        read, least = (inspection.get(k, getattr(InspectionSection, k)) for k in ("read", "min_read"))
        if isinstance(read, int) and isinstance(least, int) and read < least:
            problems.append(
                Problem(
                    "inspection.read",
                    f"{read} samples to read are fewer than min_read {least}: the gate could never open",
                    f"set read to {least} or more",
                )
            )
        problems += _server_relations(inspection)
    return problems


def _server_relations(inspection: Mapping[str, Any]) -> list[Problem]:
    server, problems = inspection.get("server"), []
    if not isinstance(server, dict):
        if inspection.get("backend") == "openai":
            problems.append(Problem("inspection.server", "is missing, and backend is openai", "write server: {base_url: http://localhost:8000/v1}"))
        return problems
    key = server.get("api_key_env")
    if isinstance(key, str) and not _VARIABLE.fullmatch(key):
        # What was written may be the key itself: it is not repeated here.
        fix = "write the name of the environment variable that holds the key, such as OPENAI_API_KEY"
        problems.append(Problem("inspection.server.api_key_env", "is no name of an environment variable", fix))
    written = server.get("settings")
    for name in SERVER_OWN if isinstance(written, dict) else ():
        if written.get(name) is not None:
            place = {"max_tokens": "grpo.max_completion_length", "seed": "inspection.seed"}.get(name, f"grpo.{name}" if name in SAMPLING else "")
            fix = f"set {place}, or null here to leave it out" if place else "delete the line"
            problems.append(Problem(f"inspection.server.settings.{name}", "is set by training's own settings, or by the inspection", fix))
    return problems


def _accepted_twice(accept: Any) -> list[Problem]:
    """Waivers of one probe with two reasons, and reasons of blanks; the list may be of a wrong type here."""
    problems = []
    seen: dict[Any, int] = {}
    for i, waiver in enumerate(accept if isinstance(accept, list) else []):
        if not isinstance(waiver, dict):
            continue
        probe, reason = waiver.get("probe"), waiver.get("reason")
        if isinstance(probe, str) and probe in seen:
            problems.append(Problem(f"inspection.accept[{i}].probe", f"`{probe}` is accepted by entry {seen[probe]} already", "keep one of the two"))
        seen.setdefault(probe if isinstance(probe, str) else None, i)
        if isinstance(reason, str) and len(reason) >= REASON_CHARACTERS > len(reason.strip()):
            problems.append(Problem(f"inspection.accept[{i}].reason", "it is mostly blanks", "say why the finding does no harm here"))
    return problems


def _with_place(problem: Problem, schema: dict) -> Problem:
    """An unknown top-level key may be right in another section: say which."""
    key = problem.where
    if problem.message != "there is no such key" or "." in key:
        return problem
    if key in settings().by_name or key in grpo_section.ELSEWHERE:
        return dataclasses.replace(problem, fix=grpo_section.ELSEWHERE.get(key, f"it is a setting of TRL: write `{key}:` under `grpo:`"))
    sections = [s for s, part in schema["properties"].items() if key in part.get("properties", {})]
    return dataclasses.replace(problem, fix=f"write `{key}:` under `{sections[0]}:`") if sections else problem


def plain(config: Config) -> dict:
    """The config with all defaults and absolute paths, as YAML would hold it."""
    resolved = config.resolved()
    return {f.name: _to_yaml(getattr(resolved, f.name)) for f in dataclasses.fields(Config) if f.name not in ("path", "raw")}


def _to_yaml(value: Any) -> Any:
    if dataclasses.is_dataclass(value):
        return {f.name: _to_yaml(getattr(value, f.name)) for f in dataclasses.fields(value)}
    if isinstance(value, Mapping):
        return {k: _to_yaml(v) for k, v in value.items()}
    return [_to_yaml(v) for v in value] if isinstance(value, (list, tuple)) else value


def config_to_yaml(config: Config) -> str:
    """The config with every default of our sections written out and absolute paths; loads to an equal config anywhere.

    TRL's settings stay as written: TRL fills in its own defaults, and some of them may not be given together.
    """
    return "# The config as it was used: defaults filled in, paths absolute.\n" + yaml_file.dump_mapping(plain(config))
