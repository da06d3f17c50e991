"""What can be asked for, and what programs meet, is written down: settings, flags, files, schemas, kinds of error, variables. And only that."""

from __future__ import annotations

import ast
import json
import re
from functools import lru_cache
from pathlib import Path

import pytest
from conftest import ROOT
from documents import DOCUMENTS, SCRIPTS, named_files, parsers_of, spans, table, text_of
from grpo_rlvr.errors import EXIT_INTERNAL, EXIT_MISSING, CheckFailed, GoldError, MissingError, UserError

FILES = ROOT / "references" / "files.md"
ENDINGS = (".json", ".jsonl", ".yaml", ".md", ".html", ".log", ".png", ".parquet", ".lock")
# Read, never written: a model's own files, TRL's and transformers', and those that are part of the package.
NOT_OURS = {"config.json", "adapter_config.json", "trainer_state.json", "hardware.json", "shapes.json", "trl_settings.json", "config.schema.json"}
PACKAGED = {"hardware", "model-shapes", "trl-settings"}
ERRORS = {error.__name__: error for error in (UserError, MissingError, CheckFailed, GoldError)}


@lru_cache
def sources() -> dict[Path, ast.Module]:
    files = [*(ROOT / "scripts").rglob("*.py"), ROOT / "templates" / "train.py"]
    return {path: ast.parse(path.read_text(encoding="utf-8")) for path in sorted(files)}


@lru_cache
def nodes(kind: type) -> list:
    return [node for tree in sources().values() for node in ast.walk(tree) if isinstance(node, kind)]


def written() -> str:
    return "\n".join(text_of(path) for path in [*DOCUMENTS, ROOT / "templates" / "config.yaml"])


# ---- settings and flags
def own_keys(node: dict, path: tuple[str, ...] = ()) -> list[str]:
    """The config's keys but for those of `grpo:`, which are TRL's own and documented there."""
    found = own_keys(node["items"], path) if isinstance(node.get("items"), dict) else []
    for key, inside in node.get("properties", {}).items():
        if (*path, key) != ("grpo",):
            found += [".".join((*path, key)), *own_keys(inside, (*path, key))]
    return found


def schema() -> dict:
    return json.loads((ROOT / "templates" / "config.schema.json").read_text(encoding="utf-8"))


def test_each_setting_is_named_in_a_document():
    keys = own_keys(schema())
    assert len(keys) > 50
    text = written()
    assert [key for key in keys if not re.search(rf"\b{key.rpartition('.')[2]}\b", text)] == []


@pytest.mark.parametrize("path", DOCUMENTS, ids=lambda p: p.name)
def test_each_setting_that_is_named_with_its_section_exists(path):
    sections = schema()["properties"]
    keys = set(own_keys(schema())) | {f"grpo.{key}" for key in sections["grpo"]["properties"]}
    pattern = rf"(?<![\w/.-])((?:{'|'.join(sections)})\.[a-z_.]*[a-z_])(?![\w(/])"
    named = {name for span in spans(text_of(path)) for name in re.findall(pattern, span)}
    files = {f"{section}.{ending[1:]}" for section in sections for ending in (".py", *ENDINGS)}
    assert sorted(named - keys - files) == []


@pytest.mark.parametrize("script", SCRIPTS)
def test_each_flag_is_named_in_a_document(script):
    flags = {flag for parser in parsers_of(script).values() for flag in parser._option_string_actions if flag.startswith("--")}
    assert len(flags) > 2
    text = written()
    assert sorted(flag for flag in flags if not re.search(rf"{flag}(?![\w-])", text)) == []


# ---- files and schemas
def written_files() -> set[str]:
    """The names that the code puts behind a folder (`folder / "gate.json"`), with `*` for what is filled in."""
    found = set()
    for node in nodes(ast.BinOp):
        if isinstance(node.op, ast.Div):
            parts = node.right.values if isinstance(node.right, ast.JoinedStr) else [node.right]
            found.add("".join(str(p.value) if isinstance(p, ast.Constant) else "*" for p in parts).rpartition("/")[2])
    return {name for name in found if name.endswith(ENDINGS)} - NOT_OURS


