#!/usr/bin/env python3
# /// script
# requires-python = ">=3.11"
# dependencies = [
#   "accelerate>=1.12",
#   "datasets>=4.7",
#   "jsonschema[format-nongpl]>=4.23",
#   "math-verify>=0.9,<0.10",
#   "peft>=0.18",
#   "pyyaml>=6.0",
#   "rich>=13.7",
#   "torch>=2.9",
#   "transformers>=5.10,<5.18",
#   "trl>=1.16,<1.17",
# ]
# ///
"""Train with GRPO. The recipe, to be read from top to bottom; copy it into your project and change it there.

config -> data -> rewards -> gate -> lint -> TRL's GRPOTrainer, unmodified -> held-out accuracy before and after.
"""

import contextlib
import importlib.util
import json
import os
import sys
from pathlib import Path

HERE, HOME, NAMED = Path(__file__).resolve(), Path(os.path.expanduser("~")), os.environ.get("GRPO_RLVR_SKILL")


def up(folder: Path):
    """The folder and those above it, up to the project's root (the first with .git) or the user's home."""
    yield folder
    if folder not in (HOME, folder.parent) and not (folder / ".git").exists():
        yield from up(folder.parent)


def refuse(code: int, kind: str, message: str, fix: str):
    if "--json" in sys.argv[1:]:
        print(json.dumps({"error": {"kind": kind, "message": message, "fix": fix}}))
    print(f"error ({kind})\n  {message}\n    -> {fix}", file=sys.stderr)
    sys.exit(code)


# The library: with the skill that this file lies in; for a copy of this file where $GRPO_RLVR_SKILL says, else beside it, else in a skills
# folder of the project or of the user, else installed.
SKILLS = [
    f / s / "skills/grpo-rlvr-training/scripts" for f in dict.fromkeys((*up(Path.cwd()), *up(HERE.parent), HOME)) for s in (".agents", ".claude")
]
PLACES = [HERE.parent.parent / "scripts", *([Path(NAMED).expanduser().resolve() / "scripts"] if NAMED else []), HERE.parent, *SKILLS]
FOUND = [place for place in PLACES if (place / "grpo_rlvr" / "cli.py").is_file()]
if NAMED and not {*PLACES[:2]} & {*FOUND}:
    refuse(2, "environment", f"GRPO_RLVR_SKILL is {NAMED!r}: no library in {PLACES[1]}", "set it to the folder of SKILL.md, or unset it")
sys.path[:0] = [str(place) for place in FOUND[:1]]
sys.dont_write_bytecode = True  # the skill's folder stays as it is; cli.parser lifts this for all other packages
if not FOUND and not (importlib.util.find_spec("grpo_rlvr") and importlib.util.find_spec("grpo_rlvr.cli")):
    refuse(3, "missing", f"no library grpo_rlvr in {', '.join(map(str, PLACES))}", "set GRPO_RLVR_SKILL to the folder of SKILL.md")

from grpo_rlvr import cli  # noqa: E402
from grpo_rlvr.packages import LIGHT, TRAINING, need  # noqa: E402
from grpo_rlvr.which import say_recipe, say_which  # noqa: E402


