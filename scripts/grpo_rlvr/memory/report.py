"""The plan for people: verdict and what decides first, phases as bars, terms, speed; lines of 60 to 120 columns."""

from __future__ import annotations

import textwrap
from typing import Any

from grpo_rlvr.memory.cheapest import Fit
from grpo_rlvr.memory.estimate import GIB
from grpo_rlvr.memory.levers import Follower
from grpo_rlvr.memory.plan import Plan
from grpo_rlvr.memory.search import CLUSTERS, Cluster, Largest
from grpo_rlvr.memory.speed import Interval, Speed

BAR = 28
GOOD, SOSO, BAD, BOLD, DIM, PLAIN = "\033[32m", "\033[33m", "\033[31m", "\033[1m", "\033[2m", "\033[0m"
COLOURS = {"FITS": GOOD, "TIGHT": SOSO, "NO": BAD}


class Page:
    """Lines of at most `width` columns, coloured where `colour`."""

    def __init__(self, width: int, colour: bool) -> None:
        self.width, self.colour, self.lines = max(60, min(width, 120)), colour, []

    def paint(self, text: str, *codes: str) -> str:
        return "".join(codes) + text + PLAIN if self.colour and text else text

    def say(self, text: str = "", indent: int = 0, hang: int | None = None) -> None:
        """A paragraph, wrapped."""
        first, rest = " " * indent, " " * (indent if hang is None else hang)
        self.lines += textwrap.wrap(text, self.width, initial_indent=first, subsequent_indent=rest, break_long_words=False) or [""]

    def raw(self, text: str) -> None:
        self.lines.append(text)

    def text(self) -> str:
        return "\n".join(self.lines)


def show_plan(page: Page, plan: Plan, speed: Speed) -> None:
    """Verdict first, then what decides, the phases as bars, the deciding phase's terms, vLLM, speed, assumptions."""
    _heading(page, plan)
    page.raw("")
    _phases(page, plan)
    page.raw("")
    _terms(page, plan)
    _vllm(page, plan)
    if not plan.blockers:
        _speed(page, plan, speed)
    for text in plan.workload.assumed:
        page.say(f"assumed: {text}", hang=9)


def _heading(page: Page, plan: Plan) -> None:
    w, p = plan.workload, plan.deciding
    total = plan.capacity / GIB
    band = f"{p.peak / GIB:.1f} GiB expected ({p.low / GIB:.1f}-{p.high / GIB:.1f}) of {total:.1f} on {w.gpu.title}"
    reason = {"FITS": "", "TIGHT": "; it may run out of memory", "NO": ""}[plan.verdict]
    page.raw(page.paint(plan.verdict, BOLD, COLOURS[plan.verdict]) + f"  {band}{reason}")
    terms = ", ".join(f"{k} {v / GIB:.1f}" for k, v in plan.decisive_terms())
    page.say(f"decides: {p.name} ({p.moment}): {terms}", indent=6, hang=6)
    for blocker in plan.blockers:
        page.say(f"{blocker.code}: {blocker.message}", indent=6, hang=6)
        page.say(f"-> {blocker.fix}", indent=8, hang=11)
    page.raw("")
    page.say(describe(plan))


def describe(plan: Plan) -> str:
    """The run in one sentence."""
    w = plan.workload
    tuning = "all weights" if w.full else f"LoRA r{w.lora_rank}" if w.quantization == "none" else f"QLoRA r{w.lora_rank} ({w.quantization})"
    ways = {"none": "transformers generates", "server": f"vLLM server on {w.server_gpus or 'other'} GPU(s)"}
    vllm = ways.get(w.vllm, f"vLLM colocated at {w.utilization:g}")
    vllm += ", sleeping while training" if w.sleep and w.vllm == "colocate" else ""
    gpus = f"{w.world} x {w.gpu.title}" + (f" ({w.engine})" if w.engine != "none" else "")
    return (
        f"{w.shape.name} ({w.shape.parameters / 1e9:.2f}B), {tuning} in {w.dtype}, {w.optimizer}; {gpus}; micro-batches of {w.batch} x ({w.prompt} +"
        f" {w.completion}) tokens, {w.accumulation} an update; {vllm}; TRL {w.trl} ({w.head} loss)"
    )


