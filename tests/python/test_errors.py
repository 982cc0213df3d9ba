"""What the command line answers with an exit code is an exception with the same words."""

import json

import pytest
import sluice

BAD = [
    (lambda: sluice.schedule("1f2b", ranks=4, micro_batches=8), "did you mean '1f1b'"),
    (lambda: sluice.schedule("1f1b", ranks=4), "needs ranks and micro_batches"),
    (lambda: sluice.schedule("1f1b", ranks=0, micro_batches=8), "ranks"),
    (lambda: sluice.schedule("1f1b", ranks="four", micro_batches=8), "ranks: four is not a whole"),
    (lambda: sluice.schedule("1f1b", ranks=[], micro_batches=8), "ranks: the value is empty"),
    (lambda: sluice.schedule("1f1b", ranks=True, micro_batches=8), "ranks: true is not a whole number"),
    (lambda: sluice.schedule("1f1b", ranks=4, micro_batches=True), "micro_batches: true is not a whole"),
    (lambda: sluice.plan("gpt2", devices=True, device="h100"), "devices: true is not a whole number"),
    (lambda: sluice.schedule("1f1b", ranks=4, micro_batches=2**70), "micro_batches: .* is too large"),
    (lambda: sluice.schedule("1f1b", ranks=4, micro_batches=8, group=2), "leave group out"),
    (lambda: sluice.schedule("1f1b", ranks=object(), micro_batches=8), "ranks is a object"),
    (lambda: sluice.schedule("zbv", ranks=4, micro_batches=8, placement="looped"), "placement"),
    (lambda: sluice.schedule("table.csv", ranks=4, micro_batches=8), "read_csv"),
    (lambda: sluice.schedule("1f1b", ranks=2, micro_batches=2, costs={"F": [1]}), "F has 1 value"),
    (lambda: sluice.schedule("1f1b", ranks=2, micro_batches=2, costs={"F": [1, "x"]}), "F"),
    (lambda: sluice.schedule("1f1b", ranks=2, micro_batches=2, costs={"G": [1, 1]}), "G"),
    (lambda: sluice.schedule("1f1b", ranks=2, micro_batches=2, costs={"F": [1, {1}]}), r"costs: \{1\} is a set; expected"),
    (lambda: sluice.schedule("1f1b", ranks=2, micro_batches=2, costs={"F": [1, float("nan")]}), "finite"),
    (lambda: sluice.schedule("1f1b", ranks=2, micro_batches=2, costs={"F": -1}), "at least 0"),
    (lambda: sluice.schedule("1f1b", ranks=2, micro_batches=2, costs=3), "costs is a int"),
    (lambda: sluice.read_csv("0F0,what\n"), "line 1, column 5"),
    (lambda: sluice.read_csv("/no/such/file.csv"), "/no/such/file.csv: cannot be read"),
    (lambda: sluice.schedule("1f1b", ranks=2, micro_batches=2).to_csv("xml"), "'xml'"),
    (lambda: sluice.schedule("1f1b", ranks=2, micro_batches=2).to_text(columns=3), "columns is 3"),
    (
        lambda: sluice.schedule("1f1b", ranks=2, micro_batches=2).to_csv("comms", max_active_stages=-1),
        "max_active_stages is -1; expected",
    ),
    (lambda: sluice.plan("gpt9", devices=2, device="h100"), "no preset model 'gpt9'"),
    (lambda: sluice.plan("gpt2", devices=2, device="h900"), "h900"),
    (lambda: sluice.plan("gpt2", devices=2), "name another device"),
    (lambda: sluice.plan("gpt2", devices=0, device="h100"), "devices must be at least 1"),
    (lambda: sluice.plan("gpt2", devices=2, device="h100", time_limits=3), "did you mean 'time_limit'"),
    (lambda: sluice.plan("gpt2", devices=2, device="h100", xyzzy=3), "no keyword 'xyzzy'"),
    (lambda: sluice.plan("gpt2", devices=2, device="h100", json=True), "to_json"),
    (lambda: sluice.plan("gpt2", devices=2, device="h100", title="x"), "title is for the command line"),
    (lambda: sluice.plan("gpt2", devices=2, device="h100", width=400), "width is for the command line"),
    (lambda: sluice.plan("gpt2", devices=2, device="h100", freeze=["a", None]), "an item of freeze is a NoneType"),
    (lambda: sluice.plan("gpt2", devices=2, device="h100", memory="lots"), "memory"),
    (lambda: sluice.plan("missing/config.json", devices=2, device="h100"), "missing/config.json"),
    (lambda: sluice.plan("--help", devices=2, device="h100"), "no preset model '--help'"),
]


@pytest.mark.parametrize("call, words", BAD)
def test_bad_input_is_a_value_error(call, words):
    with pytest.raises(ValueError, match=words):
        call()


def test_what_cannot_be_had_is_infeasible(command_line):
    asked = dict(ranks=4, micro_batches=8, memory_limit=2)
    with pytest.raises(sluice.Infeasible, match="1f1b holds 4 activations on rank 0") as caught:
        sluice.schedule("1f1b", **asked)
    assert caught.value.question["memory_limit"] == 2 and caught.value.exit_code == 3
    code, _, _ = command_line.run("schedule", "show", "1f1b", "-p", "4", "-m", "8", "--memory-limit", "2")
    assert code == 3
    with pytest.raises(sluice.Infeasible, match="the least limit that would do is 2"):
        sluice.schedule("auto", ranks=4, micro_batches=8, chunks=2, memory_limit=1)
    with pytest.raises(sluice.Infeasible, match="no plan fits into") as caught:
        sluice.plan("gpt2", devices=4, device="h100", memory="1MB")
    assert caught.value.question["model"] == "gpt2"
    with pytest.raises(sluice.Infeasible):
        sluice.compare(["zb-h1"], **asked)
    everything = sluice.compare(**asked)
    assert "1f1b" in everything.skipped and "1f1b" in everything.does_not_fit
    assert (caught.value.chunks, caught.value.peak_activations) == (0, 0)


def test_a_schedule_that_does_not_fit_is_a_row(command_line):
    names = ["1f1b", "v-min", "auto"]
    lines = sluice.compare(names, ranks=4, micro_batches=8, memory_limit=3)
    assert [table.name for table in lines] == ["auto"]
    assert set(lines.does_not_fit) == {"1f1b", "v-min"}
    words = ["schedule", "compare", *names, "-p", "4", "-m", "8", "--memory-limit", "3"]
    assert str(lines) == command_line.output(*words)
    assert "does not fit     4" in str(lines)
    assert lines._repr_html_().count("does not fit") == 2
    everything = sluice.compare(ranks=4, micro_batches=8, memory_limit=3)
    assert str(everything) == command_line.output("schedule", "compare", "-p", "4", "-m", "8", "--memory-limit", "3")
    rows = json.loads(command_line.output(*words, "--json"))
    assert [row["fits"] for row in rows] == [False, False, True]
    assert rows[0]["makespan"] is None and rows[0]["chunks"] == 1 and "rank 0" in rows[0]["why"]
    code, out, err = command_line.run("schedule", "compare", "1f1b", "gpipe", "-p", "4", "-m", "8", "--memory-limit", "1")
    assert code == 3 and out.count("does not fit") == 2 and "1f1b holds 4 activations" in err


def test_neither_is_a_value_error():
    assert not issubclass(sluice.Infeasible, ValueError)
    assert not issubclass(sluice.Invalid, ValueError)
