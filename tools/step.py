"""Runs a long command and shows its progress: `python3 tools/step.py [--silent-failure] NAME LOG COMMAND...`.

The output of the command is written to the file LOG, and also to stderr if the command fails (never with --silent-failure: its
caller reads LOG); the exit code is that of the command. On a terminal one line is rewritten as Ninja and CTest count their steps
("[12/340]", "12/61 Test"); elsewhere such a line is printed once per minute. The last line has the name and the duration.
"""

import re
import shutil
import subprocess
import sys
import time

COUNT = re.compile(r"^(?:\[(\d+)/(\d+)\] | *(\d+)/(\d+) Test +#)")
SECONDS_BETWEEN_LINES = 60
# Before this share is done, the remaining time cannot be estimated.
LEAST_SECONDS, LEAST_SHARE = 5, 0.02


def duration(seconds):
    return f"{seconds:.0f} s" if seconds < 100 else f"{seconds / 60:.0f} min"


class Progress:
    """The line that shows the progress of the command."""

    def __init__(self, name, log, stream):
        self.name, self.log, self.stream = name, log, stream
        self.rewrites = stream.isatty()
        self.start = self.printed = time.monotonic()

    def text(self, done, total, elapsed):
        left = ""
        if elapsed >= LEAST_SECONDS and done >= LEAST_SHARE * total:
            left = f", about {duration(elapsed * (total - done) / done)} left"
        return f"{self.name:<10} {done} of {total}{left} (log: {self.log})"

    def show(self, done, total):
        now = time.monotonic()
        if not self.rewrites and now - self.printed < SECONDS_BETWEEN_LINES:
            return
        self.printed = now
        text = self.text(done, total, now - self.start)
        if self.rewrites:
            columns = shutil.get_terminal_size().columns
            text = "\r" + text[: columns - 1] + "\x1b[K"
        self.stream.write(text + ("" if self.rewrites else "\n"))
        self.stream.flush()

    def clear(self):
        if self.rewrites:
            self.stream.write("\r\x1b[K")

    def finish(self):
        self.clear()
        self.stream.write(f"{self.name:<10} {time.monotonic() - self.start:4.0f} s\n")
        self.stream.flush()


def run(command, log, progress):
    """Runs `command`, its output in the file `log`; returns its exit code."""
    with subprocess.Popen(
        command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace"
    ) as process:
        for line in process.stdout:
            log.write(line)
            if count := COUNT.match(line):
                progress.show(*(int(group) for group in count.groups() if group))
    return process.returncode


def main(*arguments):
    silent = arguments[0] == "--silent-failure"
    name, log_path, *command = arguments[1:] if silent else arguments
    progress = Progress(name, log_path, sys.stdout)
    with open(log_path, "w", buffering=1, encoding="utf-8") as log:
        try:
            status = run(command, log, progress)
        except KeyboardInterrupt:
            return 130
    if status == 0 or silent:
        progress.finish()
        return status
    progress.clear()
    with open(log_path, encoding="utf-8") as log:
        shutil.copyfileobj(log, sys.stderr)
    print(f"'{name}' failed: {' '.join(command)}", file=sys.stderr)
    return status if status > 0 else 128 - status


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
