"""Nothing depends on package files: installers have left `__init__.py`, README.md and whatever begins with an underscore out."""

from __future__ import annotations

import ast
import shutil
import subprocess
import sys

from conftest import ROOT

SCRIPTS = ROOT / "scripts"


def names_from_package_files(path) -> list[str]:
    """`from grpo_rlvr.x import name` is right where x is a module, or where name is one in the folder x."""
    found = []
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.ImportFrom) and not node.level and node.module.split(".")[0] == "grpo_rlvr":
            folder = SCRIPTS.joinpath(*node.module.split("."))
            if folder.is_dir():
                names = [a.name for a in node.names if not ((folder / a.name).is_dir() or (folder / f"{a.name}.py").is_file())]
                found += [f"{path.name}:{node.lineno} {node.module}.{name}" for name in names]
    return found


def test_no_module_takes_a_name_from_a_package_file():
    code = [p for p in (*SCRIPTS.rglob("*.py"), *(ROOT / "templates").glob("*.py")) if p.name != "__init__.py"]
    assert len(code) > 200
    assert [line for path in code for line in names_from_package_files(path)] == []


def test_all_of_it_can_be_imported_without_package_files(tmp_path):
    skill = tmp_path / "grpo-rlvr-training"
    for part in ("scripts", "templates"):
        shutil.copytree(ROOT / part, skill / part, ignore=shutil.ignore_patterns("_*"))
    assert not list(skill.rglob("__init__.py"))
    # What runs inside the sandbox is handed over as text.
    modules = [p.relative_to(skill / "scripts").with_suffix("").parts for p in sorted((skill / "scripts/grpo_rlvr").rglob("*.py"))]
    names = [".".join(parts) for parts in modules if "inside" not in parts]
    code = (
        f"import sys; sys.path += {[p for p in sys.path if 'site-packages' in p]!r}\n"  # -S: an editable install would come first
        f"import importlib, runpy; recipe = runpy.run_path({str(skill / 'templates/train.py')!r}, run_name='recipe')\n"
        f"for name in {names!r}: importlib.import_module(name)\n"
        "print(recipe['cli'].__file__)"
    )
    done = subprocess.run([sys.executable, "-I", "-S", "-c", code], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() == str(skill / "scripts/grpo_rlvr/cli.py")
