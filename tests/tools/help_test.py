#!/usr/bin/env python3
"""What sluice says of itself: --version, --help, mistyped commands and flags, completion and manual pages.

    tests/tools/help_test.py build/release/tools/sluice

Completion is asked in bash as bash asks, and compared with --help; zsh and fish read their scripts where they are there.
"""
import fcntl
import json
import os
import pathlib
import re
import select
import shutil
import subprocess
import sys
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
SLUICE = sys.argv[1] if len(sys.argv) > 1 else ROOT / "build/release/tools/sluice"


def run(*command, **options):
    return subprocess.run([str(word) for word in command], capture_output=True, text=True, **options)


def sluice(*arguments):
    return run(SLUICE, *arguments)


def printed(*arguments):
    result = sluice(*arguments)
    if result.returncode != 0:
        raise AssertionError(f"sluice {' '.join(arguments)}: exit {result.returncode}: {result.stderr}")
    return result.stdout


def commands_of(text):
    """The names below "Subcommands:"."""
    section = text.split("Subcommands:\n")[1].split("\n\n")[0] if "Subcommands:\n" in text else ""
    return re.findall(r"^  ([a-z]\S*)", section, re.MULTILINE)


def all_commands():
    """Every command as a list of words, with its --help; [] is sluice itself."""
    found, waiting = {}, [()]
    while waiting:
        path = waiting.pop()
        found[path] = printed(*path, "--help")
        waiting += [path + (name,) for name in commands_of(found[path])]
    return found


def options_of(text):
    """Flags by name, with the word after them: "TEXT", "{fp32,bf16}" or "" for one that takes no value."""
    options = {}
    for names, value in re.findall(r"^  (-\S+)(?: (INT|UINT\d*|FLOAT|TEXT|\{\S+\}))?", text, re.MULTILINE):
        for name in names.split(","):
            options[name.split("{")[0]] = value
    return options


HELP = all_commands()


class Launched(unittest.TestCase):
    def test_help_of_what_is_launched(self):
        for flag in ("--help", "-h"):
            self.assertEqual(printed("launch", "--processes", "2", "--", "train", "--data", "x", flag),
                             printed("train", "--help"))


class Version(unittest.TestCase):
    def test_begins_with_the_projects(self):
        version = re.search(r"project\(sluice VERSION ([\d.]+)", (ROOT / "CMakeLists.txt").read_text()).group(1)
        lines = printed("--version").splitlines()
        self.assertEqual(lines[0], f"sluice {version}")
        if (ROOT / ".git").exists() and shutil.which("git"):
            self.assertRegex(lines[1], r"^commit +[0-9a-f]{12}( with changes)?$")

    def test_names_the_libraries(self):
        text = printed("--version")
        for name in ("Abseil", "oneTBB", "oneDNN", "NLopt", "OpenSSL", "ICU", "PCRE2", "zlib"):
            self.assertRegex(text, rf"(?m)^  {name} +\d+[\d.]+$")
        for name in ("MPI", "CUDA", "CUDA driver", "NCCL", "cuDNN"):
            self.assertRegex(text, rf"(?m)^  {name} +(\S.*\d|not in this build|not here)")


