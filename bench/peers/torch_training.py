#!/usr/bin/env python3
"""Trains sluice's timetables in PyTorch: every schedule that PyTorch can run, from both CSV formats.

    /path/to/python bench/peers/torch_training.py build/release/tools/sluice [--ranks 2,4] [--torch 2.15]

Each timetable is written by `sluice schedule show`, loaded by PyTorch's _PipelineScheduleRuntime on gloo processes, and
trains a model of Linear and GELU for four steps of SGD. Losses must be those of one process without a pipeline, to 1e-6
relative. Also checked, with the table that PyTorch's own lowering makes: UNSHARD, RESHARD and the gradients' actions
stand at the same places among the computations, and PyTorch's file comes back from sluice byte for byte.
Needs a Python with torch (2.15, or 2.8 with --torch 2.8). Prints a table; exit code 1 where a loss differs. PyTorch 2.8
itself trains differently where backwards are split (I and W), and reads no overlapped pairs (dualpipev's csv).
"""
import argparse
import inspect
import json
import os
import subprocess
import sys
import tempfile
import time

# Chimera, PipeDream and PipeDream-2BW are not PyTorch's.
SINGLE = ["gpipe", "1f1b", "eager-1f1b", "zb-h1", "zb-h2", "zb-2p"]
CHUNKED = ["interleaved", "interleaved-zb", "bfs", "zbv", "v-half", "v-min", "dualpipev", "hanayo"]
UNEVEN = "F=2,I=1,W=2,send=0.25"
WIDTH, ROWS, STEPS = 16, 8, 4


def cases(ranks):
    for name in SINGLE:
        yield name, ["-m", "8"]
    for name in CHUNKED:
        yield name, ["-m", "8", "-v", "2"]
    yield "auto", ["-m", "8", "--cost", UNEVEN]
    yield "auto", ["-m", "8", "-v", "2", "--cost", UNEVEN]
    yield "auto", ["-m", "8", "-v", "2", "--memory-limit", str(ranks + 1)]


def model_of(stages):
    import torch
    torch.manual_seed(7)
    return [torch.nn.Sequential(torch.nn.Linear(WIDTH, WIDTH), torch.nn.GELU()) for _ in range(stages)]


def batches(micro_batches):
    import torch
    torch.manual_seed(11)
    return [(torch.randn(micro_batches * ROWS, WIDTH), torch.randn(micro_batches * ROWS, WIDTH)) for _ in range(STEPS)]


def reference(stages, micro_batches):
    """Losses of one process without a pipeline: the mean over the micro-batches of each step."""
    import torch
    layers = torch.nn.Sequential(*model_of(stages))
    optimizer = torch.optim.SGD(layers.parameters(), lr=0.5)
    losses = []
    for inputs, targets in batches(micro_batches):
        optimizer.zero_grad()
        parts = [torch.nn.functional.mse_loss(layers(x), y)
                 for x, y in zip(inputs.chunk(micro_batches), targets.chunk(micro_batches))]
        loss = torch.stack(parts).mean()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses


def shards(schedule):
    """What the runtime will do, without messages: [rank][position]."""
    kept = ("F", "B", "I", "W", "OVERLAP_F_B", "UNSHARD", "RESHARD", "REDUCE_GRAD", "WAIT_REDUCE_GRAD")
    return [[str(action) for action in row if action.computation_type.value in kept]
            for _, row in sorted(schedule.pipeline_order_with_comms.items())]


def dump(schedule, path):
    """Writes what the runtime will do, as its own file. 2.8's _dump_csv writes nothing else."""
    parameters = inspect.signature(schedule._dump_csv).parameters
    schedule._dump_csv(path, **({"format": "compute_comms"} if "format" in parameters else {}))


def worker(rank, ranks, port, tasks, out):
    import torch
    import torch.distributed as dist
    from torch.distributed.pipelining import PipelineStage
    from torch.distributed.pipelining.schedules import _PipelineScheduleRuntime
    torch.set_num_threads(1)
    os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port))
    dist.init_process_group("gloo", rank=rank, world_size=ranks)
    results = []
    for task in tasks:
        stages, places, micro_batches = task["stages"], task["places"], task["micro_batches"]
        own = [s for s in range(stages) if places[s] == rank]
        modules = model_of(stages)

        parts = [PipelineStage(modules[s], s, stages, torch.device("cpu")) for s in own]
        schedule = _PipelineScheduleRuntime(parts, n_microbatches=micro_batches, loss_fn=torch.nn.functional.mse_loss)
        try:
            schedule._load_csv(task["file"], format=task["format"])
        except Exception as failure:  # the same on every rank
            results.append({"losses": [], "error": f"{type(failure).__name__}: {failure}".splitlines()[0], "shards": []})
            continue
        losses, error = [], ""
        try:
            optimizer = torch.optim.SGD([p for s in own for p in modules[s].parameters()], lr=0.5)
            for inputs, targets in batches(micro_batches):
                optimizer.zero_grad()
                parts = []
                arguments = [inputs] if 0 in own else []
                kwargs = {"target": targets, "losses": parts} if stages - 1 in own else {}
                schedule.step(*arguments, **kwargs)
                optimizer.step()
                if parts:
                    losses.append(torch.stack([part.detach() for part in parts]).mean().item())
            if task["format"] == "compute_only" and rank == 0:
                dump(schedule, task["file"] + ".lowered")
        except Exception as failure:
            error = f"{type(failure).__name__}: {failure}".splitlines()[0]
        results.append({"losses": losses, "error": error, "shards": shards(schedule) if not error else []})
        if error:
            break
    with open(f"{out}.{rank}", "w") as file:
        json.dump(results, file)
    if len(results) < len(tasks):
        os._exit(1)  # the others wait for this rank
    dist.barrier()
    dist.destroy_process_group()


