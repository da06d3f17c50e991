"""The manifests of Claude Code and Codex say what their readers accept, and all files name one version."""

from __future__ import annotations

import contextlib
import json
import re
import tomllib
from importlib.metadata import PackageNotFoundError, version

import jsonschema
import pytest
import yaml
from conftest import ROOT
from grpo_rlvr import version as library

TEXT = {"type": "string", "minLength": 1}
URI = {"type": "string", "format": "uri"}
PERSON = {"type": "object", "properties": {"name": TEXT, "email": TEXT, "url": TEXT}, "required": ["name"], "additionalProperties": False}
ABOUT = {
    "name": {"type": "string", "pattern": "^[a-z0-9]+(-[a-z0-9]+)*$"},
    "version": {"type": "string", "pattern": r"^\d+\.\d+\.\d+$"},
    "description": TEXT,
    "author": PERSON,
    "homepage": URI,
    "repository": TEXT,
    "license": TEXT,
    "keywords": {"type": "array", "items": TEXT},
}
# code.claude.com/docs/en/plugins/manifest-reference, and schemastore.org's claude-code-plugin-manifest.json: only `name` is required, paths begin
# with "./", and `"skills": ["./"]` makes the SKILL.md in the plugin's own folder its one skill. Keys that we have no use for are left out.
PLUGIN = {
    "type": "object",
    "properties": {**ABOUT, "skills": {"type": "array", "items": {"type": "string", "pattern": r"^\./"}, "minItems": 1}},
    "required": ["name"],
    "additionalProperties": False,
}
# code.claude.com/docs/en/plugin-marketplaces, and schemastore.org's claude-code-marketplace.json.
MARKETPLACE = {
    "type": "object",
    "properties": {
        "name": ABOUT["name"],
        "description": TEXT,
        "owner": PERSON,
        "plugins": {
            "type": "array",
            "minItems": 1,
            "items": {
                "type": "object",
                "properties": {**ABOUT, "source": {"type": "string", "pattern": r"^\./"}, "category": TEXT},
                "required": ["name", "source"],
                "additionalProperties": False,
            },
        },
    },
    "required": ["name", "owner", "plugins"],
    "additionalProperties": False,
}
# openai/skills skills/.system/skill-creator/references/openai_yaml.md (lengths, quoted strings), and openai/codex codex-rs/core-skills/src/loader.rs
# (`SkillMetadataFile`: interface, dependencies, policy; names to 64 characters, other texts to 1024).
CODEX = {
    "type": "object",
    "properties": {
        "interface": {
            "type": "object",
            "properties": {
                "display_name": {"type": "string", "minLength": 1, "maxLength": 64},
                "short_description": {"type": "string", "minLength": 25, "maxLength": 64},
                "default_prompt": {"type": "string", "minLength": 1, "maxLength": 1024, "pattern": r"\$grpo-rlvr-training\b"},
            },
            "required": ["display_name", "short_description"],
            "additionalProperties": False,
        },
        "policy": {"type": "object", "properties": {"allow_implicit_invocation": {"type": "boolean"}}, "additionalProperties": False},
    },
    "additionalProperties": False,
}


def manifest(name: str):
    text = (ROOT / name).read_text(encoding="utf-8")
    return yaml.safe_load(text) if name.endswith("yaml") else json.loads(text)


@pytest.mark.parametrize(
    ("file", "schema"), [(".claude-plugin/plugin.json", PLUGIN), (".claude-plugin/marketplace.json", MARKETPLACE), ("agents/openai.yaml", CODEX)]
)
def test_a_manifest_is_what_its_reader_accepts(file, schema):
    jsonschema.Draft202012Validator.check_schema(schema)
    jsonschema.validate(manifest(file), schema)


def test_codex_reads_quoted_strings():
    lines = (ROOT / "agents/openai.yaml").read_text(encoding="utf-8").splitlines()
    values = [line.split(": ", 1)[1] for line in lines if ": " in line]
    assert values and all(re.fullmatch(r'".*"|true|false', value) for value in values)


def test_a_plugins_skill_is_the_one_in_its_folder(skill):
    plugin, market = manifest(".claude-plugin/plugin.json"), manifest(".claude-plugin/marketplace.json")
    name = re.search(r"^name: (.+)$", (ROOT / "SKILL.md").read_text(encoding="utf-8"), re.MULTILINE)[1]
    (entry,) = market["plugins"]
    assert plugin["name"] == entry["name"] == name and plugin["description"] == entry["description"]
    for folder in (ROOT, skill):
        assert [(folder / path / "SKILL.md").is_file() for path in plugin["skills"]] == [True]
        assert (folder / entry["source"] / ".claude-plugin/plugin.json").is_file()
        # Claude Code takes agents/*.md for subagents.
        assert [p.name for p in (folder / "agents").iterdir()] == ["openai.yaml"]


def test_all_files_name_one_version():
    skill = re.search(r'^  version: "(.+)"$', (ROOT / "SKILL.md").read_text(encoding="utf-8"), re.MULTILINE)[1]
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["version"]
    assert {skill, project, manifest(".claude-plugin/plugin.json")["version"], library.__version__} == {skill}
    with contextlib.suppress(PackageNotFoundError):  # used from source
        assert version("grpo-rlvr-training") == skill


def test_the_changelog_has_that_version():
    assert re.search(rf"^## .*\b{re.escape(library.__version__)}\b", (ROOT / "CHANGELOG.md").read_text(encoding="utf-8"), re.MULTILINE)
