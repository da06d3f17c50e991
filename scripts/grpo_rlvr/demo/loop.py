"""The quickstart's loop, on the same functions and the same recipe that the scripts run."""

from __future__ import annotations

import contextlib
import datetime
import io
import json
import runpy
import shlex
import statistics
import sys
import time
from pathlib import Path

from grpo_rlvr.bars import stages
from grpo_rlvr.cli import say
from grpo_rlvr.config import Config, load_config
from grpo_rlvr.demo.project import SCENARIOS, Project, build
from grpo_rlvr.demo.sums import oracle
from grpo_rlvr.errors import EXIT_NO, EXIT_YES, Problem, UserError
from grpo_rlvr.packages import LIGHT, TRAINING, need

TEMPLATE = Path(__file__).resolve().parents[3] / "templates" / "train.py"
STEPS = 5
SLOW_S = 10  # nobody should look at a still screen for longer


def run_loop(model: str, scenario: str, seed: int, steps: int | None, folder: Path | None) -> tuple[int, dict]:
    """Run one scenario from nothing; returns the exit code and the result for `--json`.

    Exit 0 means that the scenario went as it should: the accuracy rose beyond its interval, or the gate stayed shut.
    """
    _check(model, scenario, steps, folder)
    need(LIGHT | TRAINING, "the quickstart")
    began = time.monotonic()
    folder = folder or Path("runs/quickstart") / f"{model}-{scenario}-{datetime.datetime.now():%Y%m%d-%H%M%S}"
    say(f"quickstart: {model}, seed {seed}: {SCENARIOS[scenario]}\n")

    _step(1, "a tiny model is built and taught sums" if model == "tiny" else "SmolLM2-135M-Instruct is unpacked")
    with stages(SLOW_S) as progress:
        project = build(folder, model, scenario, seed, steps, progress)
    config = load_config(project.config)

    _step(2, "sample the model, score, attack the reward, measure the signal")
    inspection = _inspect(config)

    _step(3, "read the samples: here an oracle that shares no code with the rewards does, in your project a person")
    from grpo_rlvr.inspection.gate import decide_gate
    from grpo_rlvr.inspection.report import show_gate

    labelled = _label(config)
    say(f"{labelled} samples labelled")
    gate = decide_gate(config)
    show_gate(gate)
    result = {
        "schema": "grpo-rlvr/quickstart/1",
        "model": model,
        "scenario": scenario,
        "seed": seed,
        "folder": str(folder),
        "signal": inspection["signal"],
        "gate": gate,
    }
    if not gate["open"]:
        result |= {"correlation": _correlation(config), "seconds": round(time.monotonic() - began, 1)}
        return _shut(scenario, project, result)

    _step(4, "the gate is open: train with TRL's GRPOTrainer")
    code, train = _train(project)
    if code:
        return code, result | {"training": train}
    _step(5, "what was learned")
    judged = _oracle_accuracy(config, train)
    result |= {"training": train, "oracle": judged, "seconds": round(time.monotonic() - began, 1)}
    _summary(project, config, result)
    rose = train["held_out"]["ci95"][0] > 0 and judged["ci95"][0] > 0
    if not rose:
        say("the held-out accuracy did not rise beyond its 95% interval; try another --seed or more --steps")
    return (EXIT_YES if rose and scenario == "learn" else EXIT_NO), result


def _check(model: str, scenario: str, steps: int | None, folder: Path | None) -> None:
    problems = []
    if model == "smollm2" and scenario != "learn":
        problems.append(Problem("--scenario", f"'{scenario}' is there for --model tiny only", "leave out --model, or --scenario"))
    if steps is not None and steps < 1:
        problems.append(Problem("--steps", f"got {steps}", "at least 1"))
    if folder is not None and folder.exists():
        problems.append(Problem("--folder", f"{folder} is already there", "name a folder that is not, or leave it out"))
    if problems:
        raise UserError("run", problems)


