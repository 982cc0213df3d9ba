"""A simulator that is plain to see: actions start as early as what they wait for allows."""

import itertools

# Which op of which neighbour an action waits for.
GRADIENTS = ("B", "I")


def waits_for(op, stage, micro_batch, stages):
    """[(ops, stage, micro_batch)]: one of the ops must have ended."""
    wanted = []
    if op == "F" and stage > 0:
        wanted.append((("F",), stage - 1, micro_batch))
    if op in GRADIENTS:
        wanted.append((("F",), stage, micro_batch))
        if stage + 1 < stages:
            wanted.append((GRADIENTS, stage + 1, micro_batch))
    if op == "W":
        wanted.append((("I",), stage, micro_batch))
    return wanted


def simulate(rows, stages, cost, send=0.0):
    """[rank][(start, end)] of rows of (op, stage, micro_batch); None where they deadlock.

    cost(op, stage) is a duration; results of another rank's stage arrive `send` later.
    """
    rank_of = {stage: rank for rank, row in enumerate(rows) for _, stage, _ in row}
    ends, times = {}, [[] for _ in rows]
    moved = True
    while moved:
        moved = False
        for rank, row in enumerate(rows):
            while len(times[rank]) < len(row):
                op, stage, micro_batch = row[len(times[rank])]
                start = times[rank][-1][1] if times[rank] else 0.0
                ready = True
                for ops, other, same in waits_for(op, stage, micro_batch, stages):
                    end = next((ends[o, other, same] for o in ops if (o, other, same) in ends), None)
                    if end is None:
                        ready = False
                        break
                    start = max(start, end + (send if rank_of[other] != rank else 0.0))
                if not ready:
                    break
                end = start + cost(op, stage)
                ends[op, stage, micro_batch] = end
                times[rank].append((start, end))
                moved = True
    return times if all(len(t) == len(row) for t, row in zip(times, rows)) else None


def makespan(times):
    return max(end for row in times for _, end in row)


def peak_activations(row, times, splits):
    """The most (stage, micro-batch) pairs that a rank holds, from F's start to B's or W's end."""
    changes = []
    for (op, _, _), (start, end) in zip(row, times):
        if op == "F":
            changes.append((start, 1))
        elif op == ("W" if splits else "B"):
            changes.append((end, -1))
    held = most = 0
    for _, change in sorted(changes):  # what is let go at a moment makes room for what begins then
        held += change
        most = max(most, held)
    return most


def orders(stage, micro_batches):
    """Every order of F, I and W of the micro-batches of a stage, each op in micro-batch order."""
    chains = [[(op, stage, b) for op in ("F", "I", "W")] for b in range(micro_batches)]
    tags = [b for b in range(micro_batches) for _ in range(3)]
    for order in set(itertools.permutations(tags)):
        at = [0] * micro_batches
        row = []
        for b in order:
            row.append(chains[b][at[b]])
            at[b] += 1
        if all(
            [b for op, _, b in row if op == wanted] == list(range(micro_batches))
            for wanted in ("F", "I", "W")
        ):
            yield row


def least_makespan(micro_batches, cost, memory_limit):
    """The least makespan of any timetable of two ranks with one stage each."""
    best = None
    rows = [list(orders(stage, micro_batches)) for stage in (0, 1)]
    for both in itertools.product(*rows):
        times = simulate(both, 2, cost)
        if times is None:
            continue
        if memory_limit is not None and any(
            peak_activations(row, t, True) > memory_limit for row, t in zip(both, times)
        ):
            continue
        best = makespan(times) if best is None else min(best, makespan(times))
    return best
