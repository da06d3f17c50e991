#!/usr/bin/env python3
# /// script
# requires-python = ">=3.11"
# dependencies = [
#   "pyyaml>=6.0",
# ]
# ///
"""Will it fit? GPU memory of a GRPO run phase by phase, what to change if it does not, and how long a step takes."""

from __future__ import annotations

import argparse
import sys
from typing import Any

sys.dont_write_bytecode = True  # the skill's folder stays as it is; cli.parser lifts this for all other packages

from grpo_rlvr import cli  # noqa: E402

EPILOG = """
FITS (exit 0) means that even the upper end of the estimate is within the GPU; TIGHT and NO are exit 1. No network, no torch, no GPU needed.
The model's shape comes from a folder, a config.json, the bundled list (--list) or the local Hugging Face cache.
Without CONFIG, TRL's defaults hold except where a flag or --set says otherwise; --set also changes what CONFIG says."""


def build_parser() -> argparse.ArgumentParser:
    examples = [
        "python memory_plan.py config.yaml",
        "python memory_plan.py config.yaml --gpu h100-80gb --fit",
        "python memory_plan.py --model Qwen/Qwen2.5-7B-Instruct --gpu h200 --vllm --lora 16 --set grpo.max_completion_length=2048",
        "python memory_plan.py config.yaml --gpus",
        "python memory_plan.py config.yaml --max completion --json",
        "python memory_plan.py config.yaml --explain head",
    ]
    parser = cli.parser("memory_plan.py", __doc__, examples)
    parser.epilog = EPILOG.lstrip("\n") + "\n\n" + parser.epilog
    parser.add_argument("config", metavar="CONFIG", nargs="?", help="the config file, e.g. config.yaml")
    what = parser.add_argument_group("what to show").add_mutually_exclusive_group()
    what.add_argument("--fit", action="store_true", help="the cheapest changes that make it fit, as a patch to config.yaml")
    what.add_argument(
        "--max",
        metavar="WHAT",
        choices=("completion", "generations", "batch", "model"),
        help="the largest completion, generations, batch or model that fits",
    )
    what.add_argument("--gpus", action="store_true", help="the same run on all known GPUs")
    what.add_argument("--explain", metavar="TERM", help="formula, numbers and source of one term")
    what.add_argument("--list", action="store_true", help="the bundled models and GPUs")
    what.add_argument("--tables", action="store_true", help="the tables by size of model of references/grpo-memory.md")
    run = parser.add_argument_group("the run (instead of, or over, CONFIG)")
    run.add_argument("--model", metavar="NAME", help="a hub name, a folder or a config.json")
    run.add_argument("--as", dest="as_type", metavar="TYPE", help="read an unknown architecture's config.json as this one's, e.g. llama")
    run.add_argument("--gpu", metavar="NAME", help="e.g. h100-80gb, rtx-4090, dgx-spark")
    run.add_argument("--gpu-memory", type=float, metavar="GIB", help="usable memory of a GPU that is not listed (or less of one that is)")
    run.add_argument("--gpu-bandwidth", type=float, metavar="GB_S", help="its sustained memory bandwidth")
    run.add_argument("--count", type=int, metavar="N", help="GPUs of one machine that train")
    run.add_argument("--nodes", type=int, metavar="N", help="machines")
    run.add_argument("--prompt-tokens", type=int, metavar="N", help="tokens of the longest prompt")
    run.add_argument("--lora", type=int, metavar="RANK", nargs="?", const=16, help="LoRA on all linear layers (rank 16)")
    run.add_argument("--qlora", type=int, metavar="RANK", nargs="?", const=16, help="the same on a base in 4 bits")
    run.add_argument("--vllm", action="store_true", help="vLLM generates, colocated unless the config says server")
    run.add_argument("--trl", metavar="VERSION", help="plan for this version of TRL instead of the installed one")
    run.add_argument(
        "--set", action="append", default=[], metavar="SECTION.KEY=VALUE", help="any setting of the config, e.g. grpo.beta=0.01 (repeat)"
    )
    parser.add_argument("--width", type=int, metavar="N", help="columns of the output (default: the terminal's)")
    parser.add_argument("--json", action="store_true", help="one JSON object on stdout")
    return parser


def body(args: argparse.Namespace) -> tuple[int, dict]:
    from grpo_rlvr.packages import need

    need({"yaml": "pyyaml"}, "the memory plan")
    if args.list:
        return show_list(args)
    if args.tables:
        return show_tables(args)
    from grpo_rlvr.memory.plan import make_plan
    from grpo_rlvr.memory.request import read_request
    from grpo_rlvr.memory.speed import speed

    w, raw = read_request(args)
    plan = make_plan(w)
    result: dict[str, Any] = {"schema": "grpo-rlvr/memory-plan/1"}
    if args.gpus:
        return all_gpus(args, w, result)
    if args.max:
        return maximum(args, w, raw, result)
    if args.explain:
        return explained(args, plan, result)
    from grpo_rlvr.memory import as_json, report

    rate = speed(w)
    result |= as_json.plan_json(plan, rate)
    page = new_page(args)
    report.show_plan(page, plan, rate)
    code = 0 if plan.fits else 1
    if args.fit:
        code, extra = fitted(page, w, raw, plan)
        result |= extra
    elif not plan.fits:
        page.raw("")
        page.say("next: the same command with --fit prints the cheapest changes that fit")
        result["next"] = "--fit"
    show(args, page)
    return code, result


