"""Plans: the command line's, byte for byte."""

import json
import pathlib
import pickle
from typing import Any, Dict

import pytest
import sluice

GRAPH = """node1 -- Input0 -- forward_compute_time=0.0, backward_compute_time=0.0, activation_size=1000.0, parameter_size=0.0
node2 -- Conv2d -- forward_compute_time=2.0, backward_compute_time=4.0, activation_size=2000.0, parameter_size=500.0
node3 -- Conv2d -- forward_compute_time=3.0, backward_compute_time=5.0, activation_size=2000.0, parameter_size=500.0
node4 -- Add -- forward_compute_time=0.5, backward_compute_time=0.5, activation_size=2000.0, parameter_size=0.0
node5 -- Linear -- forward_compute_time=1.0, backward_compute_time=2.0, activation_size=100.0, parameter_size=4000.0
\tnode1 -- node2
\tnode2 -- node3
\tnode2 -- node4
\tnode3 -- node4
\tnode4 -- node5
"""

H100 = dict(device="h100", global_batch=64)

SETTINGS = [
    ("gpt2", dict(devices=4, device="h200", global_batch=64)),
    ("gpt2", dict(devices=4, device="h200", global_batch=64, schedule="1f1b")),
    ("gpt2", dict(devices=4, device="a100", micro_batches=8, memory="4GiB")),
    ("gpt2", dict(devices=2, device="v100", dtype="fp32", optimizer="sgd", recompute="full")),
    ("gpt2", dict(devices=4, partition="0-3,4-6,7-9,10-13", schedule="zb-h1", **H100)),
    ("gpt2", dict(devices=4, objective="bottleneck", **H100)),
    ("gpt2", dict(devices=3, bandwidth="12GB/s", latency="5us", **H100)),
    ("gpt2", dict(devices=4, chunks=2, schedule="interleaved", **H100)),
    ("gpt2", dict(devices=4, lora="r=16,alpha=32,targets=all-linear", **H100)),
    ("gpt2", dict(devices=4, freeze="transformer.w?e*,*.h.0.*", **H100)),
    ("gpt2", dict(devices=4, what_if=True, **H100)),
    ("gpt2-medium", dict(devices=4, pack=True, seq=512, schedule="zb-h1", **H100)),
    ("gpt2-xl", dict(devices=4, device="a100", global_batch=64, micro_batch_size=2, schedule="1f1b")),
    ("gpt2-xl", dict(devices=8, data_parallel=2, zero=1, schedule="1f1b", **H100)),
    ("char-gpt", dict(devices=2, layers=4, dim=128, heads=4, vocab=300, device="h100")),
    ("mlp", dict(devices=2, device="h100")),
    ("llama-3.1-8b", dict(devices=8, tensor_parallel=2, sequence_parallel=True, schedule="1f1b", **H100)),
    ("mixtral-8x7b", dict(devices=16, schedule="1f1b", **H100)),
    ("GRAPH", dict(devices=2, micro_batches=4)),
    ("GRAPH", dict(devices=3, data_parallel="auto", bandwidth="1GB/s", micro_batches=4)),
    ("GRAPH", dict(devices=2, objective="bottleneck", bandwidth="1GB/s")),
]


def words_of(keywords):
    words = []
    for name, value in keywords.items():
        words += [f"--{name.replace('_', '-')}"] + ([] if value is True else [str(value)])
    return words


@pytest.fixture
def graph(tmp_path):
    file = tmp_path / "graph.txt"
    file.write_text(GRAPH)
    return str(file)


@pytest.mark.parametrize("model, keywords", SETTINGS)
def test_agrees_with_the_command_line(command_line, graph, model, keywords):
    model = graph if model == "GRAPH" else model
    want = command_line.output("plan", model, *words_of(keywords), "--json")
    plan = sluice.plan(model, **keywords)
    assert plan.to_json() == want
    document = json.loads(want)
    assert plan.stages == document["stages"]
    assert plan.lower_bound == document["lower_bound"] and plan.gap == document["gap"]
    assert plan.step_seconds == document.get("step_seconds")
    assert plan.what_if == document.get("what_if", [])
    if plan.step_seconds is None:
        assert plan.timetable is None
        return
    table = plan.timetable
    last = table.to_numpy()["end"].max()
    assert table.ranks == len(table.rank_actions)
    # Where several ranks share a stage, a step also waits for what is on its way at the end.
    assert last <= table.makespan <= plan.step_seconds
    assert last == table.makespan or any(stage.replicas > 1 for stage in plan.stages)
    svg = command_line.output("plan", model, *words_of(keywords), "--format", "svg")
    assert plan.to_svg() == svg
    assert plan._repr_html_().count("<tr>") == len(plan.stages) + 1


