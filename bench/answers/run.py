"""Runs a case with a program: the commands run in their own folder, and all that they print and write is the answer."""
import itertools
import os
import re
import shlex
import shutil
import signal
import socket
import subprocess
import tempfile
import threading
import time

from .blanks import blanked
from .case import command_of

PATIENCE = 120  # seconds for one command
TIMED_OUT = 'timed out'
# The variables of the environment that are passed on: those that programs need to start, and those that check their memory.
KEPT = re.compile('PATH|LD_LIBRARY_PATH|LD_PRELOAD|[ALTU][A-Z]*SAN_OPTIONS')
ports = itertools.count(20000 + os.getpid() % 10000)  # below the ports that the system assigns itself
ports_lock = threading.Lock()


def environment():
    kept = {name: value for name, value in os.environ.items() if KEPT.fullmatch(name)}
    return kept | {'LC_ALL': 'C.UTF-8', 'TZ': 'UTC', 'HOME': '/nowhere'}


def free_port():
    with ports_lock:
        for port in ports:
            with socket.socket() as probe:
                try:
                    probe.bind(('127.0.0.1', port))
                    return str(port)
                except OSError:
                    continue
    raise AssertionError('ports do not end')


def finish(process, deadline):
    """The exit code, or a note that the program did not end in time."""
    try:
        return process.wait(timeout=max(0.1, deadline - time.monotonic()))
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        return TIMED_OUT


def read(file):
    file.seek(0)
    return file.read().decode('utf-8', 'surrogateescape')


def run_step(binary, step, folder, ranks=1, patience=PATIENCE):
    """[rank] (exit code, stdout, stderr) of a line."""
    words = shlex.split(step)
    mine = environment()
    while words and re.match('[A-Z_]+=', words[0]):
        name, value = words.pop(0).split('=', 1)
        mine[name] = value
    world = ['--world-size', str(ranks), '--master-addr', '127.0.0.1', '--master-port', free_port()] if ranks > 1 else []
    deadline = time.monotonic() + patience
    running = []
    for rank in range(ranks):
        out, err = tempfile.TemporaryFile(), tempfile.TemporaryFile()
        flags = [*world, '--rank', str(rank)] if world else []
        # Both programs must have the same name in their output.
        process = subprocess.Popen(['sluice', *words, *flags], executable=binary, cwd=folder, env=mine, stdout=out, stderr=err,
                                   stdin=subprocess.DEVNULL, start_new_session=True)
        running.append((process, out, err))
    said = []
    for process, out, err in running:
        code = finish(process, deadline)
        said.append((code, read(out), read(err)))
        out.close()
        err.close()
    return said


def content(path, name):
    """The content of the file `name`, blanked; its bytes if it is not text."""
    data = path.read_bytes()
    try:
        return blanked(data.decode('utf-8'), 'file', name)
    except UnicodeDecodeError:
        return data


def left_behind(folder, inputs):
    """{path: content} of all files in `folder` that were not among the inputs."""
    found = {}
    for path in sorted(folder.rglob('*')):
        name = str(path.relative_to(folder))
        if name in inputs:
            continue
        if path.is_symlink():
            found[f'link {name}'] = os.readlink(path)
        elif path.is_dir():
            found[f'folder {name}'] = ''
        else:
            found[f'file {name}'] = content(path, name)
    return found


def answer(binary, case, folder, inputs, patience=PATIENCE):
    """{part: text or bytes} of all that the case prints and writes; {'timed out': the command} if a command does not end.
    `folder` is made and removed; `inputs` {name: path} stand in it as links."""
    folder.mkdir()
    for name, path in inputs.items():
        (folder / name).symlink_to(path)
    parts = {}
    try:
        for number, step in enumerate(case.steps, 1):
            ranks = case.ranks if number == len(case.steps) else 1
            for rank, (code, out, err) in enumerate(run_step(binary, step, folder, ranks, patience)):
                if code == TIMED_OUT:
                    return {TIMED_OUT: step}
                of = f'of command {number}' if ranks == 1 else f'of rank {rank}'
                parts[f'exit code {of}'] = str(code)
                parts[f'stdout {of}'] = blanked(out, command_of(step), 'stdout')
                parts[f'stderr {of}'] = blanked(err, command_of(step), 'stderr')
        return parts | left_behind(folder, inputs)
    finally:
        shutil.rmtree(folder)
