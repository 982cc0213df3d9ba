"""What `cmake --install` installs, used by other projects: package_test.py SOURCE BUILD.

Installs BUILD, builds the examples from there, and configures projects that ask for less or for too much. The folder is
the same in every run, so that a compiler cache knows what was built before.
"""

import pathlib
import re
import shutil
import subprocess
import sys
import unittest

SOURCE, BUILD = (pathlib.Path(folder) for folder in sys.argv[1:3])
WORK = BUILD / "tests" / "package" / "work"
PREFIX = WORK / "prefix"
CCACHE = [shutil.which("ccache")] if shutil.which("ccache") else []
# What find_package may be asked for, beside Abseil, which itself asks for Threads.
OTHER_PACKAGES = ["TBB", "nlohmann_json", "NLopt", "OpenMP", "dnnl", "hwy", "fmt", "ZLIB", "OpenSSL", "ICU",
                  "PkgConfig", "CLI11", "MPI", "CUDAToolkit", "GTest", "benchmark", "OpenCL"]


def run(*command, **options):
    return subprocess.run([str(word) for word in command], capture_output=True, text=True, **options)


def done(*command, **options):
    """The output of a command that must succeed."""
    result = run(*command, **options)
    if result.returncode != 0:
        raise AssertionError(f"{' '.join(map(str, command))}: exit {result.returncode}\n{result.stdout}{result.stderr}")
    return result.stdout


def configure(source, build, *options):
    """A configuration that finds sluice in PREFIX; the result of the command."""
    launcher = [f"-DCMAKE_CXX_COMPILER_LAUNCHER={CCACHE[0]}"] if CCACHE else []
    return run("cmake", "-S", source, "-B", build, "-G", "Ninja", f"-DCMAKE_PREFIX_PATH={PREFIX}", *launcher, *options)


def without(packages):
    return [f"-DCMAKE_DISABLE_FIND_PACKAGE_{package}=TRUE" for package in packages]


def setUpModule():
    shutil.rmtree(WORK, ignore_errors=True)
    done("cmake", "--install", BUILD, "--prefix", PREFIX)


class Examples(unittest.TestCase):
    """Each example, built from the installed prefix and run."""

    @classmethod
    def setUpClass(cls):
        configured = configure(SOURCE / "examples", WORK / "examples", "-DEXAMPLES=runtime")
        if configured.returncode != 0:
            raise AssertionError(configured.stdout + configured.stderr)
        done("cmake", "--build", WORK / "examples")

    def example(self, name, *arguments):
        return done(WORK / "examples" / name, *arguments)

    def test_print_schedule(self):
        version = re.search(r"project\(sluice VERSION ([\d.]+)", (SOURCE / "CMakeLists.txt").read_text()).group(1)
        # ZB-H1: p - 1 units of bubble beside 3 m of work, where F = I = W (Qi et al., ICLR 2024, table 2).
        self.assertIn(f"zb-h1 of sluice {version}: makespan 27, no order takes less than 27, bubble 11.1 %",
                      self.example("print_schedule"))
        refused = run(WORK / "examples" / "print_schedule", "zb-h9")
        self.assertEqual(refused.returncode, 2)
        self.assertIn("did you mean 'zb-h1'?", refused.stderr)

    def test_custom_schedule(self):
        text = self.example("custom_schedule")
        # Its own closed forms: p = 4, (p - 1) / (p + 3).
        self.assertIn(f"blocks: bubble {100 * 3 / 7:.1f} %, at most 4 activations on a rank", text)
        self.assertIn(f"gpipe: bubble {100 * 3 / 11:.1f} %, at most 8 activations on a rank", text)

    def test_plan(self):
        plans = re.findall(r"^(\S+) +layers (\S+): ([\d.]+) ms per step, none is below ([\d.]+) ms$",
                           self.example("plan"), re.MULTILINE)
        self.assertEqual([name for name, *_ in plans], ["gpipe", "1f1b", "zb-h1"])
        for _, partition, seconds, bound in plans:
            self.assertEqual(seconds, bound)  # a proof without a gap
            ranges = [tuple(map(int, part.split("-"))) for part in partition.split(",")]
            self.assertEqual((len(ranges), ranges[0][0], ranges[-1][1]), (4, 0, 49))

    def test_train(self):
        # The promise: the same bits however the model is cut.
        text = WORK / "text.txt"
        text.write_text((SOURCE / "README.md").read_text())
        losses = self.example("train", text, "1")
        self.assertEqual(losses.count("loss"), 5)
        self.assertEqual(losses, self.example("train", text, "3"))


class Headers(unittest.TestCase):
    def test_name_each_other_below_sluice(self):
        headers = sorted((PREFIX / "include").rglob("*.h"))
        self.assertGreater(len(headers), 300)
        for header in headers:
            self.assertEqual(header.parts[len(PREFIX.parts) + 1], "sluice", header)
            text = header.read_text()
            # Nothing else of them is changed.
            source = SOURCE / header.relative_to(PREFIX / "include" / "sluice")
            if source.exists():  # the version is the build's
                self.assertEqual(re.sub(r"#include <sluice/([^>]+)>", r'#include "\1"', text), source.read_text(), header)
            for kind, name in re.findall(r'^#include ([<"])([^>"]+)', text, re.MULTILINE):
                if name.startswith("sluice/"):
                    self.assertTrue((PREFIX / "include" / name).exists(), f"{header} includes {name}, not installed")
                else:
                    self.assertRegex(kind + name, r'^<|^"absl/', header)

    def test_compile_beside_a_project_with_the_same_folders(self):
        """One source that includes every header of the two pure components."""
        decoys = WORK / "decoys"
        for name in ("schedules/timetable.h", "schedules/action.h", "models/spec/dtype.h", "partitioner/machines.h"):
            (decoys / name).parent.mkdir(parents=True, exist_ok=True)
            (decoys / name).write_text("#error another project's header\n")
        included = [header.relative_to(PREFIX / "include") for folder in ("schedules", "models/spec", "partitioner")
                    for header in sorted((PREFIX / "include" / "sluice" / folder).rglob("*.h"))
                    if "planning" not in header.parts]
        source = WORK / "all_headers.cc"
        source.write_text("".join(f"#include <{header}>\n" for header in included))
        done(*CCACHE, "c++", "-std=c++20", "-O0", "-Wall", "-Wextra", "-Werror", f"-I{decoys}", f"-I{PREFIX}/include", "-c",
             source, "-o", WORK / "all_headers.o")