def test_plans_for_what_was_measured(command_line, tmp_path):
    profile = str(tmp_path / "profile.json")
    shape = "--layers 2 --dim 64 --heads 2 --seq 64 --micro-batch-size 1".split()
    command_line.output("profile", "char-gpt", *shape, "-o", profile)
    want = json.loads(command_line.output("plan", profile, "--devices", "2", "--json"))
    plan = sluice.plan(profile, devices=2).to_dict()
    # Where oneDNN asks for more work memory than a processor needs, the command line counts that.
    for ours, theirs in zip(plan["stages"], want["stages"]):
        assert ours.pop("peak_bytes") <= theirs.pop("peak_bytes")
    assert plan == want


def test_numbers_without_units_are_base_units(command_line):
    plan = sluice.plan(
        "gpt2",
        devices=4,
        device="h100",
        memory=8 * 2**30,
        bandwidth=12e9,
        latency=5e-6,
        time_limit=60,
        lora={"r": 8, "alpha": 16, "rslora": True, "targets": "all-linear"},
        gap=0.01,
        tied=False,
        cluster=None,
    )
    words = "--devices 4 --device h100 --memory 8GiB --bandwidth 12GB/s --latency 5us --gap 1%".split()
    words += ["--lora", "r=8,alpha=16,rslora=1,targets=all-linear", "--time-limit", "60s"]
    assert plan.to_json() == command_line.output("plan", "gpt2", *words, "--json")


def test_a_plan_is_trained_from(command_line, tmp_path):
    plan = sluice.plan("char-gpt", devices=2, device="h100", layers=2, dim=32, heads=2, seq=16,
                       micro_batches=2, micro_batch_size=1, dtype="fp32", schedule="1f1b")
    file = tmp_path / "plan.json"
    file.write_text(plan.to_json())
    text = tmp_path / "text.txt"
    text.write_text("a pipeline of two stages\n" * 40)
    words = ["--model", "char-gpt", "--layers", "2", "--dim", "32", "--heads", "2", "--seq", "16"]
    out = command_line.output("train", *words, "--data", str(text), "--plan", str(file),
                              "--steps", "2", "--json")
    assert json.loads(out.splitlines()[-1])["steps"] == 2


@pytest.mark.parametrize(
    "flags",
    [{"schedule": "1f1b"}, {"schedule": "zbv"}, {"memory": "6GiB"}, {"tensor_parallel": 2, "devices": 8}],
)
def test_a_plan_comes_back(flags: Dict[str, Any], tmp_path: pathlib.Path) -> None:
    asked = {"devices": 4, "device": "h200", "global_batch": 32, **flags}
    plan = sluice.plan("gpt2", **asked)
    path = tmp_path / "plan.json"
    path.write_text(plan.to_json())
    assert plan.timetable is not None
    for read in (sluice.read_plan(path), sluice.read_plan(plan.to_json()), pickle.loads(pickle.dumps(plan))):
        assert read.to_json() == plan.to_json()
        assert read.timetable is not None
        assert read.timetable.to_csv() == plan.timetable.to_csv()
        assert read.timetable.makespan == pytest.approx(plan.timetable.makespan, rel=1e-12)
        assert read.timetable.to_svg() == plan.timetable.to_svg()
        assert str(read.timetable) == str(plan.timetable)
        assert (read.stages, read.step_seconds) == (plan.stages, plan.step_seconds)


