"""The result file: what was measured is in it, however the command ends."""
import contextlib
import json
import os
import sys
import threading
from pathlib import Path

NOT_RUN, CUT_OFF = "not run", "cut off"
COLUMN = 14  # of the part's name, in what is printed


def encode(value):
    return json.dumps(value, separators=(", ", ": "))


class Rows:
    """The rows of one part: {name: row}. A row that is put again replaces the one before."""

    def __init__(self, report=None, part="", earlier=None):
        self._report = report
        self._part = part
        self._earlier = earlier or {}
        self._encoded = {name: encode(row) for name, row in self._earlier.items()}  # until they are measured again
        self._lock = report.lock if report else threading.RLock()

    def put(self, name, row, line=""):
        """Writes the file, then prints `line`: what was announced is in the file."""
        with self._lock:
            self._encoded[name] = encode(row)
            if self._report:
                self._report.write()
                if line:
                    with contextlib.suppress(BrokenPipeError):  # nobody reads; the file has it
                        print(f"{self._part:<{COLUMN}}  {line}", flush=True)

    def known(self, name):
        """The row that an earlier run has measured well; otherwise nothing."""
        row = self._earlier.get(name)
        return row if row and row.get("complete") and not row.get("error") else None

    def get(self, name):
        return json.loads(self._encoded[name])

    def text(self):
        with self._lock:
            return ",\n   ".join(f"{encode(name)}: {row}" for name, row in self._encoded.items())


class Report:
    """The document, which is rewritten as a whole: a reader finds the file as it was before a change, or after it."""

    def __init__(self, path, head, names, earlier=None):
        """`earlier`: the parts of an earlier file, which stay as they are until they are begun again."""
        self._path = path and Path(path)
        self.lock = threading.RLock()  # of the rows, too
        self.earlier = earlier or {}
        self._rows = {}
        self._parts = {}  # encoded, without rows
        self.head = dict(head)
        for name in dict.fromkeys([*self.earlier, *names]):
            self._keep(name, self.earlier.get(name, {"status": NOT_RUN}))

    def _keep(self, name, part):
        self._rows[name] = Rows(self, name, part.get("rows"))
        self._parts[name] = encode({key: value for key, value in part.items() if key != "rows"})

    def begin(self, name):
        """A part counts as cut off until it is finished."""
        with self.lock:
            self._parts[name] = encode({"status": CUT_OFF})
            self.write()
        return self._rows[name]

    def finish(self, name, result):
        with self.lock:
            self._parts[name] = encode(result)
            self.write()

    def _part_text(self, name):
        """The part's fields, then its rows, if there are any."""
        rows = self._rows[name].text()
        return f"{self._parts[name][:-1]}, \"rows\": {{\n   {rows}}}}}" if rows else self._parts[name]

    def text(self):
        """One row a line. Only what has changed is encoded again, since some parts have thousands of rows."""
        with self.lock:
            head = "".join(f" {encode(key)}: {encode(value)},\n" for key, value in self.head.items())
            parts = ",\n".join(f"  {encode(name)}: {self._part_text(name)}" for name in self._parts)
        return f"{{\n{head} \"parts\": {{\n{parts}\n }}\n}}\n"

    def write(self):
        if not self._path:
            return
        with self.lock:
            part = self._path.with_name(f"{self._path.name}.part")
            part.write_text(self.text())
            os.replace(part, self._path)


def read_earlier(path, head):
    """The parts of an earlier result file of the same commit and GPU; none, with the reason on stderr, otherwise."""
    try:
        document = json.loads(Path(path).read_text())
        for key in ("commit", "gpus"):
            if document[key] != head[key] or not document["commit"]:
                print(f"gpu-check: {path} is not resumed: its {key} is {document[key]}, here {head[key]}", file=sys.stderr)
                return {}
        return document["parts"]
    except FileNotFoundError:
        print(f"gpu-check: {path} does not exist yet, so all parts are run", file=sys.stderr)
    except (OSError, ValueError, KeyError, TypeError) as error:
        print(f"gpu-check: {path} is not resumed: {type(error).__name__}: {error}", file=sys.stderr)
    return {}