def test_each_file_that_is_written_is_in_the_table_and_the_other_way_round():
    table_names = {Path(name).name for name in named_files()}
    known = {re.sub(r"\*[\w.:*-]*\*|\*", "*", name) for name in written_files()}
    assert len(known) > 10
    assert sorted(name for name in known if not any(Path(name).match(of_table) for of_table in table_names) and name not in text_of(FILES)) == []
    constants = " ".join(str(node.value) for node in nodes(ast.Constant) if isinstance(node.value, str))
    parts = {part for name in named_files() for part in re.split(r"[*/]+", name) if part.strip(".-")}
    assert sorted(part for part in parts if part not in constants) == []


def schemas() -> set[str]:
    """All that is written or answered, without the version."""
    found = set()
    for node in nodes(ast.Constant):
        found |= set(re.findall(r"grpo-rlvr/([a-z-]+)/\d", str(node.value)))
    for node in nodes(ast.Call):
        if getattr(node.func, "id", "") == "write_json" and isinstance(node.args[1], ast.Constant):
            found.add(node.args[1].value)
    return found | PACKAGED


def test_each_schema_is_in_the_document_and_the_other_way_round():
    text = text_of(FILES)
    named = {span for row in table(FILES, "files") for span in spans(row[1])} | set(
        spans(text.partition("<!-- /files -->")[2].partition("<!-- kinds")[0])
    )
    assert sorted(schemas() - named) == []
    assert sorted(span for row in table(FILES, "files") for span in spans(row[1]) if span not in schemas()) == []


# ---- kinds of error
def kinds() -> dict[str, set[int]]:
    """kind: its exit codes."""
    found: dict[str, set[int]] = {"usage": {2}, "interrupted": {130}, "io": {EXIT_MISSING}, "internal": {EXIT_INTERNAL}}
    for node in nodes(ast.Call):
        error = ERRORS.get(getattr(node.func, "id", ""))
        if error is None:
            continue
        if error is GoldError:
            found.setdefault("gold", set()).add(error.exit_code)
        elif isinstance(node.args[0], ast.Constant):
            found.setdefault(node.args[0].value, set()).add(error.exit_code)
    return found


def test_each_kind_of_error_is_in_the_table_with_its_exit_codes():
    of_table = {row[0].strip("`"): {int(code) for code in row[1].split(",")} for row in table(FILES, "kinds")}
    assert of_table == kinds()


def test_the_kinds_that_the_command_line_itself_makes_are_in_its_source():
    said = set(re.findall(r'"kind": "(\w+)"', (ROOT / "scripts/grpo_rlvr/cli.py").read_text(encoding="utf-8")))
    assert said == {"usage", "interrupted", "io", "internal"}


# ---- codes of findings
def test_each_code_that_is_named_is_one_and_each_of_the_vllm_watch_is_named():
    constants = {node.value for node in nodes(ast.Constant) if isinstance(node.value, str)}
    named = {span for path in DOCUMENTS if path != FILES for span in spans(text_of(path)) if re.fullmatch(r"[a-z]+(-[a-z]+)+", span)}
    assert len(named) > 5
    assert sorted(named - constants - {"nvidia-smi"}) == []
    watch = sources()[ROOT / "scripts/grpo_rlvr/training/vllm_monitor.py"]
    codes = {node.value for node in ast.walk(watch) if isinstance(node, ast.Constant) and re.fullmatch(r"vllm-[a-z]+", str(node.value))}
    assert codes == {name for name in named if name.startswith("vllm-")}


# ---- environment variables
def test_each_variable_is_in_the_document_and_each_that_is_named_is_read():
    files = [p for part in ("scripts", "templates", "tests") for p in (ROOT / part).rglob("*") if p.suffix in (".py", ".sbatch", ".sh")]
    code = "\n".join(p.read_text(encoding="utf-8") for p in [*files, ROOT / "Makefile", ROOT / ".ci" / "run"] if p.name != "test_named.py")
    ours = set(re.findall(r"GRPO_RLVR_[A-Z_]+[A-Z]", code))
    # Between a probe and the text it plants, and between tests and the processes they start.
    inside = {"GRPO_RLVR_PROBE_WAS_RUN", "GRPO_RLVR_TEST_WEIGHTS", "GRPO_RLVR_TEST_PACKED_WEIGHTS"}
    named = set(re.findall(r"`([A-Z][A-Z_]+[A-Z])`", text_of(FILES)))
    assert {name for name in named if name.startswith("GRPO_")} == ours - inside
    assert sorted(name for name in named if not re.search(rf"\b{name}\b", code)) == []
    everywhere = set(re.findall(r"GRPO_RLVR_[A-Z_]+[A-Z]", written()))
    assert everywhere <= ours
