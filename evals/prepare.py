"""Makes the folder of one task: its input files, and the skill where it is asked for.

    python evals/prepare.py maths-gate FOLDER            the files alone
    python evals/prepare.py maths-gate FOLDER --skill    with the skill in FOLDER/.agents/skills
    python evals/prepare.py --list                          the tasks

Then give an agent, started in that folder, the prompt that is printed.
"""

from __future__ import annotations

import argparse
import shutil
import sys
from pathlib import Path

EVALS = Path(__file__).resolve().parent
ROOT = EVALS.parent
sys.path[:0] = [str(EVALS), str(ROOT / "scripts"), str(ROOT / "tools")]

from graders.task import inputs, tasks  # noqa: E402
from make_zip import collect  # noqa: E402

SKILL_FOLDER = ".agents/skills"
SKILL_NAME = "grpo-rlvr-training"


def prepare(task: dict, folder: Path, skill_folder: str | None) -> None:
    """Fill an empty or new folder. `skill_folder`: where in it the skill goes, None for nowhere.

    Raises:
        FileExistsError: the folder holds something already.
    """
    folder.mkdir(parents=True, exist_ok=True)
    if any(folder.iterdir()):
        raise FileExistsError(f"{folder} is not empty")
    for name, ours in inputs(task).items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ours, folder / name)
    if task["id"] == "never-succeeds":
        write_random_model(folder / "model")
    if skill_folder is not None:
        install_skill(folder / skill_folder / SKILL_NAME)


def install_skill(target: Path) -> None:
    """What a user unzips: graders and tests hold the answers, so an agent must not find them."""
    for name, content in collect(ROOT).items():
        (target / name).parent.mkdir(parents=True, exist_ok=True)
        (target / name).write_bytes(content)


def write_random_model(folder: Path) -> None:
    """The quickstart's network before it is taught anything: it writes characters at random. Needs torch and transformers."""
    from grpo_rlvr.demo.tiny import build_model, build_tokenizer

    tokenizer = build_tokenizer()
    build_model(tokenizer, 0).save_pretrained(folder)
    tokenizer.save_pretrained(folder)


def main(argv: list[str] | None = None) -> int:
    known = tasks()
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("id", nargs="?", choices=known, metavar="ID", help="a task of evals.json")
    parser.add_argument("folder", nargs="?", type=Path, metavar="DIR", help="an empty or new folder")
    parser.add_argument("--skill", action="store_true", help="install the skill too")
    parser.add_argument(
        "--skill-folder", default=SKILL_FOLDER, help="where the agent looks for skills (default: %(default)s; Claude Code: .claude/skills)"
    )
    parser.add_argument("--list", action="store_true", help="print the ids and go")
    args = parser.parse_args(argv)
    if args.list:
        print("\n".join(known))
        return 0
    if args.id is None or args.folder is None:
        parser.error("give an ID and a DIR, or --list")
    try:
        prepare(known[args.id], args.folder, args.skill_folder if args.skill else None)
    except FileExistsError as exc:
        print(f"error: {exc}; give an empty or new folder", file=sys.stderr)
        return 2
    print(known[args.id]["prompt"])
    return 0


if __name__ == "__main__":
    sys.exit(main())