def fitted(page, w, raw: dict, plan) -> tuple[int, dict]:
    from grpo_rlvr.memory import as_json, report
    from grpo_rlvr.memory.cheapest import cheapest_fit
    from grpo_rlvr.memory.patches import tidy_patch
    from grpo_rlvr.memory.search import smallest_cluster, with_adapters

    fit = cheapest_fit(w)
    patch = tidy_patch(fit.patch, raw) if fit else {}
    cluster = None if plan.fits else smallest_cluster(w)
    adapted = smallest_cluster(with_adapters(w)) if fit is None and w.full else None
    report.show_fit(page, fit, patch, cluster, adapted)
    found = as_json.fit_json(fit)
    if found:
        found["patch"] = patch
    more = {"cluster": as_json.cluster_json(cluster), "cluster_with_lora": as_json.cluster_json(adapted)}
    return (0 if fit else 1), {"fit": found, **more}


def all_gpus(args: argparse.Namespace, w, result: dict) -> tuple[int, dict]:
    from grpo_rlvr.memory import as_json, report
    from grpo_rlvr.memory.search import compare_gpus

    rows = compare_gpus(w)
    page = new_page(args)
    report.show_gpus(page, rows)
    show(args, page)
    result["gpus"] = [
        {
            "gpu": p.workload.gpu.name, "usable_gib": round(p.capacity / as_json.GIB, 2), "verdict": p.verdict,
            "peak_gib": as_json.gib(p.deciding.peak), "phase": p.deciding.name, "with_vllm_settings": ready is not None,
            "levers": [lv.name for lv, _, _ in fit.steps] if fit else None,
        }
        for p, ready, fit in rows
    ]  # fmt: skip
    return (0 if any(p.fits for p, _, _ in rows) else 1), result


def maximum(args: argparse.Namespace, w, raw: dict, result: dict) -> tuple[int, dict]:
    import dataclasses

    from grpo_rlvr.memory import as_json, report
    from grpo_rlvr.memory.patches import tidy_patch
    from grpo_rlvr.memory.search import largest

    found = largest(w, args.max)
    found = dataclasses.replace(found, patch=tidy_patch(found.patch, raw))
    page = new_page(args)
    report.show_largest(page, found)
    show(args, page)
    return (0 if found.value else 1), result | {"max": as_json.largest_json(found)}


def explained(args: argparse.Namespace, plan, result: dict) -> tuple[int, dict]:
    from grpo_rlvr.memory.explain import explain

    found = explain(plan, args.explain)
    page = new_page(args)
    page.raw(found.term + ": " + (", ".join(f"{v:.2f} GiB ({k})" for k, v in found.phases.items()) or "0 GiB in this run"))
    for name in ("formula", "numbers", "source", "smaller"):
        page.say(f"{name:<8} {getattr(found, name)}", indent=2, hang=11)
    show(args, page)
    return 0, result | {"explain": {**vars(found), "phases": {k: round(v, 3) for k, v in found.phases.items()}}}


def show_list(args: argparse.Namespace) -> tuple[int, dict]:
    from grpo_rlvr.memory.catalog import bundled_names, bundled_shape
    from grpo_rlvr.memory.hardware import gpus

    page = new_page(args)
    for gpu in gpus().values():
        page.raw(f"{gpu.name:<16}{gpu.plan_gib:>8.1f} GiB  {gpu.title}")
    for name in bundled_names():
        page.raw(f"{bundled_shape(name).parameters / 1e9:>7.2f}B  {name}")
    show(args, page)
    return 0, {"schema": "grpo-rlvr/memory-list/1", "gpus": list(gpus()), "models": bundled_names()}


def show_tables(args: argparse.Namespace) -> tuple[int, dict]:
    from grpo_rlvr.memory.size_classes import markdown

    text = markdown()
    if not args.json:
        cli.say(text)
    return 0, {"schema": "grpo-rlvr/memory-tables/1", "markdown": text}


def new_page(args: argparse.Namespace):
    import os
    import shutil

    from grpo_rlvr.memory.report import Page

    colour = sys.stderr.isatty() and "NO_COLOR" not in os.environ
    return Page(args.width or shutil.get_terminal_size((100, 24)).columns, colour)


def show(args: argparse.Namespace, page) -> None:
    """Tables are for people: on stderr with --json left out, and not at all with it."""
    if not args.json:
        cli.say(page.text(), coloured=page.colour)


def main(argv: list[str] | None = None) -> int:
    args = build_parser().parse_args(argv)
    return cli.run(body, args)


if __name__ == "__main__":
    sys.exit(main())