@pytest.mark.parametrize("schedule", ["auto", "1f1b"])
def test_a_plan_of_a_graph_comes_back(graph: str, schedule: str) -> None:
    """With its branches; what it shows of its timetable is what the timetable alone says."""
    path = pathlib.Path(graph)
    path.write_text(GRAPH.replace("node3 -- node4", "node3 -- node5"))
    plan = sluice.plan(path, devices=2, micro_batches=4, schedule=schedule)
    assert plan.timetable is not None and plan.stages[0].first_layer is None
    for read in (sluice.read_plan(plan.to_json()), pickle.loads(pickle.dumps(plan))):
        assert read.timetable is not None
        assert read.timetable.to_csv() == plan.timetable.to_csv()
        for field in ("makespan", "lower_bound", "gap"):
            assert getattr(read.timetable, field) == pytest.approx(getattr(plan.timetable, field), rel=1e-9)
    assert plan.timetable.lower_bound < plan.lower_bound


def test_a_printed_timetable_has_the_unit_of_the_command_line(
    command_line: Any, tmp_path: pathlib.Path
) -> None:
    plan = sluice.plan("gpt2", devices=2, device="h100", global_batch=16, schedule="1f1b")
    path = tmp_path / "plan.json"
    path.write_text(plan.to_json())
    assert plan.timetable is not None
    shown = command_line.output("schedule", "show", str(path), "--width", "100")
    assert str(plan.timetable).splitlines()[1] == shown.splitlines()[1]
    assert " ms  bubble" in shown.splitlines()[1]


def test_what_is_no_plan(tmp_path: pathlib.Path) -> None:
    with pytest.raises(ValueError, match="nowhere.json: cannot be read: No such file"):
        sluice.read_plan(tmp_path / "nowhere.json")
    with pytest.raises(ValueError, match="the text: field 'devices' is missing"):
        sluice.read_plan('{"model": "gpt2"}')
    with pytest.raises(ValueError, match="the text: Expecting"):
        sluice.read_plan("{")
    with pytest.raises(ValueError, match="the text: "):
        sluice.read_plan('{"a":' * 100000)
    plan = sluice.plan("gpt2", devices=2, device="h100", global_batch=16, schedule="1f1b")

    def changed(**fields: Any) -> str:
        return json.dumps({k: v for k, v in {**plan.to_dict(), **fields}.items() if v != "absent"})

    def stage(**fields: Any) -> Dict[str, Any]:
        first, second = plan.to_dict()["stages"]
        second.update(fields)
        return {"stages": [first, {k: v for k, v in second.items() if v != "absent"}]}

    wrong = [
        (changed(bottleneck_seconds="absent"), "field 'bottleneck_seconds' is missing; expected a plan"),
        (changed(step_seconds="absent"), "field 'step_seconds' is missing"),
        (changed(schedule="absent"), "field 'schedule' is missing"),
        (changed(gap="small"), "field 'gap' is \"small\"; expected a number"),
        (changed(optimal=1), "field 'optimal' is 1; expected true or false"),
        (changed(devices=True), "field 'devices' is true; expected a whole number"),
        (changed(partition=None), "field 'partition' is null; expected a text"),
        (changed(stages=3), "field 'stages' is 3; expected a list of objects"),
        (changed(stages=[]), "field 'stages' is \\[\\]; expected at least one stage"),
        (changed(**stage(peak_bytes="absent")), "field 'stages\\[1\\].peak_bytes' is missing"),
        (changed(**stage(layer_names=[])), "field 'stages\\[1\\].layer_names' is .*a list of names"),
        (changed(bubble=float("nan")), "NaN is no JSON"),
    ]
    path = tmp_path / "changed.json"
    for text, message in wrong:
        path.write_text(text)
        with pytest.raises(ValueError, match=f"changed.json: {message}"):
            sluice.read_plan(path)
    path.write_text("[3]")
    with pytest.raises(ValueError, match=r"changed.json: \[3\]; expected an object"):
        sluice.read_plan(path)
    # What a plan may lack: the rank of a stage. Over a bound of 0 no gap is known.
    read = sluice.read_plan(changed(gap=None, **stage(rank="absent")))
    assert read.gap == float("inf") and "gap inf" in repr(read)
    assert read._repr_html_().count("<tr>") == 3