def run(tasks, ranks, folder, seconds):
    """Each task's losses and error; the processes are killed where they hang."""
    import socket
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    out = os.path.join(folder, "result")
    with open(out + ".tasks", "w") as file:
        json.dump(tasks, file)
    processes = [subprocess.Popen([sys.executable, __file__, "--worker", f"{rank},{ranks},{port},{out}", "-"],
                                  env={**os.environ, "OMP_NUM_THREADS": "1"}, stderr=open(f"{out}.{rank}.log", "w"))
                 for rank in range(ranks)]
    end = time.monotonic() + seconds
    while any(process.poll() is None for process in processes):
        if any(process.poll() for process in processes):
            end = min(end, time.monotonic() + 5)
        if time.monotonic() > end:
            for process in processes:
                process.kill()
                process.wait()
        time.sleep(0.05)
    merged = []
    for rank in range(ranks):
        if os.path.exists(f"{out}.{rank}"):
            with open(f"{out}.{rank}") as file:
                merged.append(json.load(file))
            os.remove(f"{out}.{rank}")
    if not merged:
        with open(f"{out}.0.log") as file:
            return None, file.read()[-2000:] or "the processes hang"
    return [{"losses": next((r["losses"] for r in ranked if r["losses"]), []),
             "error": next((r["error"] for r in ranked if r["error"]), ""),
             "shards": ranked[0]["shards"]} for ranked in zip(*merged)], ""


def sluice(program, *words):
    return subprocess.run([program, "schedule", *words], check=True, capture_output=True).stdout


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("program", help="sluice")
    parser.add_argument("--ranks", default="2,4")
    parser.add_argument("--torch", default="2.15", help="what comms-csv is written for")
    parser.add_argument("--worker", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.worker:
        rank, ranks, port, out = options.worker.split(",")
        with open(out + ".tasks") as file:
            worker(int(rank), int(ranks), int(port), json.load(file), out)
        return 0
    import torch
    print(f"PyTorch {torch.__version__}, comms-csv for {options.torch}")
    wrong = 0
    with tempfile.TemporaryDirectory() as folder:
        for ranks in map(int, options.ranks.split(",")):
            tasks, names = [], []
            for k, (name, flags) in enumerate(cases(ranks)):
                sizes = ["-p", str(ranks), *flags]
                report = json.loads(sluice(options.program, "show", name, *sizes, "--json", "--actions"))
                places = {a["stage"]: rank for rank, row in enumerate(report["rank_actions"]) for a in row}
                for own, theirs in (("csv", "compute_only"), ("comms-csv", "compute_comms")):
                    path = os.path.join(folder, f"{ranks}.{k}.{own}")
                    # UNSHARD and RESHARD as PyTorch's own lowering adds them to the other format.
                    extra = ["--torch", options.torch, "--max-active-stages", "3"] if own == "comms-csv" else []
                    with open(path, "wb") as file:
                        file.write(sluice(options.program, "show", name, *sizes, "--format", own, *extra))
                    tasks.append({"file": path, "format": theirs, "stages": report["stages"],
                                  "places": [places[s] for s in range(report["stages"])],
                                  "micro_batches": report["micro_batches"]})
                    names.append((" ".join([name, *flags]), own))
            results, error = run(tasks, ranks, folder, 60 + 20 * len(tasks))
            if error:
                print(f"{ranks} ranks: {error}")
                return 1
            for k, ((what, own), task) in enumerate(zip(names, tasks)):
                if k >= len(results):
                    print(f"{ranks} ranks  {what:42} {own:9} not run")
                    wrong += 1
                    continue
                expected = reference(task["stages"], task["micro_batches"])
                result = results[k]
                worst = max((abs(a - b) / abs(b) for a, b in zip(result["losses"], expected)), default=1.0)
                notes = []
                same = own == "comms-csv" and result["losses"] and result["losses"] == results[k - 1]["losses"]
                if result["error"]:
                    notes.append(result["error"])
                elif len(result["losses"]) != STEPS or (worst > 1e-6 and not same):
                    notes.append(f"LOSSES DIFFER: {result['losses']} and {expected}")
                elif worst > 1e-6:
                    print("   the next has the losses of PyTorch's own lowering")
                if own == "csv" and os.path.exists(task["file"] + ".lowered"):
                    # PyTorch's own file, through sluice.
                    path = task["file"] + ".lowered.csv"
                    os.rename(task["file"] + ".lowered", path)
                    with open(path, "rb") as file:
                        if sluice(options.program, "show", path, "--format", "comms-csv", "--torch",
                                  options.torch) != file.read():
                            notes.append("PyTorch's FILE DOES NOT COME BACK")
                lowered = results[k - 1]["shards"]
                if own == "comms-csv" and not notes and lowered and result["shards"] != lowered:
                    notes.append("PyTorch's lowering has OTHER PLACES for its actions")
                wrong += bool(notes)
                print(f"{ranks} ranks  {what:42} {own:9} {worst:8.1e}  {'; '.join(notes) or 'equal'}", flush=True)
    print("all equal" if wrong == 0 else f"{wrong} wrong")
    return wrong > 0


if __name__ == "__main__":
    sys.exit(main())
