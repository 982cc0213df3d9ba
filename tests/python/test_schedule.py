"""Timetables: against the command line, a naive simulator, and every order there is."""

import copy
import json
import pickle
import xml.etree.ElementTree

import naive
import numpy
import pytest
import sluice

# What the command line and the package are both asked.
SETTINGS = [
    ("gpipe", dict(ranks=4, micro_batches=8)),
    ("1f1b", dict(ranks=4, micro_batches=8)),
    ("1f1b", dict(ranks=8, micro_batches=24, costs="F=1,B=2,send=0.25")),
    ("1f1b", dict(ranks=3, micro_batches=5, recompute=True)),
    ("eager-1f1b", dict(ranks=4, micro_batches=9, costs="F=1.5,send=0.5")),
    ("interleaved", dict(ranks=4, micro_batches=8, chunks=3, group=4)),
    ("interleaved-zb", dict(ranks=4, micro_batches=8)),
    ("bfs", dict(ranks=2, micro_batches=4, chunks=2)),
    ("zb-h1", dict(ranks=4, micro_batches=8, costs="F=0.1,I=0.2,W=0.3")),
    ("zb-h2", dict(ranks=4, micro_batches=12)),
    ("zb-2p", dict(ranks=4, micro_batches=12, memory_limit=7)),
    ("zbv", dict(ranks=4, micro_batches=8)),
    ("v-half", dict(ranks=4, micro_batches=10)),
    ("v-min", dict(ranks=6, micro_batches=12)),
    ("dualpipev", dict(ranks=4, micro_batches=16, costs="F=1,B=2,overlap=2.5")),
    ("chimera", dict(ranks=4, micro_batches=8)),
    ("hanayo", dict(ranks=4, micro_batches=8)),
    ("pipedream", dict(ranks=4, micro_batches=8)),
    ("pipedream-2bw", dict(ranks=4, micro_batches=16, update_every=8)),
    ("1f1b", dict(micro_batches=12, stage_replicas=[3, 1])),
    ("auto", dict(ranks=4, micro_batches=8, memory_limit=3)),
    ("auto", dict(ranks=3, micro_batches=6, chunks="auto", costs="F=1,I=1,W=2")),
    ("auto", dict(ranks=2, micro_batches=6, chunks=2, placement="v", memory_limit=5)),
]


def words_of(keywords):
    words = []
    for name, value in keywords.items():
        name = {"costs": "cost"}.get(name, name)
        value = ",".join(map(str, value)) if isinstance(value, list) else value
        words += [f"--{name.replace('_', '-')}"] + ([] if value is True else [str(value)])
    return words


@pytest.mark.parametrize("name, keywords", SETTINGS)
def test_agrees_with_the_command_line(command_line, name, keywords):
    table = sluice.schedule(name, **keywords)
    show = ["schedule", "show", name, *words_of(keywords)]
    assert table.to_json(actions=True) + "\n" == command_line.output(*show, "--json", "--actions")
    # Each field is that of the document.
    document = json.loads(table.to_json(actions=True))
    for field in ("makespan", "bubble", "span_bubble", "lower_bound", "gap", "peak_activations"):
        assert getattr(table, field) == document[field]
    assert table.rank_actions == document["rank_actions"]


@pytest.mark.parametrize("form", ["svg", "html", "trace", "csv"])
@pytest.mark.parametrize("name, keywords", SETTINGS[1:24:6])
def test_draws_as_the_command_line(command_line, name, keywords, form):
    show = ["schedule", "show", name, *words_of(keywords), "--format", form]
    assert getattr(sluice.schedule(name, **keywords), f"to_{form}")() == command_line.output(*show)