class Components(unittest.TestCase):
    def libraries(self, build):
        """The names of the libraries that a build would make."""
        targets = done("ninja", "-C", build, "-t", "targets", "all").splitlines()
        return {pathlib.Path(line.split(":")[0]).name for line in targets if ".a:" in line}

    def test_schedules_asks_for_abseil_alone(self):
        configured = configure(SOURCE / "examples", WORK / "schedules_example", "-DEXAMPLES=schedules",
                               *without(OTHER_PACKAGES))
        self.assertEqual(configured.returncode, 0, configured.stderr)
        # The disabling works: the next component up cannot do without these.
        configured = configure(SOURCE / "examples", WORK / "planner_example", "-DEXAMPLES=planner",
                               *without(OTHER_PACKAGES))
        self.assertNotEqual(configured.returncode, 0)
        self.assertIn("TBB", configured.stderr)

    def test_unknown_component(self):
        configured = configure(SOURCE / "examples", WORK / "unknown_example", "-DEXAMPLES=schedule")
        self.assertNotEqual(configured.returncode, 0)
        self.assertIn("sluice has no component 'schedule' here; there are: schedules;planner;runtime",
                      " ".join(configured.stderr.split()))

    def test_schedules_configures_with_abseil_alone(self):
        build = WORK / "schedules_build"
        done("cmake", "-S", SOURCE, "-B", build, "-G", "Ninja", "-DSLUICE_COMPONENTS=schedules", *without(OTHER_PACKAGES))
        self.assertEqual(self.libraries(build), {"libsluice_schedules.a"})
        prefix = WORK / "not_built"
        refused = run("cmake", "--install", build, "--prefix", prefix)
        self.assertNotEqual(refused.returncode, 0)
        self.assertIn("libsluice_schedules.a is not built yet, so nothing is installed", " ".join(refused.stderr.split()))
        self.assertFalse(prefix.exists())

    def test_what_components_stand_on_is_built_too(self):
        build = WORK / "planner_build"
        done("cmake", "-S", SOURCE, "-B", build, "-G", "Ninja", "-DSLUICE_COMPONENTS=planner",
             *without(["OpenMP", "dnnl", "hwy", "OpenSSL", "ICU", "PkgConfig", "CLI11", "MPI", "CUDAToolkit"]))
        self.assertEqual(self.libraries(build),
                         {f"libsluice_{room}.a" for room in (
                             "schedules", "optimise", "spec", "failpoints", "files", "layers", "compile", "checkpoint_files",
                             "partitioner", "roofline", "planning", "errors", "kernel_record", "no_kernels",
                             "no_profiling")})
        refused = run("cmake", "-S", SOURCE, "-B", WORK / "refused_build", "-DSLUICE_COMPONENTS=planer")
        self.assertNotEqual(refused.returncode, 0)
        self.assertIn("'planer' is no component; there are:", " ".join(refused.stderr.split()))

    def test_the_python_package_needs_little_more(self):
        # As pip configures it (pyproject.toml).
        build = WORK / "python_build"
        done("cmake", "-S", SOURCE, "-B", build, "-G", "Ninja", "-DSLUICE_COMPONENTS=planner", "-DSLUICE_PYTHON=ON",
             *without(["OpenMP", "dnnl", "hwy", "OpenSSL", "ICU", "PkgConfig", "MPI", "CUDAToolkit", "tomlplusplus"]))
        self.assertIn("libsluice_planning.a", self.libraries(build))


class Program(unittest.TestCase):
    def test_is_installed_whole_or_not_at_all(self):
        build, prefix = WORK / "program_build", WORK / "half_built"
        done("cmake", "-S", SOURCE, "-B", build, "-G", "Ninja")
        targets = done("ninja", "-C", build, "-t", "targets", "all").splitlines()
        for archive in (line.split(":")[0] for line in targets if ".a:" in line):
            (build / archive).touch()
        # The first is written once the manual pages and completions are.
        for missing in ("tools/about/done", "tools/sluice"):
            (build / missing).parent.mkdir(exist_ok=True)
            for part in ([], ["--component", "program"]):
                refused = run("cmake", "--install", build, "--prefix", prefix, *part)
                self.assertNotEqual(refused.returncode, 0)
                self.assertIn(f"{missing} is not built yet, so nothing is installed", " ".join(refused.stderr.split()))
                self.assertFalse(prefix.exists())
            (build / missing).touch()

    def test_runs_where_it_is_installed(self):
        self.assertIn("1f1b", done(PREFIX / "bin" / "sluice", "schedule", "list"))

    def test_brings_its_manual_pages_and_completions(self):
        share = PREFIX / "share"
        for file in ("man/man1/sluice.1", "man/man1/sluice-schedule-show.1", "bash-completion/completions/sluice",
                     "zsh/site-functions/_sluice", "fish/vendor_completions.d/sluice.fish"):
            self.assertGreater((share / file).stat().st_size, 100, file)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1] + sys.argv[3:])