def _inspect(config: Config) -> dict:
    from grpo_rlvr.inspection.run import run_inspection

    return run_inspection(config)


def _label(config: Config) -> int:
    """Label the selected samples by the oracle; returns how many."""
    from grpo_rlvr.inspection.labels import append_label
    from grpo_rlvr.inspection.select import load_selection

    samples = load_selection(config.inspection_folder)
    for sample in samples:
        right = oracle(_text(sample["completion"]), sample["columns"]["answer"])
        append_label(config.inspection_folder, sample["sample_id"], "pass" if right else "fail", "quickstart oracle", "oracle")
    return len(samples)


def _train(project: Project) -> tuple[int, dict]:
    """Run the recipe itself on the project's config; its exit code and result."""
    # runpy makes a module without an entry in sys.modules; the recipe needs none.
    recipe = runpy.run_path(str(TEMPLATE), run_name="recipe")
    args = recipe["build_parser"]().parse_args([str(project.config)])
    args.out = _ProgressLines()
    return recipe["train"](args)


def _oracle_accuracy(config: Config, train: dict) -> dict:
    """Before and after on the held-out prompts, judged by the oracle instead of the reward."""
    from grpo_rlvr.training.held_out import compare, read_records, record_path

    gold = {
        f"eval:{i}": json.loads(line)["answer"] for i, line in enumerate(config.resolve(config.data.eval).read_text(encoding="utf-8").splitlines())
    }
    judged = []
    for step in (0, train["steps"]):
        records = read_records(record_path(config.run_folder / "train" / "logs", step))
        judged.append([{**r, "verdict": oracle(_text(r["completion"]), gold[r["row_id"]])} for r in records])
    return compare(*judged)


def _shut(scenario: str, project: Project, result: dict) -> tuple[int, dict]:
    """The end of a run whose gate stayed shut: whether that was to be expected, and why."""
    gate = result["gate"]
    proof = next((f["example"] for f in gate["probes"] if f["severity"] == "error" and f["example"]), None)
    if scenario == "careless" and proof:
        say("\nAs it should be: nothing was trained. In the honest samples the reward agrees with the truth")
        say(f"(correlation {result['correlation']:.2f}), and yet it pays {proof['mutant']['total']:.2f} for this completion,")
        say(f"whose right answer {proof['original']['answer']} was made wrong:")
        say(f"  {_text(proof['mutant']['completion'])}")
        say("Next: mend rewards.py (pay for the answer: `use: exact`), then run and gate again; the samples and labels are kept.")
    elif scenario == "never" and gate["signal"] == "sft_first":
        say("\nAs it should be: nothing was trained, for there is nothing to reinforce.")
        say("Next: supervised fine-tuning (SFT) on worked examples until the model succeeds now and then; then come back.")
    else:
        say("the gate stayed shut, so nothing was trained; the reasons are above")
        return EXIT_NO, result
    _next(project, scenario)
    return EXIT_YES, result


def _correlation(config: Config) -> float | None:
    """Correlation of the reward with the oracle over all samples; None where one of the two never varies."""
    from grpo_rlvr.inspection.samples import load_samples

    lines = (json.loads(line) for line in (config.inspection_folder / "scores.jsonl").read_text(encoding="utf-8").splitlines())
    totals = {line["sample_id"]: line["total"] for line in lines if "sample_id" in line}
    samples = load_samples(config.inspection_folder)
    paid = [totals[s["sample_id"]] for s in samples]
    right = [float(oracle(_text(s["completion"]), s["columns"]["answer"])) for s in samples]
    varied = len(set(paid)) > 1 and len(set(right)) > 1
    return statistics.correlation(paid, right) if varied else None


