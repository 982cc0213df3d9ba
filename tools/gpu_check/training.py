"""Runs of `sluice train`, and their output."""
import contextlib
import json
import os
import random
import socket
import statistics

from gpu_check import process

WARM_UP = 2  # steps that are not measured, since the first ones choose algorithms and fill caches


class Failed(Exception):
    """A run that failed; its message says how, and `tails` are the last lines on stderr of each of its processes."""

    def __init__(self, message, tails=(), timed_out=False):
        super().__init__(message)
        self.tails = list(tails)
        self.timed_out = timed_out


def lines(text):
    found = []
    for line in text.splitlines():
        with contextlib.suppress(ValueError):
            value = json.loads(line)
            found += [value] if isinstance(value, dict) else []
    return found


def parse(outcome):
    """{"losses": [hex], "seconds": [step], "hash": ..., "arena_bytes": ...} of a run's --json."""
    objects = lines(outcome.out)
    steps = [line for line in objects if "loss_hex" in line]
    done = [line for line in objects if line.get("done")]
    if not outcome.ok or not steps or not done:
        raise Failed(outcome.why(), [outcome.tail()], outcome.timed_out)
    return {"losses": [step["loss_hex"] for step in steps], "seconds": [step["step_seconds"] for step in steps],
            "hash": done[0]["weights_hash"], "arena_bytes": max(max(step["arena_bytes"]) for step in steps)}


def command(kit, flags, data=None):
    return [kit.sluice, "train", "--data", data or kit.text(), "--device", kit.device, "--json", *flags]


def steps_to(on_step):
    """A reader of a run's lines that hands on those of steps."""
    def read(line):
        for found in lines(line):
            if "step_seconds" in found:
                on_step(found)
    return read


def one_process(kit, flags, timeout, on_step=None, data=None):
    """All ranks in one process, on as many GPUs as there are (usually one)."""
    words = command(kit, [*flags, "--transport", "inprocess"], data)
    return parse(process.run(words, timeout, on_line=steps_to(on_step) if on_step else None))


def free_port():
    """A port on which nothing listens, below those that the system assigns itself (32768 and up): a connection could get
    one of these before the ranks do."""
    while True:
        port = random.SystemRandom().randrange(10000, 32768)
        with contextlib.suppress(OSError), socket.socket() as probe:
            probe.bind(("127.0.0.1", port))
            return port


# NCCL treats processes that share a GPU as two machines, and connects them over loopback sockets.
def rank_environment(rank):
    visible = os.environ.get("CUDA_VISIBLE_DEVICES", "0").split(",")[0]
    return {"NCCL_HOSTID": f"gpu-check-{rank}", "NCCL_SOCKET_IFNAME": "lo", "NCCL_IB_DISABLE": "1",
            "CUDA_VISIBLE_DEVICES": visible, "NCCL_DEBUG": "WARN", "NCCL_DEBUG_FILE": "/dev/stderr"}


def many_processes(kit, flags, ranks, timeout):
    """One process per rank, over NCCL (over TCP if the device is the CPU)."""
    transport = "tcp" if kit.device == "cpu" else "nccl"
    meet = ["--transport", transport, "--world-size", str(ranks), "--master-addr", "127.0.0.1", "--master-port",
            str(free_port())]
    outcomes = process.run_together([(command(kit, [*flags, *meet, "--rank", str(rank)]), rank_environment(rank))
                                     for rank in range(ranks)], timeout)
    for rank, outcome in enumerate(outcomes):
        if not outcome.ok:
            speaker = next((other for other in outcomes if not other.ok and other.err.strip()), outcome)
            raise Failed(f"rank {rank}: {speaker.why()}", [other.tail() for other in outcomes],
                         all(other.timed_out or other.ok for other in outcomes))
    return parse(outcomes[0])


def median_step(seconds):
    measured = seconds[WARM_UP:] or seconds
    return statistics.median(measured)
