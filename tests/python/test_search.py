"""A search lets other threads run, and Ctrl-C ends it."""

import os
import signal
import threading
import time

import pytest
import sluice

# Much longer than any test waits.
UNEVEN = {op: [1 + 0.37 * (7 * s % 5) for s in range(16)] for op in "FIW"}
LONG = {
    "schedule": lambda: sluice.schedule(
        "auto", ranks=16, micro_batches=64, costs=UNEVEN, memory_limit=12, time_limit=60
    ),
    "chunks": lambda: sluice.schedule(
        "auto", ranks=16, micro_batches=64, chunks="auto", costs=UNEVEN, time_limit="60s"
    ),
    "plan": lambda: sluice.plan(
        "llama-3.1-70b", devices=64, device="h100", global_batch=256, data_parallel="auto",
        tensor_parallel="auto", micro_batch_size="auto", time_limit=60,
    ),
    "what-if": lambda: sluice.plan(
        "llama-3.1-8b", devices=16, device="h100", global_batch=256, data_parallel="auto",
        tensor_parallel="auto", micro_batch_size="auto", what_if=True, pareto=True, time_limit=60,
    ),
}


@pytest.mark.parametrize("what", sorted(LONG))
def test_ctrl_c_ends_it(what):
    sent = []

    def press():
        sent.append(time.monotonic())
        os.kill(os.getpid(), signal.SIGINT)

    before = signal.signal(signal.SIGINT, signal.default_int_handler)  # jobs in the background begin without
    timer = threading.Timer(0.4, press)
    timer.start()
    try:
        with pytest.raises(KeyboardInterrupt):
            LONG[what]()
    finally:
        signal.signal(signal.SIGINT, before)
    took = time.monotonic() - sent[0]
    print(f"{what}: {took:.3f} s after Ctrl-C")
    assert took < 6.0  # 0.02 to 0.1 s where nothing else runs; to its own end it would take ten times this


def turns_during(work):
    """How often another thread has its turn while `work` runs."""
    done = threading.Event()
    turns = 0

    def run():
        work()
        done.set()

    thread = threading.Thread(target=run)
    thread.start()
    while not done.wait(0.001):
        turns += 1
    thread.join()
    return turns


def test_other_threads_run_meanwhile():
    def search():
        sluice.schedule(
            "auto", ranks=16, micro_batches=64, costs=UNEVEN, memory_limit=12, time_limit=0.5
        )

    assert turns_during(search) > 10  # hundreds where nothing else runs; one or two if it kept the lock


def test_other_threads_run_while_messages_are_written():
    table = sluice.schedule("1f1b", ranks=64, micro_batches=2000)
    # Once is enough: on a busy machine it may be written between two turns.
    assert any(turns_during(lambda: table.to_csv("comms")) > 10 for _ in range(50))


def test_searches_of_several_threads_do_not_disturb_each_other():
    want = sluice.schedule("auto", ranks=4, micro_batches=8, memory_limit=3).to_json(True)
    found = []
    threads = [
        threading.Thread(
            target=lambda: found.append(
                sluice.schedule("auto", ranks=4, micro_batches=8, memory_limit=3).to_json(True)
            )
        )
        for _ in range(4)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == [want] * 4
