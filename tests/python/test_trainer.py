"""sluice.Trainer: the bits of `sluice train`, in calls of any size, on one process or several; and
what goes wrong is an exception that leaves nothing behind."""

import gc
import json
import os
import pathlib
import random
import re
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time

import numpy as np
import pytest
import sluice

SHAPE = {"layers": 2, "dim": 32, "heads": 2, "seq": 16, "micro_batch_size": 2, "micro_batches": 4}
STEPS = 6


@pytest.fixture(scope="module")
def text(tmp_path_factory):
    path = tmp_path_factory.mktemp("data") / "text.txt"
    words = random.Random(1)
    path.write_text("".join(words.choice("abcdefgh \n") for _ in range(20000)))
    return str(path)


def tokens(index):
    """[2, 17]"""
    return np.random.default_rng(index).integers(0, 256, (2, 17))


def flags_of(keywords):
    return [f"--{name.replace('_', '-')}={value}" for name, value in keywords.items()]


def printed(command_line, *words):
    """The losses and the hash of the command line."""
    lines = [json.loads(line) for line in command_line.output("train", "--json", *words).split("\n") if line]
    return [line["loss_hex"] for line in lines if "loss_hex" in line], lines[-1]["weights_hash"]


@pytest.mark.parametrize(
    "flags",
    [
        {"stages": 1},
        {"stages": 2, "schedule": "zb-h1"},
        {"stages": 2, "data_parallel": 2, "zero": 1, "micro_batches": 2},
        {"stages": 2, "dtype": "bf16", "optimizer": "sgd", "lr": 0.01},
    ],
)
def test_the_bits_are_those_of_the_command_line(command_line, text, tmp_path, flags):
    keywords = {**SHAPE, "steps": STEPS, **flags}
    wanted = printed(command_line, f"--data={text}", *flags_of(keywords))
    losses = []
    with sluice.Trainer(
        data=text, callbacks=[lambda step: losses.append(step.loss_hex)], **keywords
    ) as trainer:
        assert trainer.step == 0 and trainer.is_main
        assert trainer.ranks == flags["stages"] * flags.get("data_parallel", 1)
        assert trainer.fit(1).steps == 1
        first = trainer.evaluate()
        assert trainer.save_state(tmp_path / "state").endswith("step-00000001")
        done = trainer.fit(3)
        assert done.steps == 4 and [step.step for step in done.history] == [2, 3, 4]
        done = trainer.fit()
        assert done.steps == trainer.step == STEPS and done.final_loss == done.history[-1].loss
        assert (losses, trainer.weights_hash()) == wanted
        last = trainer.evaluate()
        assert (first.step, last.step) == (1, STEPS) and last.loss < first.loss

        # Back to what was saved, and the same way again.
        trainer.load_state(tmp_path / "state")
        assert trainer.step == 1
        trainer.fit()
        assert (losses, trainer.weights_hash()) == (wanted[0] + wanted[0][1:], wanted[1])
        assert trainer.evaluate() == last


def test_an_input_function_has_the_same_bits_on_any_number_of_stages():
    bits = set()
    for stages in (1, 2, 4):
        with sluice.Trainer(
            data=tokens,
            eval_fn=lambda i: tokens(1000 + i),
            eval_micro_batches=3,
            stages=stages,
            steps=3,
            **SHAPE,
        ) as trainer:
            done = trainer.fit()
            found = trainer.evaluate()
            assert found.samples == 6
            bits.add((done.history[-1].loss_hex, trainer.weights_hash(), found.loss))
    assert len(bits) == 1


def test_a_function_trains_on_what_it_returns():
    """One sample again and again is learnt; targets of -100 are not."""

    def one(_index):
        return np.arange(34).reshape(2, 17) * 7 % 256

    def half(index):
        batch = one(index)
        targets = batch[:, 1:].copy()
        targets[:, 1::2] = -100
        return batch[:, :-1], targets

    losses = {}
    for name, function in (("one", one), ("half", half)):
        with sluice.Trainer(
            data=function, eval_fn=function, eval_micro_batches=1, stages=2, steps=60, lr=0.01, **SHAPE
        ) as trainer:
            trainer.fit()
            losses[name] = trainer.evaluate().loss
    assert losses["one"] < 0.5 and losses["half"] < 0.5


