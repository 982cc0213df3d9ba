#!/usr/bin/env python3
"""A run that survives lost processes and machines on a Ray cluster: one actor per rank, one `sluice train` in each.

  python3 examples/many_machines/ray_train.py --ranks 4 --min-ranks 2 DIR --data text.txt --micro-batches 8 --sum-groups 8 ...

DIR, which all machines share, gets the checkpoints; what follows are flags of `sluice train`, which must be on the PATH of
every machine. Where a rank is lost, Ray starts its actor again on a machine that has room. The run goes on from its newest
checkpoint with the ranks there are after --patience seconds, to the same bits. Ends with the exit code of `sluice train`, which
is 5 only where fewer than --min-ranks are left, or after --max-restarts losses.
"""
import argparse
import ctypes
import os
import secrets
import signal
import socket
import subprocess
import sys

import ray
from ray.util.placement_group import placement_group
from ray.util.scheduling_strategies import PlacementGroupSchedulingStrategy

LOST = 5  # the exit code of a rank that misses another


def end_with_parent():
    """A rank whose actor is killed shall not live on. Called in the rank's process."""
    ctypes.CDLL(None).prctl(1, signal.SIGKILL)  # PR_SET_PDEATHSIG


@ray.remote(num_cpus=1, max_restarts=-1)
class Rank:
    """Where one rank runs. Ray starts it again, if need be on another machine."""

    def meeting_place(self):
        """An address and a free port at which ranks can meet if rank 0 is here."""
        with socket.socket() as free:
            free.bind(('', 0))
            return ray.util.get_node_ip_address(), free.getsockname()[1]

    def train(self, flags, secret):
        """The exit code of `sluice train`; below 0 if a signal ended it."""
        return subprocess.call(['sluice', 'train', *flags], env={**os.environ, 'SLUICE_SECRET': secret},
                               preexec_fn=end_with_parent)


def answers(calls, patience):
    """[(actor, its answer)] of those that answer within `patience` seconds; `calls`: [(actor, what was asked)]."""
    ready, _ = ray.wait([call for _, call in calls], num_returns=len(calls), timeout=patience)
    found = []
    for actor, call in calls:
        try:
            if call in ready:
                found.append((actor, ray.get(call)))
        except ray.exceptions.RayActorError:
            pass
    return found


def train_once(there, flags):
    """The exit codes of a run whose ranks are the actors in `there`, [(actor, its meeting place)]."""
    host, port = there[0][1]
    secret = secrets.token_hex(32)
    where = ['--world-size', str(len(there)), '--master-addr', host, '--master-port', str(port)]
    codes = []
    for call in [actor.train.remote([*flags, *where, '--rank', str(rank)], secret) for rank, (actor, _) in enumerate(there)]:
        try:
            codes.append(ray.get(call))
        except ray.exceptions.RayActorError:
            codes.append(-signal.SIGKILL)
    return codes


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument('--ranks', type=int, required=True)
    parser.add_argument('--min-ranks', type=int, default=1)
    parser.add_argument('--max-restarts', type=int, default=20)
    parser.add_argument('--patience', type=float, default=60, help='seconds for actors to come (back)')
    parser.add_argument('directory', metavar='DIR')
    options, flags = parser.parse_known_args()
    ray.init()
    group = placement_group([{'CPU': 1}] * options.ranks, strategy='SPREAD')
    actors = [Rank.options(scheduling_strategy=PlacementGroupSchedulingStrategy(group, bundle)).remote()
              for bundle in range(options.ranks)]
    folder = os.path.abspath(options.directory)
    flags = ['--stages', 'auto', '--data-parallel', 'auto', *flags, '--save', folder, '--resume-or-start', folder]
    for restart in range(options.max_restarts + 1):
        there = answers([(actor, actor.meeting_place.remote()) for actor in actors], options.patience)
        if len(there) < options.min_ranks:
            break
        codes = train_once(there, flags)
        print(f'{len(there)} ranks ended with {codes} after restart {restart}', file=sys.stderr)
        if all(code == 0 for code in codes):
            return 0
        own = [code for code in codes if 0 < code < 128 and code != LOST]  # of ranks with an error of their own
        if own:
            return own[0]
    return LOST


if __name__ == '__main__':
    sys.exit(main())
