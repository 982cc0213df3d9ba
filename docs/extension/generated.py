"""Pages made of what the program says: the schedules, each with its drawing and who runs it, and --help."""

import json
import pathlib
import re
import subprocess

SIZE = ("-p", "4", "-m", "8")


def answer(program, *arguments):
    done = subprocess.run([program, *arguments], capture_output=True, text=True, check=False)
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
    """Who runs the schedule, and why others do not, as a sentence."""
    details = json.loads(answer(program, "schedule", "list", name, "--json").stdout)
    return "; ".join([", ".join(details["runs_in"])] +
                     [f"not {other}: {reason}" for other, reason in details["not_in"].items()])


def section(entry, runs, size):
    """The Markdown of one schedule; `size` is that of its drawing, so that what is below does not move when it is loaded."""
    rows = [("Needs", entry["needs"]), ("Bubble", entry["bubble"]), ("Activations", entry["memory"]),
            ("Weights kept", entry["weights"]), ("Updates", entry["updates"]), ("Source", entry["source"]),
            ("Who runs it", runs)]
    name, code = entry["name"], {"Needs", "Bubble", "Activations"}
    # A bar would end the cell, and a star would begin emphasis.
    cells = [(label, f"`{value}`" if label in code else value.replace("|", "\\|").replace("*", "\\*"))
             for label, value in rows if value]
    table = "\n".join(f"| {label} | {value} |" for label, value in cells)
    return f"""
## {name}

{entry["summary"][:1].upper() + entry["summary"][1:]}.

<img class="drawing" src="../drawings/{name}.svg" alt="{name} on 4 ranks with 8 micro-batches" {size}>

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
        name = entry["name"]
        for kind in ("svg", "html"):
            (folder / f"{name}.{kind}").write_text(drawing(program, name, kind))
        size = re.search(r'width="\d+" height="\d+"', (folder / f"{name}.svg").read_text())[0]
        sections.append(section(entry, runners(program, name), size))
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
