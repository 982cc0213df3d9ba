"""The calculations of the demo.

    python3 demo_report.py costs plan.json                  the plan's costs, for `sluice schedule show --costs`
    python3 demo_report.py compare plan.json trace.json     planned and measured times
"""

import collections
import json
import statistics
import sys

MILLI = 1e3
ACTIONS = ("F", "B", "I", "W", "RECOMPUTE")
BUSY = 1.2  # a run that is this many times slower than planned gets a note


def read(path):
    with open(path, encoding="utf-8") as file:
        return json.load(file)


def costs(plan):
    """Milliseconds of each stage's forward and backward; half of the latter goes to each gradient."""
    forward = [round(MILLI * stage["forward_seconds"], 2) for stage in plan["stages"]]
    half = [round(MILLI * stage["backward_seconds"] / 2, 2) for stage in plan["stages"]]
    return {"F": forward, "I": half, "W": half, "send": 0}


def actions_of(trace):
    """The events of the actions of a timetable; a trace has messages, updates and more besides."""
    return [event for event in trace["traceEvents"] if event["ph"] == "X" and event.get("cat") in ACTIONS]


def measured_steps(trace):
    """[(makespan, bubble)] of every step that ran, in milliseconds and as a share."""
    steps = collections.defaultdict(list)
    ranks = set()
    for event in actions_of(trace):
        steps[event["args"]["step"]].append((event["ts"], event["ts"] + event["dur"]))
        ranks.add(event["tid"])
    result = []
    for spans in steps.values():
        makespan = max(end for _, end in spans) - min(start for start, _ in spans)
        work = sum(end - start for start, end in spans)
        result.append((makespan / MILLI, 1 - work / (len(ranks) * makespan)))
    return result


def durations(trace):
    """{(stage, "F" or "B"): median milliseconds}."""
    seen = collections.defaultdict(list)
    for event in actions_of(trace):
        seen[event["args"]["stage"], event["cat"]].append(event["dur"] / MILLI)
    return {key: statistics.median(values) for key, values in seen.items()}


def compare(plan, trace):
    steps = measured_steps(trace)
    actions = durations(trace)
    print(f"  {'':22}{'planned':>11}{'measured':>12}   median of {len(steps):,} steps")
    for stage in plan["stages"]:
        for name, operation in (("forward", "F"), ("backward", "B")):
            planned, measured = MILLI * stage[f"{name}_seconds"], actions.get((stage["stage"], operation))
            if measured is not None:
                print(f"  stage {stage['stage']} {name:14}{planned:8.2f} ms{measured:9.2f} ms")
    makespan = statistics.median(step[0] for step in steps)
    bubble = statistics.median(step[1] for step in steps)
    print(f"  {'timetable':22}{MILLI * plan['step_seconds']:8.1f} ms{makespan:9.1f} ms")
    print(f"  {'bubble':22}{100 * plan['bubble']:8.1f} % {100 * bubble:9.1f} %")
    if makespan > BUSY * MILLI * plan["step_seconds"]:
        print("\n  Slower than planned: most likely this machine did other work meanwhile.")


def main(arguments):
    if len(arguments) == 2 and arguments[0] == "costs":
        print(json.dumps(costs(read(arguments[1]))))
    elif len(arguments) == 3 and arguments[0] == "compare":
        compare(read(arguments[1]), read(arguments[2]))
    else:
        sys.exit(__doc__)


if __name__ == "__main__":
    main(sys.argv[1:])
