from __future__ import annotations

from types import SimpleNamespace

from grpo_rlvr.training.callbacks import TablesCallback
from grpo_rlvr.training.tables import surplus, table_path


def paths(tmp_path, steps, prefix=""):
    return [tmp_path / f"{prefix}completions_{s:05d}.parquet" for s in steps]


def test_the_newest_half_stays_and_the_rest_is_thinned(tmp_path):
    tables = paths(tmp_path, range(1, 101))
    gone = surplus(tables, 20)
    kept = [int(t.stem[-5:]) for t in tables if t not in gone]
    assert len(kept) == 20 and kept[-10:] == list(range(91, 101))
    assert kept[0] == 1 and max(b - a for a, b in zip(kept, kept[1:], strict=False)) <= 12
    assert surplus(tables, 100) == [] and len(surplus(tables, 2)) == 98


def test_tables_of_evaluations_count_apart(tmp_path):
    evaluations = paths(tmp_path, range(5), "eval_")
    assert not set(surplus(sorted(paths(tmp_path, range(50)) + evaluations), 10)) & set(evaluations)


def test_an_evaluation_does_not_write_over_the_training_s_table(tmp_path):
    args, state = SimpleNamespace(output_dir=str(tmp_path)), SimpleNamespace(global_step=7, is_world_process_zero=True)
    table = table_path(args.output_dir, 7)
    table.parent.mkdir()
    callback = TablesCallback(keep=4)
    table.write_text("training")
    callback.on_prediction_step(args, state, None)
    callback.on_prediction_step(args, state, None)
    table.write_text("held out")  # TRL, at the end of the evaluation
    callback.on_evaluate(args, state, None)
    assert table.read_text() == "training" and table.with_name("eval_completions_00007.parquet").read_text() == "held out"
    assert len(list(table.parent.iterdir())) == 2
    for step in range(8, 30):
        table_path(args.output_dir, step).write_text("training")
    callback.on_save(args, state, None)
    assert len(list(table.parent.glob("completions_*"))) == 4


def test_an_evaluation_before_the_first_step_has_a_name_of_its_own(tmp_path):
    args, state = SimpleNamespace(output_dir=str(tmp_path)), SimpleNamespace(global_step=0, is_world_process_zero=True)
    table_path(args.output_dir, 0).parent.mkdir()
    callback = TablesCallback(keep=4)
    callback.on_prediction_step(args, state, None)
    table_path(args.output_dir, 0).write_text("held out")
    callback.on_evaluate(args, state, None)
    assert [p.name for p in tmp_path.rglob("*.parquet")] == ["eval_completions_00000.parquet"]