def test_costs_of_stages_are_those_of_the_file(command_line, tmp_path):
    costs = {
        "F": [1.0, 2.0, 1.5, 0.5],
        "I": [1.0, 2.0, 1.0, 1.0],
        "W": [0.5, 1.0, 1.5, 0.5],
        "send": [0.1, 0.2, 0.3],
        "activation_bytes": [4.0, 3.0, 2.0, 1.0],
        "weight_grad_bytes": [1.0, 1.0, 1.0, 1.0],
        "device_memory": [14.0, 14.0, 9.0, 4.0],
    }
    file = tmp_path / "costs.json"
    file.write_text(json.dumps(costs))
    arrays = {name: numpy.array(values) for name, values in costs.items()}
    items = {name: [numpy.float32(v) for v in values] for name, values in costs.items() if name != "send"}
    items["send"] = list(arrays["send"])
    for name in ("zb-h1", "auto"):
        show = ["schedule", "show", name, "-p", "4", "-m", "8", "--costs", str(file), "--json"]
        want = command_line.output(*show)
        for given in (costs, arrays, items):
            table = sluice.schedule(name, ranks=4, micro_batches=8, costs=given)
            assert table.to_json() + "\n" == want
    assert table.peak_bytes == json.loads(want)["peak_bytes"]
    assert all(held <= most for held, most in zip(table.peak_bytes, costs["device_memory"]))


def test_numbers_alone_hold_for_every_stage():
    want = sluice.schedule("1f1b", ranks=4, micro_batches=8, costs="F=1,B=3,send=0.5")
    costs = {"F": 1, "B": numpy.float64(3), "send": 0.5}
    assert sluice.schedule("1f1b", ranks=4, micro_batches=8, costs=costs).to_json() == want.to_json()


@pytest.mark.parametrize("other", [{"F": [1, 2, 3, 4]}, {"activation_bytes": [1, 1, 1, 1]}, {"device_memory": [9] * 4}])
def test_numbers_beside_lists_are_refused(other):
    with pytest.raises(ValueError, match="costs: B is 2; expected a list with a number per stage, since a number"):
        sluice.schedule("1f1b", ranks=4, micro_batches=8, costs={**other, "B": numpy.int64(2)})


@pytest.mark.parametrize("name", ["gpipe", "1f1b", "interleaved", "zb-h1", "zbv", "hanayo", "auto"])
@pytest.mark.parametrize("seed", range(3))
def test_agrees_with_a_naive_simulator(name, seed):
    random = numpy.random.default_rng(seed)
    stages = 4 * {"interleaved": 2, "zbv": 2, "hanayo": 2}.get(name, 1)
    costs = {op: random.integers(1, 9, stages).astype(float) for op in "FIW"}
    costs["send"] = float(random.integers(0, 3))
    table = sluice.schedule(name, ranks=4, micro_batches=8, costs=costs)
    rows = [[(a.op, a.stage, a.micro_batch) for a in row] for row in table.rank_actions]

    def cost(op, stage):
        return costs["I"][stage] + costs["W"][stage] if op == "B" else costs[op][stage]

    times = naive.simulate(rows, stages, cost, costs["send"])
    assert times == [[(a.start, a.end) for a in row] for row in table.rank_actions]
    assert table.makespan == naive.makespan(times)
    splits = any(op == "W" for op, _, _ in rows[0])
    assert table.peak_activations == [
        naive.peak_activations(row, t, splits) for row, t in zip(rows, times)
    ]
    work = [sum(end - start for start, end in t) for t in times]
    assert table.work == pytest.approx(work)
    assert table.bubble == pytest.approx(1 - sum(work) / (4 * table.makespan))
    spans = [t[-1][1] - t[0][0] for t in times]
    assert table.span_bubble == pytest.approx(1 - sum(work) / (4 * max(spans)))
    assert table.lower_bound <= table.makespan
    assert table.gap == pytest.approx(table.makespan / table.lower_bound - 1)


@pytest.mark.parametrize("limit", [None, 1, 2])
@pytest.mark.parametrize("seed", range(4))
def test_auto_is_the_best_of_all_orders(seed, limit):
    random = numpy.random.default_rng(seed)
    costs = {op: random.integers(1, 6, 2).astype(float) for op in "FIW"}
    best = sluice.schedule("auto", ranks=2, micro_batches=2, costs=costs, memory_limit=limit)
    least = naive.least_makespan(2, lambda op, stage: costs[op][stage], limit)
    assert best.makespan == least
    assert best.lower_bound <= least


