#!/usr/bin/env python3
"""The wave heuristic of the zero-bubble papers' code, rebuilt: the peer of `sluice schedule show auto`.

  python3 zb_heuristic.py --ranks 64 --micro-batches 512 --cost 18522,18086,9337,601 --limit 128

One micro-batch after another: a wave of F down the ranks, then a wave of I up; W goes into the gaps, and before an F that
lacks memory. Three switches give eight schedules, of which the one with the shortest span wins, as in
github.com/sail-sg/zero-bubble-pipeline-parallelism (megatron/core/pipeline_parallel/zerobubble/scheduler/zb.py at
064369d, described from reading; W counts as an activation until it has run, as sluice counts). Prints one JSON line.
"""
import argparse
import itertools
import json
import time


class Waves:
    def __init__(self, p, m, cost, limit, bubble_first, backward_first, fill_greedily):
        self.p, self.m, self.limit = p, m, limit
        self.f, self.i, self.w, self.send = cost
        self.bubble_first, self.backward_first, self.fill_greedily = bubble_first, backward_first, fill_greedily
        self.done = {k: [0] * p for k in "FIW"}
        self.end = {k: [[0.0] * m for _ in range(p)] for k in "FI"}
        self.now, self.idle, self.start = [0.0] * p, [0.0] * p, [None] * p

    def run(self, rank, kind):
        k = self.done[kind][rank]
        ready = self.arrival(rank, kind, k)
        begin = max(self.now[rank], ready)
        if self.start[rank] is None:
            self.start[rank] = begin
        else:
            self.idle[rank] += begin - self.now[rank]
        self.now[rank] = begin + {"F": self.f, "I": self.i, "W": self.w}[kind]
        if kind != "W":
            self.end[kind][rank][k] = self.now[rank]
        self.done[kind][rank] += 1

    def arrival(self, rank, kind, k):
        if kind == "F" and rank > 0:
            return self.end["F"][rank - 1][k] + self.send
        if kind == "I" and rank + 1 < self.p:
            return self.end["I"][rank + 1][k] + self.send
        return 0.0

    def held(self, rank):
        return self.done["F"][rank] - self.done["W"][rank]

    def pending(self, rank):
        return self.done["I"][rank] - self.done["W"][rank]

    def fill(self, rank, until):
        """W into the gap before `until`; the last may overrun it, unless a little idling costs nothing."""
        while self.pending(rank) and self.now[rank] + self.w <= until:
            self.run(rank, "W")
        if self.pending(rank) and self.now[rank] < until:
            free = until - self.now[rank] <= max(self.idle) - self.idle[rank]
            if not free or self.fill_greedily:
                self.run(rank, "W")

    def warm_up(self):
        p, m = self.p, self.m
        for rank in range(p):
            self.run(rank, "F")
        extra, back = [0] * p, self.now[p - 1] + self.i
        for rank in range(p - 2, -1, -1):
            t = self.now[rank]
            while 1 + extra[rank] < m and 1 + extra[rank] < self.limit:
                late = t + self.f > back + self.send if self.bubble_first else t >= back + self.send
                if late:
                    break
                extra[rank] += 1
                t += self.f
            back = max(t, back + self.send) + self.i
        for rank in range(1, p):
            while extra[rank] > 0 and extra[rank] >= extra[rank - 1] and 1 + extra[rank] < m:
                extra[rank] -= 1
        for rank in range(p):
            for _ in range(extra[rank]):
                self.run(rank, "F")
        for rank in range(p - 1, -1, -1):
            self.run(rank, "I")

    def wants_forward(self, rank):
        f, i = self.done["F"], self.done["I"]
        if f[rank] >= self.m:
            return False
        if rank + 1 < self.p and f[rank] >= f[rank + 1] + 2 and self.backward_first:
            soon = self.now[rank + 1] + self.f + self.i + self.send
            if self.now[rank] >= soon:
                return False
            short = max(0, min(self.held(rank) + 1 - self.limit, self.pending(rank)))
            if self.now[rank] + self.f + short * self.w <= soon:
                return True
            return soon - self.now[rank] > max(self.idle) - self.idle[rank]
        return True

    def schedule(self):
        p = self.p
        self.warm_up()
        for _ in range(1, self.m):
            wants = [self.wants_forward(rank) for rank in range(p)]
            for rank in range(p - 2, -1, -1):
                wants[rank] = wants[rank] and wants[rank + 1]
            for rank in range(p):
                if not wants[rank]:
                    continue
                while self.held(rank) + 1 > self.limit:
                    if not self.pending(rank):
                        return None
                    self.run(rank, "W")
                if rank > 0:
                    self.fill(rank, self.arrival(rank, "F", self.done["F"][rank]))
                self.run(rank, "F")
            for rank in range(p - 1, -1, -1):
                if rank + 1 < p:
                    self.fill(rank, self.arrival(rank, "I", self.done["I"][rank]))
                if rank == 0 and self.done["F"][0] == self.m:
                    while self.pending(0):
                        self.run(0, "W")
                self.run(rank, "I")
        for rank in range(p):
            while self.done["W"][rank] < self.m:
                self.run(rank, "W")
        return max(e - s for e, s in zip(self.now, self.start)), max(self.now)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--ranks", type=int, default=64)
    parser.add_argument("--micro-batches", type=int, default=512)
    parser.add_argument("--cost", default="18522,18086,9337,601", help="F,I,W,send")
    parser.add_argument("--limit", type=int, default=128, help="activations a rank may hold")
    args = parser.parse_args()
    cost = [float(x) for x in args.cost.split(",")]
    begin = time.perf_counter()
    results = []
    for switches in itertools.product([True, False], repeat=3):
        result = Waves(args.ranks, args.micro_batches, cost, args.limit, *switches).schedule()
        if result is not None:
            results.append(result)
    seconds = time.perf_counter() - begin
    spans, makespans = [r[0] for r in results], [r[1] for r in results]
    print(json.dumps({"peer": "zero-bubble wave heuristic", "ranks": args.ranks, "micro_batches": args.micro_batches,
                      "limit": args.limit, "seconds": round(seconds, 3), "span": min(spans, default=None),
                      "makespan": min(makespans, default=None)}))


if __name__ == "__main__":
    main()