class Help(unittest.TestCase):
    def test_help_command(self):
        for path, text in HELP.items():
            self.assertEqual(printed("help", *path), text)

    def test_fits_a_terminal(self):
        for path, text in HELP.items():
            for line in text.splitlines():
                # A long word has a line of its own.
                if " " in line.strip():
                    self.assertLessEqual(len(line), 80, f"{path}: {line}")

    def test_names_are_flags_alone(self):
        """A flag and its negation, without what CLI11 stores for them."""
        for path, text in HELP.items():
            self.assertNotRegex(text, r"(?m)^  -\S+\{(?:true|false)\}", path)
        self.assertRegex(HELP["train",], r"(?m)^  --pack,--no-pack +Fill")

    def test_choices_have_their_default(self):
        """Of a flag that has a value when it is not given, plan and profile say which."""
        for command, flags in {"plan": ("--device", "--seq", "--dtype", "--schedule", "--chunks", "--recompute", "--objective",
                                        "--optimizer", "--zero", "--format", "--micro-batches", "--data-parallel"),
                               "profile": ("--seq", "--dtype", "--optimizer", "--repetitions", "--stages")}.items():
            described = re.split(r"\n  (?=-)", HELP[command,])
            for flag in flags:
                text = next(part for part in described if re.match(rf"{flag}[ ,]", part))
                self.assertIn("default", text, f"{command} {flag}")

    def test_says_where_weights_are_kept(self):
        """With --master-weights they are not always in fp32."""
        self.assertNotIn("always stored in fp32", " ".join(HELP["train",].split()))

    def test_a_model_is_loaded_alike(self):
        """By every command that computes with one that is trained."""
        texts = {re.search(r"(?s)\n  --load (.*?)\n  --", HELP[command,]).group(1) for command in ("sample", "chat", "score")}
        self.assertEqual(len(texts), 1, texts)

    def test_names_every_exit_code(self):
        codes = re.findall(r"^  (\d+) +\S", HELP[()].split("Exit codes:\n")[1], re.MULTILINE)
        self.assertEqual(codes, ["0", "2", "3", "4", "5", "6", "130"])


class Mistyped(unittest.TestCase):
    def refused(self, *arguments):
        result = sluice(*arguments)
        self.assertEqual(result.returncode, 2, result)
        self.assertEqual(result.stdout, "")
        self.assertEqual(result.stderr.count("\n"), 1)
        return result.stderr

    def test_flags(self):
        """The longest flag of every command without its fourth letter, in place of all that is required."""
        for path, text in HELP.items():
            flag = max(options_of(text), key=len)
            message = self.refused(*path, flag[:5] + flag[6:], "1")
            self.assertIn(f"{flag[:5] + flag[6:]} is no flag of '{' '.join(('sluice',) + path)}'; did you mean {flag}?",
                          message)

    def test_what_other_programs_call_flags(self):
        for command, flag, meant in (
                ("train", "--batch-size", "--micro-batch-size or --micro-batches"),
                ("plan", "--batch_size", "--micro-batch-size or --micro-batches or --global-batch"),
                ("train", "--learning-rate", "--lr"), ("train", "--epochs", "--steps"), ("chat", "--seq-len", "--context")):
            self.assertIn(f"{flag} is no flag of 'sluice {command}'; did you mean {meant}? see ",
                          self.refused(command, flag, "8"))

    def test_what_other_programs_call_flags_is_of_flags_that_there_are(self):
        """The second list of each row."""
        rows = re.findall(r"(?s)\{\{([^{}]+)\},\s*\{([^{}]+)\}\}", (ROOT / "tools/help/flags_meant.cc").read_text())
        self.assertGreater(len(rows), 15)
        flags = {flag for text in HELP.values() for flag in options_of(text)}
        for elsewhere, here in rows:
            self.assertLessEqual({f"--{name}" for name in re.findall(r'"([^"]+)"', here)}, flags)

    def test_what_is_launched_follows_dashes(self):
        for given in (("train", "--data", "x"), ("--processes", "2", "train", "--data", "x")):
            self.assertIn("--data is a flag of 'sluice train', and what is launched is written after --, such as "
                          "'sluice launch --processes 2 -- train --data x'; see 'sluice launch --help'",
                          self.refused("launch", *given))
        # Before the dashes is a flag of launch.
        self.assertIn("--no-replann is no flag of 'sluice launch'; did you mean --no-replan?",
                      self.refused("launch", "--no-replann", "--", "train", "--data", "x"))

    def test_what_is_given_twice(self):
        self.assertIn("--data takes one value, and is given 2; leave all but one out; see 'sluice train --help'",
                      self.refused("train", "--data", "a", "--data", "b"))

    def test_what_is_given_nothing(self):
        for flag in ("--zero", "--head-rows", "--threads-per-stage", "--data"):
            self.assertIn(f"{flag} needs a value; see 'sluice train --help'", self.refused("train", f"{flag}="))

    def test_words_that_no_command_takes(self):
        self.assertIn("'gpt2-xl' is a word too many: 'sluice plan' takes one model; leave it out, or put a value that has "
                      "spaces into quotes; see 'sluice plan --help'",
                      self.refused("plan", "gpt2", "gpt2-xl", "--devices", "2"))
        self.assertIn("'God', 'said' are words too many: 'sluice sample' takes flags alone; leave them out, or put ",
                      self.refused("sample", "--load", "out", "--prompt", "And", "God", "said"))
        self.assertIn("'zbv' is a word too many: 'sluice schedule list' takes one schedule; ",
                      self.refused("schedule", "list", "1f1b", "zbv"))

    def test_what_is_like_no_flag(self):
        self.assertIn("--qqqqqqq is no flag of 'sluice plan'; see 'sluice plan --help'",
                      self.refused("plan", "gpt2", "--qqqqqqq"))

    def test_commands(self):
        self.assertIn("'pln' is no command; did you mean 'plan'?", self.refused("pln"))
        self.assertIn("'qqqqqq' is no command; there are: schedule, plan, profile, ", self.refused("qqqqqq"))
        self.assertIn("'shwo' is no command; did you mean 'show'?", self.refused("help", "schedule", "shwo"))
        self.assertIn("'x' is no command: 'plan' has none below it", self.refused("help", "plan", "x"))
        # What only packagers need is not offered.
        self.assertNotIn("manual", self.refused("manul"))

    def test_missing_value(self):
        self.assertIn("--lr needs a value; see 'sluice train --help'", self.refused("train", "--lr"))