def test_actions_as_an_array():
    table = sluice.schedule("zbv", ranks=4, micro_batches=8)
    array = table.to_numpy()
    flat = [(rank, a) for rank, row in enumerate(table.rank_actions) for a in row]
    assert array.shape == (len(flat),)
    for field in ("op", "stage", "micro_batch", "start", "end"):
        assert array[field].tolist() == [a[field] for _, a in flat]
    assert array["rank"].tolist() == [rank for rank, _ in flat]
    assert array["end"].max() == table.makespan


def test_csv_comes_back(command_line, tmp_path):
    for name in ("1f1b", "zbv", "chimera"):
        table = sluice.schedule(name, ranks=4, micro_batches=8)
        text = table.to_csv()
        file = tmp_path / f"{name}.csv"
        file.write_text(text)
        place = {"placement": "bidirectional"} if name == "chimera" else {}
        for given in (text, file, str(file)):
            again = sluice.read_csv(given, **place)
            assert again.check() == []
            assert again.to_csv() == text
            assert again.makespan == table.makespan
    windows = sluice.read_csv(text.replace("\n", "\r\n"))
    assert windows.to_csv() == text.replace("\n", "\r\n")


def test_comms_are_those_of_the_command_line(command_line):
    table = sluice.schedule("zb-h1", ranks=4, micro_batches=8)
    show = ["schedule", "show", "zb-h1", "-p", "4", "-m", "8", "--format", "comms-csv"]
    assert table.to_csv("comms") == table.to_csv("comms", torch="2.15")
    assert table.to_csv("comms") == command_line.output(*show)
    older = table.to_csv("comms", torch="2.8")
    assert "WAIT_SEND" in table.to_csv("comms") and "WAIT_SEND" not in older
    # The messages of both are alike, and so is what is computed.
    for text in (older, table.to_csv("comms")):
        again = sluice.read_csv(text)
        assert again.check() == [] and again.makespan == table.makespan
    with pytest.raises(ValueError, match="torch is '1.0'; expected '2.8' or '2.15'"):
        table.to_csv("comms", torch="1.0")


def test_comms_are_of_stages_with_one_rank_each(command_line):
    table = sluice.schedule("1f1b", micro_batches=6, stage_replicas=[2, 1])
    with pytest.raises(ValueError, match="compute_comms format has one rank per stage") as caught:
        table.to_csv("comms")
    show = "schedule show 1f1b -m 6 --stage-replicas 2,1 --format comms-csv".split()
    code, _, err = command_line.run(*show)
    assert code == 2 and str(caught.value) == err.strip().replace("sluice: ", "").replace("--format", "format")
    assert "SEND" in sluice.schedule("1f1b", micro_batches=6, stage_replicas=[1, 1]).to_csv("comms")


def test_check_lists_what_the_command_line_lists(command_line, tmp_path):
    file = tmp_path / "bad.csv"
    file.write_text("0F0,0F1,0B1,0B0\n1F0,1B0,1F1\n")
    code, out, _ = command_line.run("schedule", "check", str(file), "--json")
    table = sluice.read_csv(file)
    assert code == 4 and table.check() == json.loads(out)["defects"] != []
    messages = ["schedule", "show", str(file), "--format", "comms-csv"]
    assert command_line.run(*messages)[0] == 4
    for use in (
        lambda: table.makespan,
        lambda: table.rank_actions,
        lambda: table.to_csv("comms"),
        table.to_svg,
        table.to_numpy,
    ):
        with pytest.raises(sluice.Invalid, match="not a sound timetable") as caught:
            use()
        assert caught.value.defects == table.check()
        assert caught.value.exit_code == 4
    assert table.to_csv() == file.read_text()
    assert f", {len(table.check())} defects>" in repr(table) and "<li>" in table._repr_html_()


def test_one_defect_is_one():
    table = sluice.read_csv("0F0,0B0\n1B0,1F0\n")
    assert len(table.check()) == 1 and repr(table).endswith(", 1 defect>")


def everything_of(table):
    """All that a timetable says of itself."""
    if table.check():
        return table.check(), table.to_csv(), repr(table)
    numbers = table.makespan, table.lower_bound, table.gap, table.peak_bytes, table.to_numpy().tolist()
    drawings = table.to_text(), table.to_svg(), table.to_html(), table.to_trace()
    return table.to_json(actions=True), table.to_csv(), numbers, drawings


