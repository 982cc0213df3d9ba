"""Puts everything that a GPU machine needs into one folder: programs, the libraries that they were linked with, a text to
train on, this command."""
import json
import lzma
import os
import re
import shutil
import subprocess
from pathlib import Path

from gpu_check.kit import BENCHES, LIBRARIES, ROOT, TESTS, TEXT, discover, head_commit, project_text

LIMIT = 60 * 2**20  # bytes
LARGE = 2**20  # larger files are packed compressed (to a fifth), and unpacked when they are first used
# Every glibc machine has these, and no copy of them works elsewhere.
OF_THE_SYSTEM = ("linux-vdso", "ld-linux", "libc.so", "libm.so", "libpthread", "libdl.so", "librt.so", "libresolv",
                 "libutil.so")
# Programs and copied libraries look beside themselves first; --disable-new-dtags: libraries' own libraries too.
BESIDE_ITSELF = ["-DCMAKE_BUILD_RPATH=$ORIGIN/lib", "-DCMAKE_EXE_LINKER_FLAGS=-Wl,--disable-new-dtags",
                 "-DCMAKE_SHARED_LINKER_FLAGS=-Wl,--disable-new-dtags"]


class PackError(Exception):
    """The reason why a folder cannot be packed."""


def call(command):
    print("+", " ".join(str(word) for word in command), flush=True)
    done = subprocess.run([str(word) for word in command], cwd=ROOT, check=False, text=True, stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT)
    if done.returncode != 0:
        raise PackError("\n".join(done.stdout.splitlines()[-30:]) + f"\n{command[0]} failed")
    return done.stdout


def wanted_targets(listing):
    """The targets of `ninja -t targets all` that a GPU can run, and the program."""
    names = set(re.findall(r"^(?:.*/)?([\w-]+): CXX_EXECUTABLE_LINKER", listing, re.MULTILINE))
    names |= set(re.findall(r"^(?:.*/)?([\w-]+): CUDA_EXECUTABLE_LINKER", listing, re.MULTILINE))
    names |= set(re.findall(r"^(?:.*/)?lib([\w-]+)\.so: CXX_SHARED_LIBRARY_LINKER", listing, re.MULTILINE))
    made = {re.sub(r"^lib|\.so$", "", name) for name in LIBRARIES}
    return sorted(names & {*TESTS, *BENCHES, *made, "sluice"})


def architecture_flags(architectures):
    """CMake's, for machine code alone of "90" or "90,100"; without, the project's, whatever the build tree was made for."""
    if not architectures:
        return ["-UCMAKE_CUDA_ARCHITECTURES"]
    if not re.fullmatch(r"\d+[af]?(,\d+[af]?)*", architectures):
        raise PackError(f"--architectures {architectures}: numbers such as 90, with commas between them")
    return ["-DCMAKE_CUDA_ARCHITECTURES=" + ";".join(f"{number}-real" for number in architectures.split(","))]


def build(folder, architectures=None):
    call(["cmake", "-S", ".", "-B", folder, "-G", "Ninja", "-DCMAKE_BUILD_TYPE=Release", "-DSLUICE_CUDA=ON",
          "-DSLUICE_MPI=OFF", "-DSLUICE_STRICT=ON", *BESIDE_ITSELF, *architecture_flags(architectures)])
    # The rules' names end in the target's: NAME_linker lists all executables.
    listing = call(["ninja", "-C", folder, "-t", "targets", "all"])
    targets = wanted_targets(re.sub(r"((?:EXECUTABLE|LIBRARY)_LINKER)__\S+", r"\1", listing))
    call(["ninja", "-C", folder, *targets])


def libraries(program):
    """[(name, path)] of the libraries that the loader would use for `program`, except the system's."""
    found = []
    listed = subprocess.run(["ldd", str(program)], text=True, capture_output=True, check=False).stdout
    for line in listed.splitlines():
        match = re.match(r"\s*(\S+) => (.*) \(0x", line)
        if "not found" in line:
            raise PackError(f"{program}: {line.strip()}")
        if match and not match[1].startswith(OF_THE_SYSTEM):
            found.append((match[1], Path(match[2])))
    return found


def copy_program(source, target):
    shutil.copy2(source, target)
    subprocess.run(["strip", str(target)], check=False)


def check_paths(program, folder):
    for library, path in libraries(program):
        if folder / "lib" not in path.parents:
            raise PackError(f"{program.name} would take {library} from {path.parent}: it was not linked to look beside "
                            "itself; leave --no-build out")


def compress(folder):
    for path in [path for path in folder.rglob("*") if path.is_file() and path.stat().st_size >= LARGE]:
        with open(path, "rb") as plain, lzma.open(f"{path}.xz", "wb", preset=6) as packed:
            shutil.copyfileobj(plain, packed)
        path.unlink()


def unpack(folder):
    """Unpacks compressed files that are not unpacked yet; any number of processes may do so at once."""
    for packed in Path(folder).rglob("*.xz"):
        path = packed.with_suffix("")
        if path.exists():
            continue
        part = path.with_name(f"{path.name}.{os.getpid()}")
        with lzma.open(packed) as source, open(part, "wb") as target:
            shutil.copyfileobj(source, target)
        part.chmod(0o755)
        part.rename(path)


def copy_command(folder):
    here = Path(__file__).resolve().parent
    shutil.copy2(here.parent / "gpu-check", folder / "gpu-check")
    shutil.copytree(here, folder / "gpu_check", dirs_exist_ok=True, ignore=shutil.ignore_patterns("__pycache__"))


def sizes(folder):
    return {str(path.relative_to(folder)): path.stat().st_size for path in folder.rglob("*") if path.is_file()}


def pack(target, build_folder, build_it=True, architectures=None):
    """Returns the size of the folder in bytes."""
    if build_it:
        build(build_folder, architectures)
    found = discover(build_folder)
    programs = {"sluice": Path(build_folder) / "tools" / "sluice", **found["tests"], **found["benches"],
                **found["libraries"]}
    folder = Path(target).resolve()
    if folder.exists() and any(folder.iterdir()) and not (folder / "manifest.json").is_file():
        raise PackError(f"{folder} is not empty, and was not packed by this command")
    if folder.exists():
        shutil.rmtree(folder)
    (folder / "lib").mkdir(parents=True)
    (folder / "manifest.json").write_text(json.dumps(
        {"commit": head_commit(), "tests": sorted(found["tests"]), "benches": sorted(found["benches"])}, indent=1))
    for name, source in programs.items():
        copy_program(source, folder / name)
        for library, path in libraries(source):
            if not (folder / "lib" / library).exists():
                shutil.copy2(path, folder / "lib" / library)
    for name in programs:
        check_paths(folder / name, folder.resolve())
    compress(folder)
    copy_command(folder)
    (folder / TEXT).write_text(project_text(), encoding="utf-8")
    total = sum(sizes(folder).values())
    if total > LIMIT:
        largest = sorted(sizes(folder).items(), key=lambda item: -item[1])[:8]
        raise PackError(f"{folder} has {total / 2**20:.1f} MiB, more than {LIMIT / 2**20:.0f}; its largest files:\n" +
                        "\n".join(f"  {size / 2**20:6.1f} MiB  {name}" for name, size in largest))
    return total