def _summary(project: Project, config: Config, result: dict) -> None:
    from rich.console import Console
    from rich.table import Table

    train, judged = result["training"], result["oracle"]
    lines = [json.loads(line) for line in (config.run_folder / "train/logs/progress.jsonl").read_text(encoding="utf-8").splitlines()]
    table = Table(title=f"{result['model']}: {train['steps']} steps, {result['seconds']:.0f} s in all", title_justify="left")
    for column in ("", "before", "after", "change", "95% interval"):
        table.add_column(column, justify="left" if not column else "right")
    for name, d in (("held-out accuracy, by the reward", train["held_out"]), ("held-out accuracy, by the oracle", judged)):
        low, high = (f"{100 * x:+.1f}" for x in d["ci95"])
        table.add_row(name, f"{d['before']:.1%}", f"{d['after']:.1%}", f"{100 * d['difference']:+.1f}", f"{low} to {high}")
    metrics = [("mean completion length, tokens", "completions/mean_length"), ("groups without a signal", "frac_reward_zero_std")]
    metrics += [(f"reward '{r.name or r.use}' (weight {r.weight:g})", f"rewards/{r.name or r.use}/mean") for r in config.rewards]
    for name, key in metrics:
        first, last = (_window(lines, key, part) for part in ("first", "last"))
        if first is not None and last is not None:
            table.add_row(name, f"{first:.2f}", f"{last:.2f}", f"{last - first:+.2f}", "")
    Console(stderr=True, width=None if sys.stderr.isatty() else 110).print(table)
    _next(project, result["scenario"])


def _window(lines: list[dict], key: str, part: str) -> float | None:
    """Mean of a metric over the first or last tenth of the steps."""
    values = [line[key] for line in lines if line.get(key) is not None]
    width = max(1, len(values) // 10)
    chosen = values[:width] if part == "first" else values[-width:]
    return sum(chosen) / len(chosen) if chosen else None


def _next(project: Project, scenario: str) -> None:
    other = "a model with nothing to reinforce" if scenario == "careless" else "a reward with a hole, and how it is caught"
    scripts = _short(TEMPLATE.parent.parent / "scripts")
    config = _short(project.config)
    python = _short(Path(sys.executable))
    made = "config.yaml, data/, model/, run/inspection/" + (", run/train/" if scenario == "learn" else "")
    say(f"\nfiles: {_short(project.folder)}  ({made})")
    say("try next:")
    if scenario == "learn":
        say(f"  {python} {scripts}/diagnose.py {_short(project.folder / 'run')} --report   # what the run did, and a page with its curves")
    say(f"  {python} {scripts}/inspect_rewards.py review {config} --reviewer you   # read the samples yourself, the oracle's labels hidden")
    say(f"  {python} {scripts}/inspect_rewards.py gate {config}   # the gate's answer and its evidence")
    say(f"  {python} {scripts}/quickstart.py --scenario {'never' if scenario == 'careless' else 'careless'}   # {other}")


def _short(path: Path) -> str:
    """The path as one would type it here, quoted where a shell needs it."""
    with contextlib.suppress(ValueError):
        path = path.absolute().relative_to(Path.cwd())
    return shlex.quote(str(path))


def _step(number: int, text: str) -> None:
    say(f"\n[{number}/{STEPS}] {text}")


def _text(completion: str | list[dict]) -> str:
    return completion if isinstance(completion, str) else completion[-1]["content"]


class _ProgressLines(io.TextIOBase):
    """Stands in for stdout while the recipe trains: shows, shortened, every tenth progress line and those of slow steps."""

    def __init__(self) -> None:
        self.shown = time.monotonic()

    def write(self, text: str) -> int:
        for line in text.splitlines():
            with contextlib.suppress(ValueError, KeyError, TypeError):
                data = json.loads(line)
                if data["step"] % 10 == 0 or time.monotonic() - self.shown > SLOW_S:
                    self.shown = time.monotonic()
                    say(
                        f"  step {data['step']:3}  reward {data['reward']:.3f}  mean length {data['completions/mean_length']:.1f}  "
                        f"dead groups {data['frac_reward_zero_std']:.0%}  eta {data['eta_s'] or 0:.0f} s"
                    )
        return len(text)
