"""Commands that a page shows: run as they stand there, in a folder of the page's own, with what they print."""

import dataclasses
import os
import pathlib
import re
import subprocess
import tempfile

PROMPT = "$ "
SECONDS = 120
ROOT = pathlib.Path(__file__).resolve().parents[2]


class CommandError(Exception):
    """A command that does not do what its page says; the message has the command and what it printed."""


def commands_in(lines):
    """The commands among `lines`: those behind a prompt, each a list of lines of which all but the last end in a
    backslash. Other lines, such as printed ones, are left out."""
    found = []
    for line in lines:
        if line.startswith(PROMPT):
            found.append([line.removeprefix(PROMPT)])
        elif found and found[-1][-1].endswith("\\"):
            found[-1].append(line)
    return found


@dataclasses.dataclass(frozen=True)
class Block:
    """A block of a page. `shows` is a pattern that what its commands print must have, so that what the page says
    about it is so; `exit_code` is that of the last command, and the others end with 0."""

    commands: list
    shows: str
    exit_code: int = 0

    @classmethod
    def read(cls, options, lines):
        commands = commands_in(lines)
        known = {"shows", "exit"}
        if set(options) - known or not options.get("shows") or not commands:
            raise CommandError(f"a block of commands has options {sorted(known)}, of which `shows` is needed, and lines "
                               f"that begin with '{PROMPT}'; this has {sorted(options)} and {len(commands)} commands")
        return cls(commands, options["shows"], int(options.get("exit", 0)))


class Shell:
    """A folder in which commands run one after another, with `program` as `sluice`, and with the project's docs/ and tools/,
    which readers of a page have too. Use it in a `with`."""

    def __init__(self, program):
        self.program = pathlib.Path(program).resolve()
        if not self.program.exists():
            raise CommandError(f"there is no program {program}; build the target sluice")

    def __enter__(self):
        self.scratch = tempfile.TemporaryDirectory(prefix="sluice-docs-")
        self.folder = pathlib.Path(self.scratch.name) / "work"
        self.folder.mkdir()
        for name in ("docs", "tools"):
            (self.folder / name).symlink_to(ROOT / name)
        tools = pathlib.Path(self.scratch.name) / "bin"
        tools.mkdir()
        (tools / "sluice").symlink_to(self.program)
        self.environment = {**os.environ, "PATH": f"{tools}:{os.environ['PATH']}", "NO_COLOR": "1", "LC_ALL": "C.UTF-8",
                            "OMP_NUM_THREADS": "1"}
        return self

    def __exit__(self, *_):
        self.scratch.cleanup()

    def run(self, command, seconds=SECONDS):
        """(exit code, what was printed to both outputs, in order)"""
        done = subprocess.run(["bash", "-o", "pipefail", "-c", command], cwd=self.folder, env=self.environment,
                              stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=seconds)
        return done.returncode, done.stdout.decode(errors="replace")

    def transcript(self, block):
        """The lines of `block`'s commands, each followed by what it printed: (line, whether it is of a command)."""
        lines, printed = [], ""
        for number, command in enumerate(block.commands):
            code, output = self.run("\n".join(command))
            wanted = block.exit_code if number == len(block.commands) - 1 else 0
            if code != wanted:
                raise CommandError(f"exit code {code} instead of {wanted}: {' '.join(command)}\n{output}")
            printed += output
            lines += [(line, True) for line in (PROMPT + command[0], *command[1:])]
            lines += [(line.rstrip(), False) for line in output.splitlines()]
        if not re.search(block.shows, printed, re.DOTALL):
            raise CommandError(f"'{block.shows}' is not in what was printed by {block.commands}:\n{printed}")
        return lines