BYTES = {"F": [1, 2.5], "B": [2, 1 / 3], "send": 0.1, "activation_bytes": [5, 6], "device_memory": [9e9, 1e9]}


@pytest.mark.parametrize(
    "table",
    [
        sluice.schedule("1f1b", ranks=2, micro_batches=3, costs=BYTES, memory_limit=2),
        sluice.schedule("auto", ranks=3, micro_batches=4, chunks="auto", costs="F=1,I=2,W=0.3,send=0.1"),
        sluice.schedule("auto", ranks=2, micro_batches=6, chunks=2, placement="v", memory_limit=5),
        sluice.schedule("chimera", ranks=4, micro_batches=4),
        sluice.schedule("dualpipev", ranks=2, micro_batches=4, costs="overlap=2"),
        sluice.schedule("pipedream-2bw", ranks=2, micro_batches=8, update_every=4),
        sluice.schedule("1f1b", micro_batches=6, stage_replicas=[2, 1]),
        sluice.schedule("1f1b", ranks=2, micro_batches=2, costs="F=0,B=0"),
        sluice.schedule("gpipe", ranks=2, micro_batches=2, recompute=True),
        sluice.read_csv("0F0,0B0\r\n"),
        sluice.read_csv("0F0,0F0\n,1B0\n"),
        sluice.plan("gpt2", devices=2, device="a100", global_batch=8).timetable,
    ],
    ids=lambda table: table.name,
)
def test_a_copy_is_the_timetable_and_a_pickle_makes_the_same(table):
    assert copy.copy(table) is table and copy.deepcopy(table) is table
    assert everything_of(pickle.loads(pickle.dumps(table))) == everything_of(table)


def test_comparisons_are_copied_and_pickled():
    lines = sluice.compare(["1f1b", "auto"], ranks=2, micro_batches=3)
    assert str(copy.deepcopy(lines)) == str(lines) == str(pickle.loads(pickle.dumps(lines)))


def test_a_state_that_is_none_is_refused():
    function, (state,) = sluice.schedule("1f1b", ranks=2, micro_batches=3).__reduce__()
    for wrong, why in (
        (state.replace('"format":1', '"format":2'), "of another version of sluice"),
        (state.replace('"makespan"', '"makespam"'), "not whole: .*makespan"),
        (state[:-1], "not valid JSON"),
    ):
        with pytest.raises(ValueError, match=why):
            function(wrong)


def test_a_notebook_shows_it():
    table = sluice.schedule("1f1b", ranks=2, micro_batches=3)
    root = xml.etree.ElementTree.fromstring(table._repr_svg_())
    assert root.tag.endswith("svg")
    shown = table._repr_html_()
    assert "makespan 12" in shown and "data:image/svg+xml" in shown
    assert str(table).startswith("1f1b: 2 ranks, 3 micro-batches\nmakespan 12 ")


def test_compare_is_that_of_the_command_line(command_line):
    names = ["1f1b", "interleaved", "zbv", "auto"]
    lines = sluice.compare(names, ranks=4, micro_batches=8, chunks=2)
    words = ["schedule", "compare", *names, "-p", "4", "-m", "8", "-v", "2"]
    assert str(lines) == command_line.output(*words)
    assert [line.name for line in lines] == names and len(lines[1:]) == 3
    assert "<td>interleaved</td>" in lines._repr_html_()
    everything = sluice.compare(ranks=4, micro_batches=6)
    assert str(everything) == command_line.output("schedule", "compare", "-p", "4", "-m", "6")
    assert set(everything.skipped) | {line.name for line in everything} == {
        entry.name for entry in sluice.schedules()
    }


@pytest.mark.parametrize("names", [["1f1b", "interleaved", "auto"], []], ids=["named", "all"])
@pytest.mark.parametrize(
    "keywords, words",
    [
        (dict(time_limit=60), ["--time-limit", "60s"]),
        (dict(chunks="auto"), ["-v", "auto"]),
    ],
)
def test_what_auto_alone_takes_keeps_the_others_in(command_line, names, keywords, words):
    lines = sluice.compare(names or None, ranks=2, micro_batches=4, **keywords)
    assert str(lines) == command_line.output("schedule", "compare", *names, "-p", "2", "-m", "4", *words)
    assert {"1f1b", "auto"} <= {line.name for line in lines}


