#!/usr/bin/env python3
"""How long PyTorch takes to make and lower its interleaved zero bubble, for `bench/schedules`.

    python torch_schedules.py [--ranks 32 --micro-batches 512 --chunks 4]

All that its constructor does (ScheduleInterleavedZeroBubble): the order of every rank, the check of that order, and its
lowering to what the runtime executes; no process group, no model. One JSON line: peer, the size, the seconds of both
steps, and the processor time of both (on a busy machine the fairer number).
"""
import argparse
import json
import time

from torch.distributed.pipelining import schedules


def compute_order(ranks, micro_batches, chunks):
    """ScheduleInterleavedZeroBubble's rows, without the stages that its constructor asks for."""
    schedule = schedules.ScheduleInterleavedZeroBubble.__new__(schedules.ScheduleInterleavedZeroBubble)
    schedule.pp_group_size = ranks
    schedule.n_local_stages = chunks
    schedule._n_microbatches = micro_batches
    schedule._num_stages = schedule.num_stages = ranks * chunks
    schedule.number_of_rounds = max(1, micro_batches // ranks)
    schedule.microbatches_per_round = micro_batches // schedule.number_of_rounds
    order = {rank: schedule._calculate_single_rank_operations(rank) for rank in range(ranks)}
    schedule.pipeline_order = order
    schedule.pipeline_order = schedule._add_bubbles_to_actions(ranks * chunks)
    return schedule


def lower(schedule):
    """The constructor's last call, with its default arguments."""
    schedule._stages = []
    schedule._max_active_stages = 3
    schedule._unshard_lookahead = "full"
    schedule._defer_reduce_grad_wait = False
    schedule._defer_pp_recv = False
    schedule._max_outstanding_sends = None
    schedule._prepare_schedule_with_comms(schedule.pipeline_order)
    return schedule.pipeline_order_with_comms


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--ranks", type=int, default=32)
    parser.add_argument("--micro-batches", type=int, default=512)
    parser.add_argument("--chunks", type=int, default=4)
    size = parser.parse_args()
    cpu_start = time.process_time()
    start = time.perf_counter()
    schedule = compute_order(size.ranks, size.micro_batches, size.chunks)
    made = time.perf_counter()
    lowered = lower(schedule)
    done = time.perf_counter()
    actions = sum(action is not None for row in schedule.pipeline_order.values() for action in row)
    print(json.dumps({
        "peer": "torch.distributed.pipelining", "ranks": size.ranks, "micro_batches": size.micro_batches,
        "chunks": size.chunks, "compute_actions": actions, "lowered_actions": sum(map(len, lowered.values())),
        "generate_seconds": made - start, "lower_seconds": done - made, "seconds": done - start,
        "cpu_seconds": time.process_time() - cpu_start}))


if __name__ == "__main__":
    main()