def _phases(page: Page, plan: Plan) -> None:
    scale = max(plan.capacity, max(p.peak for p in plan.estimate.phases))
    width = page.width - 27
    mark = int(width * plan.capacity / scale)
    page.raw(f"{'phase':<16}{'GiB':>7}  " + page.paint("trainer #  vLLM =  limit |", DIM))
    for p in plan.estimate.phases:
        ours, theirs = round(width * (p.peak - p.exact) / scale), round(width * p.exact / scale)
        bar = ("#" * ours + "=" * theirs).ljust(width)
        over = p.peak > plan.capacity
        bar = bar[:mark] + "|" + bar[mark:].rstrip() if mark < width else bar.rstrip().ljust(width) + "|"
        colour = BAD if over else SOSO if p.high > plan.capacity else GOOD
        name = ("> " if p is plan.deciding else "  ") + p.name
        page.raw(f"{name:<17}{p.peak / GIB:>6.1f}  " + page.paint(bar, colour))


def _terms(page: Page, plan: Plan) -> None:
    p = plan.deciding
    largest = max(p.terms.values())
    page.raw(f"{p.name}, term by term" + page.paint("   (--explain TERM)", DIM))
    for term in sorted(p.terms, key=lambda t: -p.terms[t]):
        value = p.terms[term]
        bar = "#" * max(1, round(BAR * value / largest))
        page.raw(f"  {term.ljust(22)}{value / GIB:>8.2f}  {bar}")


def _vllm(page: Page, plan: Plan) -> None:
    e, w = plan.estimate.engine, plan.workload
    if e is None:
        return
    where = "on each server GPU" if w.vllm == "server" else "on each GPU"
    parts = f"weights {e.weights / GIB:.1f} + overhead {e.fixed / GIB:.1f} + "
    page.raw("")
    if e.least > e.budget:
        need = f"{parts}one sequence of {e.context} tokens {e.one_sequence / GIB:.1f} = {e.least / GIB:.1f} GiB"
        page.say(f"vLLM {where}: {e.budget / GIB:.1f} GiB, and it needs {need}", hang=6)
        return
    room = f"room for {e.sequences} of {e.wanted} sequences of {w.length} tokens at once"
    page.say(f"vLLM {where}: {e.budget / GIB:.1f} GiB = {parts}cache {e.cache / GIB:.1f}, {room}", hang=6)


def seconds(value: float) -> str:
    """In the unit that reads best."""
    if value < 90:
        return f"{value:.1f} s" if value < 10 else f"{value:.0f} s"
    return f"{value / 60:.0f} min" if value < 5400 else f"{value / 3600:.1f} h" if value < 172_800 else f"{value / 86_400:.1f} days"


def _between(i: Interval) -> str:
    return f"{seconds(i.low)} - {seconds(i.high)}"


def _speed(page: Page, plan: Plan, s: Speed) -> None:
    page.say(
        f"speed: a step takes {_between(s.step_s)}: rollout {_between(s.rollout_s)} ({s.tokens_s.low:,.0f}-{s.tokens_s.high:,.0f} tokens/s over"
        f" {s.concurrency} sequences at once, {s.single:.0f} for one), training {_between(s.train_s)}"
        + (f"; the run of {plan.workload.updates} steps {_between(s.run_s)}" if s.run_s else ""),
        hang=7,
    )