def train(args) -> tuple[int, dict]:
    need(LIGHT | TRAINING, "training")
    from grpo_rlvr.config import load_config
    from grpo_rlvr.data import check_rows, load_rows, to_dataset
    from grpo_rlvr.rewards.registry import build_rewards

    # 1. What is asked for. Every mistake in the config and the data is reported before anything heavy is loaded.
    config = load_config(args.config)
    if args.merge:
        from grpo_rlvr.training.merge import merge

        return merge(config)
    unmeasured = [] if args.check or args.launch else None  # prompts, where the tokenizer is not here: a check goes on, training stops
    rows = load_rows(config, "train", unmeasured=unmeasured)
    held_out = load_rows(config, "eval", limit=config.data.eval_limit, unmeasured=unmeasured)
    rewards = build_rewards(config)
    check_rows(rewards, rows)
    check_rows(rewards, held_out, "data.eval") if held_out else None

    # 2. Do the settings hang together, and can this machine run them?
    from grpo_rlvr.training import launch

    findings = launch.check(config, rows, held_out, planned=args.launch, unmeasured=unmeasured)
    if args.launch:
        return launch.show_plan(config, args)
    run = launch.RunFolder(config.run_folder)
    settings = launch.settings_for(config, rewards, run, bool(held_out))
    if args.check:
        findings += launch.check_golds(config, rewards, rows, held_out)
    checked = launch.report_check(config, settings, rows, findings, args.resume) if args.check else None

    if args.dry_step:
        return launch.dry_step(config, settings, rows, launch.model_path(config))

    # 3. Has a person read samples, and is everything they judged still the same?
    gate = launch.open_gate(config, rewards, rows, args.without_gate, unmeasured)
    if checked:
        return checked[0], {**checked[1], **gate}
    if args.resume and (done := launch.already_finished(run)):
        return done

    with launch.main_process_lock(run), launch.StopCallback() as stop, contextlib.ExitStack() as ends:
        checkpoint = launch.start(run, config, settings, gate, args.resume, rows, args.allow_changes)
        server = ends.enter_context(launch.vllm_server(config, run.logs))  # only with hardware.vllm_server.start

        # 4. TRL's trainer. The model goes in by name, with its dtype spelled out: TRL's default is float32 whatever the checkpoint holds.
        with launch.explained_failures():
            from trl import GRPOTrainer

        batch = launch.reward_batch(config, rewards, run)
        prompts = {row["row_id"]: row["prompt"] for row in held_out}
        laid = launch.lay_out(config, rows, settings)  # several epochs as one list, so that any resume is exact
        inputs = launch.held_out_digest(config, rewards, held_out)
        vllm = launch.vllm_callback(run, config, server)
        tables = launch.TablesCallback(config.run.completion_tables)
        with launch.loading_errors(config):
            training_args = launch.build_grpo_config(laid.settings, eval_on_start=bool(held_out) and launch.needs_evaluation(run, 0))
            progress = launch.ProgressCallback(run.progress, batch, args.out, laid.epochs)
            recorder = launch.HeldOutCallback(batch, run.logs, run.evaluations, prompts, training_args.num_generations_eval, inputs)
            trainer = GRPOTrainer(
                model=launch.model_path(config),
                args=training_args,
                train_dataset=laid.dataset,
                eval_dataset=to_dataset(held_out) if held_out else None,
                reward_funcs=batch.functions(),
                peft_config=launch.peft_config(config),
                callbacks=[progress, recorder, tables, vllm, stop, launch.NoMoreStepsCallback(), launch.FiniteCallback(batch)],
            )
        launch.prepare(trainer, config, rows)
        launch.stop_on_symptoms(trainer, config, settings, run)  # run.stop_on

        # 5. Train. A signal saves a checkpoint and ends here with fewer steps than asked for.
        with progress, launch.explained_failures(config), launch.server_failures(config, trainer, server), launch.steps_left(trainer, checkpoint):
            trainer.train(resume_from_checkpoint=str(checkpoint) if checkpoint else None)
        vllm.raise_problem()
        if trainer.state.global_step < trainer.state.max_steps:
            return launch.stopped(trainer, run, stop)

        # 6. What was learned: the same held-out prompts as before the first step.
        with launch.explained_failures(config), launch.server_failures(config, trainer, server):
            if held_out and launch.needs_evaluation(run, trainer.state.global_step):
                trainer.evaluate()
            trainer.save_model(str(run.model))
        return launch.finish(trainer, run, gate)


def build_parser():
    parser = cli.parser("train.py", "Train with GRPO, after the inspection gate.", [
        "train.py init DIR --model M      a new run's files, filled in from flags; see train.py init --help",
        "train.py config.yaml --check     everything but the training",
        "train.py config.yaml --dry-step  one worst-case step on this device, beside the memory plan",
        "train.py config.yaml             train; one JSON line a logged step on stdout",
        "train.py config.yaml --resume    go on from the last whole checkpoint",
        "train.py config.yaml --launch    the commands for several GPUs or machines; --go starts them",
    ])  # fmt: skip
    parser.add_argument("config", help="the config.yaml of the project; or init, which makes one: train.py init --help")
    parser.add_argument("--check", action="store_true", help="check config, data, gate, settings and machine; do not train")
    parser.add_argument("--dry-step", action="store_true", help="measure the longest step on this device; needs no gate, keeps no weights")
    parser.add_argument("--resume", action="store_true", help="go on from the last whole checkpoint of the run folder")
    parser.add_argument("--allow-changes", action="store_true", help="with --resume: go on although settings or rows have changed since the start")
    parser.add_argument("--merge", action="store_true", help="put the adapter of a run with model.lora into its base model: train/merged")
    parser.add_argument("--launch", action="store_true", help="print the commands that start this run on the GPUs and machines of hardware:")
    parser.add_argument("--go", action="store_true", help="with --launch: start the one of this machine")
    parser.add_argument("--machine-rank", type=int, metavar="N", help="with --go on several machines: which one this is, from 0")
    parser.add_argument("--main-ip", metavar="ADDRESS", help="with --launch: address of machine 0")
    parser.add_argument("--server-ip", metavar="ADDRESS", help="with --launch: address of the last machine, where it serves vLLM")
    parser.add_argument("--without-gate", metavar="REASON", help="train without an open gate; the reason is recorded in the run")
    parser.add_argument("--json", action="store_true", help="one JSON object on stdout at the end; progress lines go to stderr")
    return parser


if __name__ == "__main__":
    if sys.argv[1:2] == ["init"]:  # a config of that name is ./init
        from grpo_rlvr.training.init import main

        sys.exit(main(sys.argv[2:]))
    arguments = build_parser().parse_args()
    arguments.out = sys.stderr if arguments.json else sys.stdout
    arguments.json = arguments.json and os.environ.get("RANK", "0") == "0"  # of several processes, the first answers
    if PLACES[0] in FOUND:
        say_recipe(arguments.config, HERE)
    elif not arguments.go:  # the processes that --go starts say it
        say_which(FOUND[1:])
    sys.exit(cli.run(train, arguments))