@pytest.mark.parametrize("names", [["1f1b", "zbv"], []], ids=["named", "all"])
def test_compare_recomputes_as_the_command_line(command_line, names):
    costs = {"F": 1, "RECOMPUTE": 2}
    lines = sluice.compare(names or None, ranks=2, micro_batches=4, costs=costs, recompute=True)
    words = ["schedule", "compare", *names, "-p", "2", "-m", "4", "--cost", "F=1,RECOMPUTE=2"]
    assert str(lines) == command_line.output(*words, "--recompute")


@pytest.mark.parametrize("names", [["1f1b", "zbv", "auto"], []], ids=["named", "all"])
def test_compare_places_as_the_command_line(command_line, names):
    lines = sluice.compare(names or None, ranks=2, micro_batches=4, placement="v")
    words = ["schedule", "compare", *names, "-p", "2", "-m", "4", "--placement", "v"]
    assert str(lines) == command_line.output(*words)
    assert names or "interleaved" in lines.skipped


def test_compare_gives_updates_to_those_that_take_them(command_line):
    names = ["1f1b", "pipedream-2bw"]
    lines = sluice.compare(names, ranks=2, micro_batches=8, update_every=4)
    words = ["schedule", "compare", *names, "-p", "2", "-m", "8", "--update-every", "4"]
    assert str(lines) == command_line.output(*words)


def test_compare_refuses_what_none_of_the_schedules_takes(command_line):
    size = dict(ranks=2, micro_batches=4)
    message = "group 2: none of 1f1b, gpipe has groups; leave group out"
    with pytest.raises(ValueError, match=message):
        sluice.compare(["1f1b", "gpipe"], group=2, **size)
    words = ["schedule", "compare", "1f1b", "gpipe", "-p", "2", "-m", "4", "--group", "2"]
    code, _, err = command_line.run(*words)
    assert code == 2 and message.replace("group 2", "--group 2").replace("leave ", "leave --") in err
    with pytest.raises(ValueError, match="did you mean '1f1b'"):
        sluice.compare(["1f2b"], group=2, **size)
    with pytest.raises(ValueError, match="time_limit limits the search of schedule auto"):
        sluice.compare(["1f1b"], time_limit=3, **size)
    with pytest.raises(ValueError, match="chunks auto is for schedule auto; give a number"):
        sluice.compare(["1f1b"], chunks="auto", **size)
    with pytest.raises(ValueError, match="chunks 2: none of 1f1b, gpipe has a choice of chunks; leave"):
        sluice.compare(["1f1b", "gpipe"], chunks=2, **size)
    with pytest.raises(ValueError, match="update_every 2: none of 1f1b, auto chooses when weights"):
        sluice.compare(["1f1b", "auto"], update_every=2, **size)
    with pytest.raises(ValueError, match="places its stages itself, not as placement v says"):
        sluice.compare(["interleaved"], placement="v", **size)
    with pytest.raises(ValueError, match="names is empty; name a schedule"):
        sluice.compare([], **size)
    with pytest.raises(ValueError, match="costs: line 1, column 2: not valid|costs: .*expected"):
        sluice.compare(costs={"F": float("nan"), "I": [1]}, **size)
    with pytest.raises(ValueError, match="time_limit: .*soon"):
        sluice.compare(time_limit="soon", **size)
    with pytest.raises(ValueError, match="RECOMPUTE has no effect without recompute"):
        sluice.compare(["1f1b"], costs={"F": 1, "RECOMPUTE": 1}, **size)


def test_the_catalogue_is_that_of_the_command_line(command_line):
    assert sluice.schedules() == json.loads(command_line.output("schedule", "list", "--json"))
    entry = next(entry for entry in sluice.schedules() if entry.name == "zbv")
    assert entry.default_chunks == 2 and entry["splits_backward"] is True