def test_nothing_is_learnt_where_no_target_counts():
    def silent(index):
        batch = tokens(index)
        counts = np.full((2, 16), index // SHAPE["micro_batches"] != 1)  # but in step 2
        return batch[:, :-1], np.where(counts, batch[:, 1:], -100)

    flags = {**SHAPE, "optimizer": "sgd", "momentum": 0, "weight_decay": 0, "lr": 0.1}
    with sluice.Trainer(data=silent, eval_fn=lambda _: silent(4), eval_micro_batches=1, steps=3, **flags) as trainer:
        trainer.fit(1)
        weights = trainer.weights_hash()
        step = trainer.fit(1).history[0]
        assert (step.loss, step.grad_norm, trainer.weights_hash()) == (0, 0, weights)
        assert trainer.fit(1).history[0].grad_norm > 0
        with pytest.raises(ValueError, match="no target of theirs counts"):
            trainer.evaluate()


def test_images_come_from_a_function():
    def images(index):
        draw = np.random.default_rng(index)
        labels = draw.integers(0, 10, 4)
        pixels = np.eye(10)[labels].repeat(784 // 10 + 1, axis=1)[:, :784]
        return pixels + draw.normal(0, 0.1, (4, 784)), labels

    with sluice.Trainer(
        "mlp",
        images,
        stages=2,
        steps=30,
        micro_batch_size=4,
        micro_batches=4,
        eval_fn=images,
        eval_micro_batches=8,
    ) as trainer:
        before = trainer.evaluate()
        trainer.fit()
        after = trainer.evaluate()
    assert before.accuracy < 0.5 and after.accuracy > 0.9


class Dataset:
    """As much of Hugging Face's as is asked for: it has a shape, and is no array."""

    def __init__(self, records):
        self.records = records
        self.shape = (len(records), 1)

    def __len__(self):
        return len(self.records)

    def __getitem__(self, index):
        return self.records[index]

    def __iter__(self):
        return iter(self.records)


def test_arrays_and_texts_are_data(text):
    row = np.frombuffer(open(text, "rb").read(), dtype=np.uint8)
    hashes = []
    for data in (row, row.astype(np.int64)):
        with sluice.Trainer(data=data, steps=2, vocab=256, **SHAPE) as trainer:
            trainer.fit()
            hashes.append(trainer.weights_hash())
    assert hashes[0] == hashes[1]
    # Texts are read by a tokenizer, which a model of bytes has not.
    records = [{"text": "a text"}, {"text": "and more"}]
    for texts in (records, ["a text", "and more"], Dataset(records)):
        with pytest.raises(ValueError, match="tokenizer"):
            sluice.Trainer(data=texts, steps=1, **SHAPE)


class Splits(dict):
    """As Hugging Face's DatasetDict: a dict of a class of its own."""


class Table:
    """As much of a DataFrame of pandas' as is asked for: a loop sees the names of its columns."""

    shape = (2, 2)

    def keys(self):
        return ["text", "year"]

    def __iter__(self):
        return iter(self.keys())


def test_the_keys_of_a_dict_are_no_data():
    records = [{"text": "abcdefgh " * 20}] * 20
    for kind in dict, Splits:
        splits = kind(train=records, test=records[:5])
        wrong(ValueError, rf"data is a {kind.__name__} with the keys 'train', 'test'; expected a path, .*; "
              r"give one of them, such as data\['train'\]$", data=splits, bytes=True)
    columns = {"messages": [[{"role": "user", "content": "abcdefgh"}]] * 20}
    wrong(ValueError, r"data is a dict with the key 'messages'; .*; of columns make a list of records, .*"
          r"\[\{'messages': \.\.\.\}, \.\.\.\]$", data=columns, bytes=True)
    wrong(ValueError, "data is a Table with the keys 'text', 'year'; .* a list of records",
          data=Table(), bytes=True)
    wrong(ValueError, "data is a dict without keys; expected a path", data={}, bytes=True)
    many = {number: records for number in range(10)}
    wrong(ValueError, r"with the keys 0, 1, 2, 3, 4, 5, 6, 7 and 2 more; .*data\[0\]", data=many, bytes=True)
    for given, kind in ({"test": records}, "dict"), (records, "list"):
        wrong(ValueError, f"validation is a {kind}.*; expected the path of a file, or the share of the data",
              data=records, bytes=True, validation=given)
    wrong(ValueError, r"validation is a dict with the key 'test'", data=records, validation={"test": records})
    with sluice.Trainer(data=records, bytes=True, steps=1, validation=np.float64(0.2), **SHAPE) as trainer:
        trainer.fit()


def test_a_plan_says_how(text, command_line, tmp_path):
    path = tmp_path / "plan.json"
    asked = {**SHAPE, "devices": 2, "device": "h100", "schedule": "1f1b", "output": path}
    command_line.output("plan", "char-gpt", *flags_of(asked))
    hashes = []
    for plan in (str(path), sluice.read_plan(path)):
        with sluice.Trainer(data=text, plan=plan, steps=2) as trainer:
            assert trainer.about.stages == 2 and trainer.about.schedule == "1f1b"
            trainer.fit()
            hashes.append(trainer.weights_hash())
    assert hashes[0] == hashes[1]


def test_a_plan_does_not_replace_that_of_the_run_that_is_there(text, tmp_path):
    def plan(schedule):
        return sluice.plan("char-gpt", devices=2, device="h100", schedule=schedule, dtype="fp32", **SHAPE)

    def fit(schedule, **keywords):
        asked = dict(data=text, steps=2, save=run, plan=plan(schedule), **keywords)
        with sluice.Trainer(**asked) as trainer:
            trainer.fit()

    run = tmp_path / "run"
    fit("gpipe")
    with pytest.raises(ValueError, match="another run"):
        fit("1f1b")
    with sluice.Trainer(data=text, resume=run, steps=4) as trainer:
        assert trainer.about.schedule == "gpipe"
    fit("1f1b", overwrite=True)
    with sluice.Trainer(data=text, resume=run, steps=4) as trainer:
        assert trainer.about.schedule == "1f1b"
    fit("1f1b", overwrite=True)
    plans = {path.name: sluice.read_plan(path).schedule for path in run.glob("plan*")}
    assert sorted(plans.values()) == ["1f1b", "gpipe"] and plans["plan.json"] == "gpipe"


def test_documents_that_can_be_read_once_are_there_for_load_state(tmp_path):
    documents = ({"text": "abcdefgh " * (20 + number)} for number in range(20))
    with sluice.Trainer(data=documents, bytes=True, steps=4, **SHAPE) as trainer:
        trainer.fit(2)
        trainer.save_state(tmp_path / "state")
        trainer.fit()
        wanted = trainer.weights_hash()
        trainer.load_state(tmp_path / "state")
        trainer.fit()
        assert trainer.weights_hash() == wanted
        file = trainer._data
    del trainer
    gc.collect()
    assert not os.path.exists(file)


class Recorder(sluice.Callback):
    def __init__(self):
        self.events = []

    def on_step(self, trainer, step):
        self.events.append(("step", step.step))

    def on_evaluate(self, trainer, evaluation):
        self.events.append(("evaluation", evaluation.step))

    def on_save(self, trainer, path):
        self.events.append(("save", os.path.basename(path)))


def test_callbacks_are_told_in_order(text, tmp_path):
    recorder = Recorder()
    with sluice.Trainer(
        data=text,
        steps=4,
        eval_every=2,
        save=tmp_path / "run",
        save_every=4,
        callbacks=[recorder],
        **SHAPE,
    ) as trainer:
        trainer.fit()
    steps = [step for what, step in recorder.events if what == "step"]
    assert steps == [1, 2, 3, 4]
    assert ("evaluation", 2) in recorder.events and ("evaluation", 4) in recorder.events
    assert ("save", "step-00000004") in recorder.events
    assert recorder.events.index(("evaluation", 2)) < recorder.events.index(("step", 3))


def test_a_callback_may_stop_or_raise(text):
    def stop(step):
        if step.step == 2:
            trainer.stop()

    def fail(step):
        if failing and step.step > 2:
            raise LookupError("enough")

    failing = False
    with sluice.Trainer(data=text, steps=100000, callbacks=[stop, fail], stages=2, **SHAPE) as trainer:
        stopped = trainer.fit().steps
        assert 2 <= stopped < 100000
        failing = True
        with pytest.raises(LookupError, match="enough"):
            trainer.fit()
        failing = False
        assert trainer.step > stopped
        assert trainer.fit(1).steps == trainer.step


CALLS = {
    "fit": lambda trainer, folder: trainer.fit(1),
    "evaluate": lambda trainer, folder: trainer.evaluate(),
    "save_state": lambda trainer, folder: trainer.save_state(folder),
    "load_state": lambda trainer, folder: trainer.load_state(folder),
    "weights_hash": lambda trainer, folder: trainer.weights_hash(),
    "close": lambda trainer, folder: trainer.close(),
}


@pytest.mark.parametrize("elsewhere", [False, True], ids=["callback", "thread"])
def test_a_method_within_fit_is_refused_and_fit_goes_on(text, tmp_path, elsewhere):
    refused = {}

    def call_all(step):
        if step.step != 2:
            return
        for name, call in CALLS.items():
            try:
                call(trainer, tmp_path / "state")
            except RuntimeError as error:
                refused[name] = str(error)

    def on_step(step):
        if elsewhere:
            thread = threading.Thread(target=call_all, args=(step,))
            thread.start()
            thread.join()
        else:
            call_all(step)

    with sluice.Trainer(data=text, steps=STEPS, stages=2, **SHAPE) as trainer:
        wanted = trainer.fit()
    with sluice.Trainer(data=text, steps=STEPS, stages=2, callbacks=[on_step], **SHAPE) as trainer:
        done = trainer.fit()
        assert set(refused) == set(CALLS)
        for name, message in refused.items():
            assert f"{name}() was called" in message and "while fit() is running" in message
            assert f"call stop(), and then {name}() after fit() has returned" in message
        assert done.steps == trainer.step == STEPS
        assert [step.loss_hex for step in done.history] == [step.loss_hex for step in wanted.history]
        assert not (tmp_path / "state").exists()
        # Each can be called now.
        assert trainer.evaluate().step == STEPS
        assert trainer.save_state(tmp_path / "state").endswith(f"{STEPS:08}")


def test_what_a_callback_is_refused_ends_fit_and_the_block_as_any_error(text):
    with pytest.raises(RuntimeError, match=r"evaluate\(\) after fit\(\)"):
        with sluice.Trainer(
            data=text, steps=10**9, callbacks=[lambda step: trainer.evaluate()], **SHAPE
        ) as trainer:
            process = f"/proc/{trainer._program.pid}"
            trainer.fit()
    assert not os.path.exists(process)


def test_a_block_that_fails_beside_a_fit_raises_its_own_exception(text):
    started = threading.Event()
    with pytest.raises(LookupError, match="beside"):
        with sluice.Trainer(
            data=text, steps=10**9, callbacks=[lambda step: started.set()], **SHAPE
        ) as trainer:
            fit = threading.Thread(target=trainer.fit)
            fit.start()
            started.wait()
            raise LookupError("beside")
    fit.join(60)  # it has been stopped
    assert not fit.is_alive() and trainer.step > 0
    trainer.close()


def test_ctrl_c_ends_a_fit_and_not_the_trainer(text):
    signal.signal(signal.SIGINT, signal.default_int_handler)  # jobs in the background begin without

    def press(delay):
        while signal.getsignal(signal.SIGINT) is signal.default_int_handler:
            time.sleep(0.001)  # fit has not begun
        time.sleep(delay)
        os.kill(os.getpid(), signal.SIGINT)

    with sluice.Trainer(data=text, steps=10**9, stages=2, **SHAPE) as trainer:
        for delay in (0.5, 0, 0, 0.01, 0.02, 0.05):  # also before its command has been sent
            presses = threading.Thread(target=press, args=[delay], daemon=True)
            presses.start()
            with pytest.raises(KeyboardInterrupt):
                trainer.fit()
            presses.join()
            before = trainer.step
            assert before > 0
            assert trainer.fit(2).steps == before + 2


# In place of the program: `fit` prints a part of a step's line, then sends Ctrl-C to this process, and prints the rest
# once it is told to stop.
HALF_A_LINE = """
import fcntl, json, os, signal, sys, termios, time
if "--version" in sys.argv:
    os.execv({binary!r}, [{binary!r}, "--version"])
signal.alarm(120)
def put(text):
    sys.stdout.write(text)
    sys.stdout.flush()
def wait_for(what):
    while not what():
        time.sleep(0.001)
def read():
    unread = int.from_bytes(fcntl.ioctl(1, termios.FIONREAD, bytes(4)), sys.byteorder)
    with open(f"/proc/{{os.getppid()}}/stat") as stat:
        return not unread and stat.read().rpartition(")")[2].split()[0] == "S"
put(json.dumps({{"ready": True, "rank": 0}}) + "\\n")
put(json.dumps({{"done": True, "steps": 0}}) + "\\n")
for command in iter(sys.stdin.readline, ""):
    if json.loads(command).get("steps") == 0:
        continue
    put('{{"step": 1, "lo')
    wait_for(read)  # and kept: what it waits for is the rest
    os.kill(os.getppid(), signal.SIGINT)
    assert json.loads(sys.stdin.readline()) == {{"do": "stop"}}
    put('ss": 1.5}}\\n')
    put(json.dumps({{"done": True, "interrupted": True, "steps": 1}}) + "\\n")
"""


def raising(*_):
    raise KeyboardInterrupt


@pytest.mark.parametrize("handler", [signal.default_int_handler, raising])
def test_ctrl_c_in_the_middle_of_a_line_loses_nothing(command_line, text, tmp_path, monkeypatch, handler):
    fake = tmp_path / "sluice"
    fake.write_text(f"#!{sys.executable}" + HALF_A_LINE.format(binary=command_line.binary))
    fake.chmod(0o755)
    monkeypatch.setenv("SLUICE_BINARY", str(fake))
    before = signal.signal(signal.SIGINT, handler)
    try:
        with sluice.Trainer(data=text, steps=9, **SHAPE) as trainer:
            with pytest.raises(KeyboardInterrupt):
                trainer.fit()
            assert trainer.step == 1
            assert signal.getsignal(signal.SIGINT) is handler
    finally:
        signal.signal(signal.SIGINT, before)


def test_what_a_callback_raises_after_stop_is_raised(text):
    def on_step(step):
        trainer.stop()
        raise LookupError("after stop")

    with sluice.Trainer(data=text, steps=10**9, callbacks=[on_step], **SHAPE) as trainer:
        for step in (1, 2):
            with pytest.raises(LookupError, match="after stop"):
                trainer.fit()
            assert trainer.step >= step


def test_the_end_of_a_fit_is_not_that_of_the_next_one(text):
    slow = []

    def on_step(step):
        if slow:
            time.sleep(slow.pop())  # the lines of further steps wait meanwhile
            raise LookupError("enough")

    with sluice.Trainer(data=text, steps=10**9, callbacks=[on_step], stages=2, **SHAPE) as trainer:
        for _ in range(20):
            slow.append(0.1)
            with pytest.raises(LookupError, match="enough"):
                trainer.fit()
            before = trainer.step
            assert trainer.fit(2).steps == before + 2


def test_ctrl_c_in_a_callback_ends_what_it_does(text):
    def on_step(step):
        os.kill(os.getpid(), signal.SIGINT)
        raise AssertionError("Ctrl-C came first")

    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        with sluice.Trainer(data=text, steps=10**9, callbacks=[on_step], **SHAPE) as trainer:
            with pytest.raises(KeyboardInterrupt):
                trainer.fit()
            assert trainer.step > 0
    finally:
        signal.signal(signal.SIGINT, before)


def test_a_callback_that_catches_ctrl_c_goes_on(text):
    caught = []

    def on_step(step):
        try:
            os.kill(os.getpid(), signal.SIGINT)
        except KeyboardInterrupt:
            caught.append(step.step)

    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        with sluice.Trainer(data=text, steps=3, callbacks=[on_step], **SHAPE) as trainer:
            assert trainer.fit().steps == 3
    finally:
        signal.signal(signal.SIGINT, before)
    assert caught == [1, 2, 3]


def wrong(exception, words, **keywords):
    with pytest.raises(exception, match=words):
        with sluice.Trainer(**{**SHAPE, "steps": 2, **keywords}) as trainer:
            trainer.fit()


def test_what_is_wrong_is_said(text, tmp_path):
    def raises(index):
        if index == 5:
            raise LookupError("no micro-batch 5")
        return tokens(index)

    wrong(ValueError, "data is missing")
    wrong(ValueError, "cannot open the data", data="/no/such/file")
    wrong(ValueError, r"did you mean stages\?$", data=text, stagess=2)
    wrong(ValueError, "given to callbacks", data=text, json=True)
    wrong(ValueError, "save is True; expected the path of a folder", data=text, save=True)
    wrong(ValueError, "trace is True; expected the path of a file", data=text, trace=True)
    wrong(ValueError, "no_pack is for documents", data=text, pack=False)
    wrong(ValueError, "data is a int", data=3)
    wrong(ValueError, "goes with an input", data=text, eval_fn=tokens, eval_micro_batches=1)
    wrong(ValueError, "given together", data=tokens, eval_fn=tokens)
    wrong(ValueError, "expected one row of tokens", data=np.zeros((2, 2)))
    wrong(ValueError, "tokens from -1", data=np.array([-1, 2]))
    wrong(ValueError, "item 1 is a int", data=["a", 3])
    wrong(LookupError, "no micro-batch 5", data=raises)
    wrong(ValueError, r"shape \[2, 16\]; expected \[2, 17\]", data=lambda i: tokens(i)[:, 1:])
    wrong(ValueError, "expected integers", data=lambda i: tokens(i) / 2)
    wrong(ValueError, "the same as for micro-batch 0", data=lambda i: (tokens(i),) * 2 if i else tokens(i))
    wrong(ValueError, "input 1000; expected 0 to 255", data=lambda i: np.full((2, 17), 1000))
    experts = tmp_path / "experts"
    experts.mkdir()
    (experts / "config.json").write_text(
        json.dumps({"model_type": "mixtral", "num_hidden_layers": 2, "hidden_size": 64, "num_attention_heads": 4,
                    "num_key_value_heads": 4, "vocab_size": 256, "intermediate_size": 128, "max_position_embeddings": 64,
                    "num_local_experts": 4, "num_experts_per_tok": 2}))
    wanted = f"model '{re.escape(str(experts))}' \\(mixtral\\) has a mixture of 4 experts"
    with pytest.raises(ValueError, match=wanted):  # its name as sluice.plan has it
        sluice.Trainer(experts, data=text, steps=2)
    wrong(ValueError, "/no/plan.json", data=text, plan="/no/plan.json")
    wrong(ValueError, "/no/checkpoint", data=text, resume="/no/checkpoint")
    with sluice.Trainer(data=tokens, steps=4, **SHAPE) as trainer:
        with pytest.raises(ValueError, match="no validation data"):
            trainer.evaluate()
        with pytest.raises(ValueError, match="at least 0"):
            trainer.fit(-1)
        (tmp_path / "file").write_text("")
        with pytest.raises(ValueError):
            trainer.save_state(tmp_path / "file")
        assert trainer.fit().steps == 4  # none of these has hurt it
    with pytest.raises(ValueError, match="closed"):
        trainer.fit()
    trainer.close()


def test_the_states_of_other_runs_stay(text, tmp_path):
    def run(**keywords):
        with sluice.Trainer(data=text, steps=2, **SHAPE) as trainer:
            trainer.fit(1)
            return trainer.save_state(tmp_path / "state", **keywords)

    run()
    with pytest.raises(ValueError, match="another run"):
        run()
    assert run(overwrite=True).endswith("step-00000001")


def test_load_state_of_what_save_has_written(text, tmp_path):
    """Also where an older run's checkpoints there were replaced."""
    run, state = tmp_path / "run", tmp_path / "state"
    for overwrite in (False, True):
        with sluice.Trainer(
            data=text, steps=STEPS, save=run, save_every=2, keep="all", overwrite=overwrite, **SHAPE
        ) as trainer:
            trainer.save_state(state, overwrite=overwrite)
            trainer.fit()
            wanted = trainer.weights_hash()
            for start, step in ((run / "step-00000002", 2), (run, STEPS)):
                trainer.load_state(start)
                assert trainer.step == step
                trainer.fit()
                assert trainer.weights_hash() == wanted
            # Another way than the checkpoints in `run`, which only overwrite gives up.
            if not overwrite:
                with pytest.raises(ValueError, match="overwrite=True"):
                    trainer.load_state(state)
                assert trainer.weights_hash() == wanted  # the trainer is as it was
            else:
                trainer.load_state(state)
                assert trainer.step == 0
                trainer.fit()
                assert trainer.weights_hash() == wanted


def test_save_state_does_not_need_what_load_state_has_read(text, tmp_path):
    run, state = tmp_path / "run", tmp_path / "state"
    with sluice.Trainer(data=text, steps=STEPS, save=run, save_every=1, **SHAPE) as trainer:
        trainer.fit(2)
        trainer.load_state(run / "step-00000002")
        trainer.fit(3)
        assert not (run / "step-00000002").exists()  # of the usual two
        trainer.save_state(state)
        assert (state / "step-00000005").exists()
        trainer.save_state(state, overwrite=True)  # its own, so there is nothing to replace


def test_save_state_may_overwrite_what_load_state_has_read(text, tmp_path):
    with sluice.Trainer(data=text, steps=STEPS, **SHAPE) as trainer:
        trainer.fit(1)
        trainer.save_state(tmp_path, overwrite=True)
        trainer.load_state(tmp_path)
        trainer.fit(1)
        trainer.save_state(tmp_path, overwrite=True)
        assert (tmp_path / "step-00000002").exists()


def test_micro_batches_of_an_evaluation_are_a_flag(text):
    wanted = []
    for count in (0, 1, 2):
        with sluice.Trainer(
            data=text, steps=1, validation=0.4, eval_micro_batches=count, **SHAPE
        ) as trainer:
            wanted.append(trainer.evaluate().samples)
    assert wanted[1] < wanted[2] < wanted[0]
    assert wanted[2] == 2 * wanted[1]


def test_load_state_of_no_checkpoint_leaves_the_trainer_as_it_is(text, tmp_path):
    (tmp_path / "empty").mkdir()
    (tmp_path / "file").write_text("")
    no_step = tmp_path / "other" / "step-00000007"
    no_state = tmp_path / "other" / "step-00000008"
    no_state.mkdir(parents=True)
    for saving in ({}, {"save": tmp_path / "run", "overwrite": True}):
        with sluice.Trainer(data=text, steps=STEPS, **saving, **SHAPE) as trainer:
            trainer.fit(2)
            wanted = trainer.weights_hash()
            process = trainer._program.pid
            for directory, words in (
                (tmp_path / "nowhere", "no checkpoint: cannot open .*nowhere"),
                (tmp_path / "empty", "empty has no checkpoint 'latest'; expected a directory that save wrote"),
                (tmp_path / "file", "file is not a directory"),
                (no_step, "no checkpoint: cannot open .*step-00000007"),
                (no_state, "no checkpoint: cannot open .*step-00000008.state.json"),
            ):
                with pytest.raises(ValueError, match=words):
                    trainer.load_state(directory)
                assert (trainer.step, trainer._program.pid) == (2, process)
            assert trainer.weights_hash() == wanted
            assert trainer.fit().steps == STEPS


def test_a_load_state_that_fails_closes_the_trainer(text, tmp_path):
    trainer = sluice.Trainer(data=text, steps=2, save=tmp_path / "run", **SHAPE)
    trainer.fit(1)
    saved = trainer.save_state(tmp_path / "state")
    pathlib.Path(saved, "state.json").write_text("{}")
    with pytest.raises(ValueError, match="state.json"):
        trainer.load_state(saved)
    with pytest.raises(ValueError, match="the trainer is closed: load_state has raised ValueError: .*state.json"):
        trainer.fit(1)
    trainer.close()


class Written(sluice.Callback):
    """Waits for a checkpoint, which is written while the next steps are taken."""

    def __init__(self, step):
        self.name = f"step-{step:08d}"
        self.event = threading.Event()

    def on_save(self, trainer, path):
        if os.path.basename(path) == self.name:
            self.event.set()


@pytest.mark.parametrize(
    "save_every, last, lost",
    [(None, 1, "steps 2 to 4 were"), (3, 3, "step 4 was")],
)
def test_a_closed_trainer_says_why_and_may_go_on_from_what_was_saved(tmp_path, save_every, last, lost):
    broken = True
    written = Written(last)

    def raises(index):
        if broken and index == 4 * SHAPE["micro_batches"] + 1:  # of step 5
            assert written.event.wait(60)
            raise KeyError("x")
        return tokens(index)

    saving = {"save": tmp_path / "run", "save_every": save_every} if save_every else {}
    with sluice.Trainer(data=tokens, steps=STEPS, **SHAPE) as trainer:
        trainer.fit()
        wanted = trainer.weights_hash()
    with sluice.Trainer(
        data=raises, steps=STEPS, callbacks=[written], **saving, **SHAPE
    ) as trainer:
        trainer.fit(1)
        if not save_every:
            trainer.save_state(tmp_path / "run")
            written.event.set()
        trainer.fit(2)
        with pytest.raises(KeyError):
            trainer.fit()
        words = ("the trainer is closed: micro-batch 17 could not be had from the input function "
                 f"(KeyError: 'x'); {lost} not saved; load_state goes on from a checkpoint")
        for method in trainer.fit, trainer.evaluate, trainer.weights_hash:
            with pytest.raises(ValueError, match=f"^{re.escape(words)}$"):
                method()
        broken = False
        trainer.load_state(tmp_path / "run")
        assert trainer.step == last
        trainer.fit()
        assert trainer.weights_hash() == wanted
    with pytest.raises(ValueError, match="^the trainer is closed$"):
        trainer.fit()


def test_a_closed_trainer_says_which_function_has_raised():
    with sluice.Trainer(
        data=tokens, eval_fn=lambda i: tokens(i)[:, i:], eval_micro_batches=4, steps=2, **SHAPE
    ) as trainer:
        trainer.fit(1)
        with pytest.raises(ValueError, match="expected"):
            trainer.evaluate()
        with pytest.raises(ValueError, match=r"closed: micro-batch 1 could not be had from eval_fn \(ValueError: .*"
                           r"shape \[2, 16\]; expected \[2, 17\]\); step 1 was not saved; load_state"):
            trainer.fit()


def test_nothing_is_left_behind(text):
    trainer = sluice.Trainer(data=tokens, steps=2, **SHAPE)
    trainer.fit(1)
    process = f"/proc/{trainer._program.pid}"
    assert os.path.exists(process)
    del trainer
    gc.collect()
    assert not os.path.exists(process)

    trainer = sluice.Trainer(data=text, steps=10**9, **SHAPE)
    os.kill(trainer._program.pid, signal.SIGKILL)
    with pytest.raises(RuntimeError, match="ended by signal 9"):
        trainer.fit()
    with pytest.raises(ValueError, match="closed: fit has raised RuntimeError: sluice was ended by signal 9;"):
        trainer.fit()


FORKS = """
import os, sys
import numpy as np, sluice

def tokens(index):
    return np.random.default_rng(index).integers(0, 256, (2, 17))

trainer = sluice.Trainer(data=tokens, steps=4, layers=2, dim=32, heads=2, seq=16, micro_batch_size=2,
                         micro_batches=4)
trainer.fit(1)
end, keep = os.pipe()
if os.fork() == 0:  # as a worker of a data loader, which outlives the run
    os.close(keep)
    os.read(end, 1)
    os._exit(0)
child = os.fork()
if child == 0:  # ends as a program does, with its finalizers
    os.close(keep)
    sys.exit(7)
assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7
assert trainer.fit().steps == 4
process = trainer._program._process
trainer.close()
sys.exit(process.returncode)
"""


def test_a_process_that_is_forked_leaves_the_run_alone():
    """And does not keep the run from ending, by itself and not killed."""
    assert subprocess.run([sys.executable, "-c", FORKS], timeout=120, check=False).returncode == 0


RANK = """
import json, sys
import numpy as np, sluice

def tokens(index):
    return np.random.default_rng(index).integers(0, 256, (2, 17))

with sluice.Trainer(data=tokens, eval_fn=tokens, eval_micro_batches=2, stages=2, steps=3, timeout="20s",
                    layers=2, dim=32, heads=2, seq=16, micro_batch_size=2, micro_batches=4) as trainer:
    trainer.fit(1)
    refused = ""
    try:
        trainer.save_state("/proc/nowhere")
    except ValueError as error:
        refused = str(error)
    done = trainer.fit()
    print(json.dumps([trainer.rank, trainer.ranks, done.final_loss, len(done.history), trainer.weights_hash(),
                      trainer.evaluate().loss, refused]))
"""


def test_the_same_source_runs_on_two_processes(tmp_path):
    """In torchrun's environment; alone, its stages are threads."""
    script = tmp_path / "rank.py"
    script.write_text(RANK)
    names = ("RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT")
    alone = {name: value for name, value in os.environ.items() if name not in names}

    def start(**more):
        return subprocess.Popen(
            [sys.executable, str(script)], env={**alone, **more}, stdout=subprocess.PIPE, text=True
        )

    def answer(process):
        out, _ = process.communicate(timeout=120)
        assert process.returncode == 0
        return json.loads(out)

    one = answer(start())
    for _ in range(3):  # another program may take the port in the meantime
        port = str(free_port())
        together = [
            start(
                RANK=str(rank),
                WORLD_SIZE="2",
                LOCAL_RANK=str(rank),
                LOCAL_WORLD_SIZE="2",
                MASTER_ADDR="127.0.0.1",
                MASTER_PORT=port,
            )
            for rank in range(2)
        ]
        outs = [process.communicate(timeout=120)[0] for process in together]
        if all(process.returncode == 0 for process in together):
            break
    ranks = [json.loads(out) for out in outs]
    assert [rank[0] for rank in ranks] == [0, 1] and one[:2] == [0, 2]
    assert one[2] == ranks[0][2] == ranks[1][2]
    assert [one[3], ranks[0][3], ranks[1][3]] == [2, 2, 0]  # steps are told on rank 0
    assert one[4:6] == ranks[0][4:6] == ranks[1][4:6]
    assert "/proc/nowhere" in one[6] and "/proc/nowhere" in ranks[0][6] and "rank 0" in ranks[1][6]


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def test_the_program_must_be_there(monkeypatch, text, tmp_path):
    monkeypatch.setenv("SLUICE_BINARY", "/no/such/sluice")
    with pytest.raises(ModuleNotFoundError, match="cannot be started"):
        sluice.Trainer(data=text)
    other = tmp_path / "sluice"
    other.write_text("#!/bin/sh\necho sluice 0.0.1\n")
    other.chmod(0o755)
    monkeypatch.setenv("SLUICE_BINARY", str(other))
    with pytest.raises(ModuleNotFoundError, match="0.0.1; this package is sluice"):
        sluice.Trainer(data=text)
    monkeypatch.delenv("SLUICE_BINARY")
    monkeypatch.setenv("PATH", str(tmp_path / "nothing"))
    # Somebody may have installed a sluice beside this Python.
    monkeypatch.setattr("sysconfig.get_path", lambda name: str(tmp_path / "nothing"))
    with pytest.raises(ModuleNotFoundError, match=r"sluice\[train\]"):
        sluice.Trainer(data=text)


def test_the_readme_s_example_runs(tmp_path, monkeypatch, capsys):
    readme = pathlib.Path(__file__).parents[2] / "python" / "README.md"
    blocks = re.findall(r"```py\n(.*?)```", readme.read_text(encoding="utf-8"), re.DOTALL)
    (example,) = [block for block in blocks if "with sluice.Trainer(" in block]
    monkeypatch.chdir(tmp_path)
    exec(compile(example, str(readme), "exec"), {})
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == 31 and lines[-1].startswith("30 ")
    assert (tmp_path / "out" / "latest").exists()


def test_a_run_that_saves_is_resumed_by_its_folder_alone(text, tmp_path):
    with sluice.Trainer(data=text, steps=STEPS, stages=2, **SHAPE) as trainer:
        trainer.fit()
        wanted = trainer.weights_hash()
    plan = sluice.plan("char-gpt", devices=2, device="h100", schedule="gpipe", dtype="fp32", **SHAPE)
    run = tmp_path / "run"
    with sluice.Trainer(data=text, steps=STEPS, save=run, save_every=2, plan=plan) as trainer:
        trainer.fit(3)
    with sluice.Trainer(data=text, resume=run) as trainer:
        assert trainer.step == 2 and trainer.about.schedule == "gpipe"
        trainer.fit()
        assert trainer.weights_hash() == wanted
    # It has saved nothing: that was not asked for.
    assert sorted(path.name for path in run.iterdir() if path.name.startswith("step-")) == ["step-00000002"]
    assert "fd:" not in (run / "run.toml").read_text()
    with pytest.raises(ValueError, match="data"):
        sluice.Trainer(data=tokens, resume=run)


def test_a_checkpoint_that_fails_costs_no_step(text, tmp_path, capfd):
    """On the way it is a line on stderr; at the end, and where it was asked for, an error."""
    run = tmp_path / "run"
    with sluice.Trainer(data=text, steps=STEPS, save=run, save_every=2, **SHAPE) as trainer:
        trainer.fit(1)
        shutil.rmtree(run)
        run.write_text("no directory any more")
        assert trainer.fit(3).steps == 4
        with pytest.raises(ValueError):
            trainer.fit()
        assert trainer.step == STEPS
        with pytest.raises(ValueError):
            trainer.save_state(run)
        trainer.save_state(tmp_path / "other")
    assert "the run goes on without this checkpoint" in capfd.readouterr().err