class StandardOutput(unittest.TestCase):
    def test_waits_for_the_reader_of_a_pipe_that_somebody_made_non_blocking(self):
        for arguments in (["schedule", "list"], ["schedule", "show", "1f1b", "-p", "8", "-m", "64", "--json"], ["completion", "bash"]):
            reader, writer = os.pipe()
            fcntl.fcntl(writer, fcntl.F_SETPIPE_SZ, 4096)
            os.set_blocking(writer, False)
            with subprocess.Popen([SLUICE, *arguments], stdout=writer, stderr=subprocess.PIPE, text=True) as process:
                os.close(writer)
                select.select([reader], [], [])
                stat = pathlib.Path(f"/proc/{process.pid}/stat")
                while stat.read_text(encoding="ascii").rsplit(") ", 1)[1][0] not in "SZ":  # it waits, or has ended
                    pass
                with open(reader, encoding="utf-8") as file:
                    text = file.read()
                self.assertEqual((process.wait(), process.stderr.read()), (0, ""))
            self.assertEqual(text, printed(*arguments))


class BashCompletion(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory()
        cls.script = pathlib.Path(cls.folder.name) / "sluice.bash"
        cls.script.write_text(printed("completion", "bash"))

    @classmethod
    def tearDownClass(cls):
        cls.folder.cleanup()

    def complete(self, *lines):
        """What bash offers for the last word of each line, a list of words; the lists of all lines, in one bash."""
        asked = "".join(
            "COMP_WORDS=(%s); COMP_CWORD=%d; _sluice; printf '%%s\\t' \"${COMPREPLY[@]}\"; echo\n"
            % (" ".join(f"'{word}'" for word in ("sluice", *line)), len(line)) for line in lines)
        result = run("bash", "--norc", "-c", f"compopt() {{ :; }}; source {self.script}; {asked}", cwd=self.folder.name)
        self.assertEqual(result.stderr, "")
        return [[word for word in line.split("\t") if word] for line in result.stdout.splitlines()]

    def test_commands_and_flags_of_help(self):
        paths = list(HELP)
        for path, offered in zip(paths, self.complete(*[[*path, "-"] for path in paths])):
            self.assertEqual(sorted(offered), sorted(options_of(HELP[path])), path)
        for path, offered in zip(paths, self.complete(*[[*path, ""] for path in paths])):
            if commands_of(HELP[path]):
                self.assertEqual(offered, commands_of(HELP[path]))

    def test_every_choice_of_help(self):
        cases = [(path, flag, value[1:-1].split(",")) for path, text in HELP.items()
                 for flag, value in options_of(text).items() if value.startswith("{")]
        self.assertGreater(len(cases), 10)
        offered = self.complete(*[[*path, flag, ""] for path, flag, _ in cases])
        self.assertEqual(offered, [choices for *_, choices in cases])
        # bash breaks --flag=value into three words.
        offered = self.complete(*[[*path, flag, "=", choices[0]] for path, flag, choices in cases])
        for (_, flag, choices), words in zip(cases, offered):
            self.assertIn(choices[0], words, flag)

    def test_names(self):
        schedules = [row["name"] for row in json.loads(printed("schedule", "list", "--json"))]
        shown, presets, devices, dtype, launched, helped, below, steps = self.complete(
            ["schedule", "show", ""], ["plan", "gpt2"], ["plan", "--device", "a100"], ["plan", "--dtype", ""],
            ["launch", "--processes", "2", "--", "train", "--optimizer", ""], ["help", "pl"], ["help", "schedule", ""],
            ["train", "--steps", ""])
        self.assertLessEqual({"auto", *schedules}, set(shown))
        self.assertEqual(presets, ["gpt2", "gpt2-medium", "gpt2-large", "gpt2-xl"])
        self.assertEqual(devices, ["a100", "a100-40gb"])
        self.assertEqual(dtype, ["fp32", "bf16"])
        self.assertEqual(launched, ["adamw", "sgd"])
        self.assertEqual(helped, ["plan"])
        self.assertEqual(below, commands_of(HELP["schedule",]))
        self.assertEqual(steps, [])

    def test_files(self):
        (pathlib.Path(self.folder.name) / "two words.txt").touch()
        self.assertEqual(self.complete(["train", "--data", "two"]), [["two words.txt"]])

    def test_suggested_values_are_of_options_that_there_are(self):
        rows = re.findall(r'(?m)^ +\{"([a-z ]*)", "([^"]+)", [{n]', (ROOT / "tools/help/suggested_values.cc").read_text())
        self.assertGreater(len(rows), 30)
        for command, option in rows:
            paths = [path for path in HELP if not command or " ".join(path) == command]
            texts = [HELP[path] for path in paths]
            self.assertTrue(any(option in options_of(text) or re.search(rf"(?m)^  {option} TEXT", text)
                                for text in texts), (command, option))


class OtherShells(unittest.TestCase):
    def check(self, shell, *options):
        with tempfile.NamedTemporaryFile("w", suffix=f".{shell}") as script:
            script.write(printed("completion", shell))
            script.flush()
            if not shutil.which(shell):
                self.skipTest(f"there is no {shell}")
            self.assertEqual(run(shell, *options, script.name).stderr, "")

    def test_zsh(self):
        self.check("zsh", "-n")

    def test_fish(self):
        self.check("fish", "--no-execute")

    def test_fish_completes(self):
        if not shutil.which("fish"):
            self.skipTest("there is no fish")
        offered = run("fish", "-c", f"{SLUICE} completion fish | source; complete -C 'sluice plan --dtype '").stdout
        self.assertEqual([line.split("\t")[0] for line in offered.splitlines()], ["bf16", "fp32"])

    def test_help_of_commands(self):
        """Each shell's script has what it offers behind `help schedule`, in its own form."""
        for shell, words in (("zsh", "_sluice_help_schedule() {"),
                             ("fish", '-n "__sluice_in help schedule" -a compare ')):
            self.assertIn(words, printed("completion", shell))


class Manual(unittest.TestCase):
    def test_pages(self):
        groff = shutil.which("groff")
        self.assertTrue(groff, "there is no groff; tools/setup installs groff-base")
        with tempfile.TemporaryDirectory() as folder:
            printed("manual", "-o", folder)
            self.assertEqual({page.name for page in pathlib.Path(folder).iterdir()},
                             {"-".join(("sluice",) + path) + ".1" for path in HELP})
            for path, text in HELP.items():
                page = pathlib.Path(folder) / ("-".join(("sluice",) + path) + ".1")
                shown = run(groff, "-man", "-ww", "-Tutf8", "-P-cbou", page)
                self.assertEqual((shown.returncode, shown.stderr), (0, ""), path)
                words = shown.stdout.replace("\u2010", "-").split()
                for flag in options_of(text):
                    self.assertIn(flag, [word.rstrip(",") for word in words], path)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1] + sys.argv[2:])
