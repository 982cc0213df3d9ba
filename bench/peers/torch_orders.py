"""Compares sluice's schedules with PyTorch's of the same kind, action by action.

    /path/to/python bench/peers/torch_orders.py build/tools/sluice

Needs PyTorch 2.15's torch.distributed.pipelining.schedules, of which it only runs the functions that
list a rank's actions.
"""

import subprocess
import sys

from torch.distributed.pipelining import schedules

RANKS = range(2, 9)


def peer_rows(kind, ranks, micro_batches, chunks):
    """PyTorch's rows, without idle cells. Its constructors need real stages; its orders do not."""
    peer = object.__new__(kind)
    rounds = max(1, micro_batches // ranks)
    peer.pp_group_size, peer._n_microbatches = ranks, micro_batches
    peer._num_stages = peer.num_stages = ranks * chunks
    peer.n_local_stages = chunks
    peer.number_of_rounds, peer.microbatches_per_round = rounds, micro_batches // rounds
    rows = []
    for peer.rank in range(ranks):
        row = peer._calculate_single_rank_operations(peer.rank)
        rows.append([str(action) for action in row if action is not None])
    return rows


def own_rows(sluice, name, ranks, micro_batches, chunks):
    command = [sluice, "schedule", "show", name, "-p", ranks, "-m", micro_batches, "-v", chunks, "--format", "csv"]
    text = subprocess.run([str(part) for part in command], check=True, capture_output=True, text=True).stdout
    return [[cell for cell in line.split(",") if cell] for line in text.splitlines()]


def cases():
    for p in RANKS:
        for m in (1, 3, p, 2 * p - 1, 2 * p, 2 * p + 1, 3 * p, 4 * p + 2):
            yield schedules.ScheduleZBVZeroBubble, "zbv", p, m, 2
            if m >= 2 * p:
                yield schedules.ScheduleDualPipeV, "dualpipev", p, m, 2
            if m % p == 0:
                for v in (1, 2, 3):
                    yield schedules.ScheduleInterleavedZeroBubble, "interleaved-zb", p, m, v
                    yield schedules.ScheduleInterleaved1F1B, "interleaved", p, m, v


def main():
    compared = different = 0
    for kind, name, p, m, v in cases():
        compared += 1
        if peer_rows(kind, p, m, v) != own_rows(sys.argv[1], name, p, m, v):
            different += 1
            print(f"{name} -p {p} -m {m} -v {v} differs from {kind.__name__}")
    print(f"{compared} timetables compared, {different} differ")
    return different > 0


if __name__ == "__main__":
    sys.exit(main())