def show_fit(page: Page, fit: Fit | None, patch: dict[str, Any], cluster: Cluster | None, adapted: Cluster | None = None) -> None:
    """The cheapest changes; then the GPUs on which it runs unchanged, and (where no changes do) with LoRA."""
    page.raw("")
    if fit is None:
        page.say("No set of changes makes it fit on these GPUs.")
    elif not fit.steps:
        page.say("It fits as it is.")
        return
    else:
        page.raw("the cheapest changes that fit" + " " * 9 + "peak   saves (GiB)")
        for lever, peak, saved in fit.steps:
            page.raw(f"  {lever.name:<34}{peak:>6.1f}{saved:>8.1f}")
            page.say(lever.what + (f": {lever.action}" if lever.action else ""), indent=6, hang=6)
        page.raw("")
        p = fit.plan.deciding
        page.say(
            f"then {fit.plan.verdict}: {p.peak / GIB:.1f} GiB ({p.low / GIB:.1f}-{p.high / GIB:.1f}) in the {p.name} phase. Merge into config.yaml:"
        )
        page.raw(patch_yaml(patch).rstrip())
    page.raw("")
    if cluster is not None:
        show_cluster(page, cluster, "without changing the training")
    else:
        page.say(f"without changing the training: on no number of these GPUs that was tried, up to {CLUSTERS[-1]}")
    if adapted is not None:
        show_cluster(page, adapted, "with LoRA of rank 16 on a base in bfloat16")


def patch_yaml(patch: dict[str, Any]) -> str:
    """A patch as YAML; a key that is to go away as a comment."""
    from grpo_rlvr.yaml_file import dump_mapping

    gone = [f"# delete {section}.{key}" for section, part in patch.items() if isinstance(part, dict) for key, value in part.items() if value is None]
    kept = {s: {k: v for k, v in part.items() if v is not None} if isinstance(part, dict) else part for s, part in patch.items()}
    return dump_mapping({s: part for s, part in kept.items() if part}) + "".join(line + "\n" for line in gone) if patch else ""


def show_cluster(page: Page, c: Cluster, what: str) -> None:
    w, p = c.plan.workload, c.plan.deciding
    server = f" and {c.server} for a vLLM server" if c.server else ", vLLM colocated and sleeping" if w.vllm == "colocate" else ""
    parallel = f", vllm_tensor_parallel_size {w.tensor_parallel}" if w.vllm != "none" else ""
    page.say(
        f"{what}: {c.gpus} x {w.gpu.title}: {c.train} train with {w.engine}{server}; {p.peak / GIB:.1f} GiB on each"
        f" ({p.name}){parallel}, micro-batches of {w.batch}, {w.accumulation} an update",
        hang=2,
    )
    page.say(c.command, indent=2, hang=4)


def show_gpus(page: Page, rows: list[tuple[Plan, Plan | None, Fit | None]]) -> None:
    page.raw(f"{'GPU':<24}{'usable':>7}{'peak':>8}  as it is  with")
    for plan, ready, fit in rows:
        verdict = page.paint(f"{plan.verdict:<8}", COLOURS[plan.verdict])
        if plan.fits:
            what = ""
        elif ready is not None:
            share = f", share {ready.workload.utilization:g}" if ready.workload.vllm == "colocate" else ""
            what = f"vllm_max_model_length {ready.workload.context}{share}"
        else:
            what = " + ".join(lever.name for lever, _, _ in fit.steps if not isinstance(lever, Follower)) if fit else "does not fit"
        page.raw(f"{plan.workload.gpu.title:<24}{plan.capacity / GIB:>7.1f}{plan.deciding.peak / GIB:>8.1f}  {verdict}  {what}".rstrip())


def show_largest(page: Page, found: Largest) -> None:
    if not found.value:
        page.say(f"No {found.what} fits: {found.limited}.")
        return
    p = found.plan.deciding
    unit = " tokens" if found.what == "completion" else ""
    amount = f"{found.value:,}" if isinstance(found.value, int) else found.value
    where = f"{p.peak / GIB:.1f} GiB in the {p.name} phase; limited by {found.limited}"
    page.say(f"largest {found.what} that fits: {amount}{unit} ({where})")
    if found.patch:
        page.raw(patch_yaml(found.patch).rstrip())
