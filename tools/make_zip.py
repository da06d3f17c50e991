#!/usr/bin/env python3
"""Makes dist/grpo-rlvr-training.zip, the skill to unzip into `.agents/skills/`: the same files give the same bytes on any machine.

What goes in is listed here: what an agent or a person needs to follow SKILL.md and README.md. Tests, benchmarks, evals and the Makefile stay in the
repository (evals hold the answers that an agent using the skill should not have read). The entries are stored, not compressed: what `deflate` writes
differs between releases of zlib.
"""

from __future__ import annotations

import argparse
import hashlib
import io
import os
import re
import stat
import subprocess
import sys
import tempfile
import zipfile
from collections import Counter
from pathlib import Path, PurePosixPath

ROOT = Path(__file__).resolve().parents[1]
NAME = "grpo-rlvr-training"  # of the skill, of the top folder, of the file
FILES = ("SKILL.md", "README.md", "CHANGELOG.md", "LICENSE", "ATTRIBUTION.md", "pyproject.toml", "constraints.txt")
FOLDERS = (".claude-plugin", "agents", "examples", "references", "scripts", "templates")
NOT_IN_FOLDERS = re.compile(r"(^|/)(__pycache__|\.(?!claude-plugin)[^/]*|[^/]*\.(pyc|egg-info)|runs|build|dist)(/|$)")
WHEN = (1980, 1, 1, 0, 0, 0)  # the first moment that the format can hold
# What Windows cannot name, and what it takes for another name.
RESERVED = re.compile(r'(?i)(^|/)(con|prn|aux|nul|com\d|lpt\d)(\.[^/]*)?(/|$)|[<>:"\\|?*\x00-\x1f]|[. ](/|$)')
LONGEST = 120  # characters; Windows counts 260 with the folders above


class PackageError(Exception):
    """What stands against a package, all of it."""


def collect(root: Path) -> dict[str, bytes]:
    """name in the skill's folder -> content, in the order of the archive.

    Raises:
        PackageError: something that belongs in is absent, or would not come out of the archive as it went in.
    """
    names = sorted(n for n in _listed(root) if _belongs(n))
    problems = [
        f"{name}: it is not there" for name in (*FILES, *(f"{f}/" for f in FOLDERS)) if not any(n == name or n.startswith(name) for n in names)
    ]
    problems += _wrong_names(names)
    content = {}
    for name in names:
        path = root / name
        if any(p.is_symlink() for p in (path, *path.parents) if p != root and root in p.parents):
            problems.append(f"{name}: a symbolic link, which many installers drop")
        elif not path.is_file():
            problems.append(f"{name}: git has it, the folder has not")
        else:
            content[name] = path.read_bytes()
            if b"\r\n" in content[name]:
                problems.append(f"{name}: lines that end in CR LF; git's .gitattributes asks for LF")
    if problems:
        raise PackageError("\n".join(problems))
    return content


def archive(content: dict[str, bytes]) -> bytes:
    """The zip, below one top folder of the skill's name. Nothing of this machine is in it."""
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_STORED) as zipped:
        for name in sorted(content):
            entry = zipfile.ZipInfo(f"{NAME}/{name}", WHEN)
            entry.create_system = 3  # Unix, so that the permissions are read
            mode = 0o755 if content[name].startswith(b"#!") else 0o644
            entry.external_attr = (stat.S_IFREG | mode) << 16
            zipped.writestr(entry, content[name], zipfile.ZIP_STORED)
    return out.getvalue()


def _listed(root: Path) -> list[str]:
    """The files that git tracks; in a folder that is no clone of its own, all files."""
    if (root / ".git").exists():
        try:
            done = subprocess.run(["git", "-C", str(root), "ls-files", "-z"], capture_output=True, check=True)  # noqa: S603, S607  (git of whoever builds)
        except (OSError, subprocess.CalledProcessError) as exc:
            raise PackageError(
                f"{root} is a clone, and git does not say which files it tracks: {getattr(exc, 'stderr', b'').decode() or exc}"
            ) from exc
        return [name for name in done.stdout.decode().split("\0") if name]
    return [p.relative_to(root).as_posix() for p in root.rglob("*") if p.is_file() or p.is_symlink()]


def _belongs(name: str) -> bool:
    return name in FILES or (name.split("/")[0] in FOLDERS and "/" in name and not NOT_IN_FOLDERS.search(name))


def _wrong_names(names: list[str]) -> list[str]:
    problems = [f"{n}: not ASCII, or a name that Windows cannot have" for n in names if not n.isascii() or RESERVED.search(n)]
    problems += [f"{n}: {len(n)} characters; at most {LONGEST}" for n in names if len(n) > LONGEST]
    # Folders count too: `a/B.md` and `A/c.md` are one folder where case does not matter.
    parts = {part for n in names for part in (PurePosixPath(n), *PurePosixPath(n).parents)}
    seen = Counter(str(part).lower() for part in parts)
    return problems + [f"{part}: the same as another name where case does not matter" for part in sorted(map(str, parts)) if seen[part.lower()] > 1]


def write(path: Path, data: bytes) -> None:
    """The whole file or none."""
    path.parent.mkdir(parents=True, exist_ok=True)
    fd, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    try:
        with os.fdopen(fd, "wb") as out:
            out.write(data)
        os.chmod(temporary, 0o644)
        os.replace(temporary, path)
    except BaseException:
        os.unlink(temporary)
        raise


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0], epilog="exit codes: 0 written; 1 something stands against it")
    parser.add_argument("--out", type=Path, default=ROOT / "dist" / f"{NAME}.zip", metavar="FILE", help="where to write (default: dist/)")
    parser.add_argument("--root", type=Path, default=ROOT, metavar="FOLDER", help="the skill's folder (default: the one this script lies in)")
    args = parser.parse_args()
    try:
        content = collect(args.root.resolve())
    except PackageError as exc:
        print(f"nothing was written:\n{exc}", file=sys.stderr)
        return 1
    data = archive(content)
    write(args.out, data)
    print(f"{args.out}: {len(content)} files, {len(data) / 1e6:.1f} MB, sha256 {hashlib.sha256(data).hexdigest()}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
