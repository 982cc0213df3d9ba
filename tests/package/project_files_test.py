"""What stands beside the sources says what is so: THIRD_PARTY.md, CITATION.cff, CHANGELOG.md, CONTRIBUTING.md."""

import pathlib
import re
import subprocess
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
# Debian's names of licences, as SPDX has them.
SPDX = {"Expat": "MIT", "Expat with embedded exception": "MIT", "BSD-3-clause": "BSD-3-Clause", "BSD-2-clause": "BSD-2-Clause",
        "BSD-C3": "BSD-3-Clause", "GPL-2+": "GPL-2.0-or-later", "GPL-3+": "GPL-3.0-or-later", "LGPL-2+": "LGPL-2.0-or-later",
        "BSD-2-Clause-alike": "BSD-2-Clause", "BSD-3-Clause+CLA": "BSD-3-Clause", "GPL-2": "GPL-2.0-only", "OpenSSH": "SSH-OpenSSH",
        "APACHE-2-LLVM-EXCEPTIONS": "Apache-2.0 WITH LLVM-exception",
        "BSD-3-clause-Cambridge with BINARY LIBRARY-LIKE PACKAGES exception": "BSD-3-Clause"}


def read(name):
    return (ROOT / name).read_text()


def rows():
    """The rows of THIRD_PARTY.md's tables, each a list of cells."""
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in read("THIRD_PARTY.md").splitlines()
            if line.startswith("| ")]


class ThirdParty(unittest.TestCase):
    def test_every_package_of_setup_has_a_row(self):
        packages = subprocess.run([ROOT / "tools/setup", "--docs", "--list"], capture_output=True, text=True,
                                  check=True).stdout.split()
        self.assertGreater(len(packages), 35)
        named = [name for row in rows() for name in re.findall(r"`([^`]+)`", row[0])]
        self.assertEqual(sorted(named), sorted(set(named)))
        for package in packages:
            self.assertIn(package, named, "add a row to THIRD_PARTY.md")

    def test_every_package_that_cmake_finds_has_a_row(self):
        components = read("tools/cmake/SluiceComponents.cmake")
        found = set(re.findall(r"find_package\((\w+)", read("tools/cmake/SluiceDependencies.cmake") +
                               read("tools/cmake/SluiceCuda.cmake")))
        for words in re.findall(r"set\(SLUICE_PACKAGES_\w+ ([^)]*)\)", components):
            found |= {word.strip('"').split()[0] for word in re.findall(r'"[^"]+"|\S+', words)}
        found |= {word.split("=")[0] for word in re.findall(r"set\(SLUICE_MODULES_\w+ ([^)]*)\)", components)}
        self.assertGreater(len(found), 12)
        named = {name for row in rows() for cell in row[:2] for name in re.findall(r"`([^`]+)`", cell)}
        self.assertEqual(found - named, set(), "add a row to THIRD_PARTY.md")

    def test_licences_are_those_of_the_packages(self):
        """Of what is installed here, and has a copyright file that a program can read."""
        compared = 0
        for row in rows():
            licence = row[2] if len(row) == 5 else row[1]
            for package in re.findall(r"`([^`]+)`", row[0]):
                copyright_file = pathlib.Path("/usr/share/doc") / package / "copyright"
                if not copyright_file.exists():
                    continue
                main = re.search(r"^Files: \*\n(?:.*\n)*?License: (.*)", copyright_file.read_text(errors="replace"), re.MULTILINE)
                if main:
                    self.assertIn(SPDX.get(main.group(1), main.group(1)), licence, package)
                    compared += 1
        self.assertGreater(compared, 8)


class Others(unittest.TestCase):
    def test_version(self):
        version = re.search(r"project\(sluice VERSION ([\d.]+)", read("CMakeLists.txt")).group(1)
        self.assertIn(f"\nversion: {version}\n", read("CITATION.cff"))
        self.assertEqual(re.search(r"^## ([\d.]+)", read("CHANGELOG.md"), re.MULTILINE).group(1), version)

    def test_links_lead_somewhere(self):
        for name in ("CONTRIBUTING.md", "CHANGELOG.md", "THIRD_PARTY.md", "examples/README.md"):
            for link in re.findall(r"\]\(([^)#]+)\)", read(name)):
                self.assertTrue(((ROOT / name).parent / link).exists(), f"{name}: {link}")

    def test_container_runs_what_there_is(self):
        containerfile = read("Containerfile")
        self.assertIn("tools/setup --lean", containerfile)
        preset = re.search(r"cmake --preset (\w+)", containerfile).group(1)
        self.assertIn(f'"name": "{preset}"', read("CMakePresets.json"))


if __name__ == "__main__":
    unittest.main()
