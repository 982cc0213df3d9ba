"""Pages made of what the program says: the schedules, each with its drawing and who runs it, and --help."""

import json
import pathlib
import re
import subprocess

SIZE = ("-p", "4", "-m", "8")


def ask(program, *arguments):
    return subprocess.run([program, *arguments], capture_output=True, text=True, check=False)


def answer(program, *arguments):
    done = ask(program, *arguments)
    if done.returncode != 0:
        raise RuntimeError(f"sluice {' '.join(arguments)}: exit code {done.returncode}: {done.stderr}")
    return done


def entries(program):
    """The catalogue with `auto`, as `sluice schedule list --json` has it."""
    return json.loads(answer(program, "schedule", "list", "--json").stdout)


def drawing(program, name, kind):
    """The drawing of a schedule on 4 ranks with 8 micro-batches; `kind` is svg or html."""
    return answer(program, "schedule", "show", name, *SIZE, "--format", kind).stdout


def runners(program, name):
    """Who runs the schedule, each with a reason where it does not: sluice trains with all of them."""
    warning = re.search(r"PyTorch cannot run this timetable: (.*)",
                        answer(program, "schedule", "show", name, *SIZE, "--format", "comms-csv").stderr)
    megatron = ask(program, "plan", "gpt2", "--devices", "4", "--device", "a100", "--micro-batches", "8", "--schedule", name,
                   "--format", "megatron")
    torch = f"PyTorch does not: {warning[1]}" if warning else "PyTorch"
    return ["sluice", torch] + (["Megatron-LM"] if megatron.returncode == 0 else [])


def section(entry, runs):
    """The Markdown of one schedule."""
    does = [name for name in runs if "does not" not in name]
    rows = [("Needs", entry["needs"]), ("Bubble", entry["bubble"]), ("Activations", entry["memory"]),
            ("Weights kept", entry["weights"]), ("Updates", entry["updates"]), ("Source", entry["source"]),
            ("Who runs it", "; ".join([", ".join(does)] + [name for name in runs if name not in does]))]
    name, code = entry["name"], {"Needs", "Bubble", "Activations"}
    # A bar would end the cell, and a star would begin emphasis.
    cells = [(label, f"`{value}`" if label in code else value.replace("|", "\\|").replace("*", "\\*"))
             for label, value in rows if value]
    table = "\n".join(f"| {label} | {value} |" for label, value in cells)
    return f"""
## {name}

{entry["summary"][:1].upper() + entry["summary"][1:]}.

```{{image}} /build/docs-work/extra/drawings/{name}.svg
:alt: {name} on 4 ranks with 8 micro-batches
:class: drawing
```

<a class="drawing" href="../drawings/{name}.html">Look into this drawing</a>: zoom, the cost of each action, the critical
path, memory over time.

| | |
|---|---|
{table}
"""


def catalogue_page(program, folder):
    """The Markdown of all schedules; their drawings are written to `folder`."""
    folder = pathlib.Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    sections = []
    for entry in entries(program):
        for kind in ("svg", "html"):
            (folder / f"{entry['name']}.{kind}").write_text(drawing(program, entry["name"], kind))
        sections.append(section(entry, runners(program, entry["name"])))
    return "\n".join(sections)


def help_page(program, command=()):
    """The Markdown of `sluice --help` and that of all commands below it."""
    text = answer(program, *command, "--help").stdout.rstrip()
    title = " ".join(("sluice", *command))
    page_text = f"\n## {title}\n\n```text\n{text}\n```\n"
    listed = text.split("Subcommands:\n")[1].split("\n\n")[0] if "Subcommands:\n" in text else ""
    for name in re.findall(r"^  ([a-z]\S*)", listed, re.MULTILINE):
        page_text += help_page(program, (*command, name))
    return page_text
