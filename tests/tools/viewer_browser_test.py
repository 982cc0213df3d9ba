#!/usr/bin/env python3
"""Opens the pages of `sluice schedule show --format html` in a headless Chromium and uses them like a person.

    viewer_browser_test.py SLUICE [case...]

Skips with a line where there is no Chromium (tools/setup installs it). With SLUICE_SCREENSHOTS=FOLDER it leaves pictures
there to look at. Reports to tools/test like a GoogleTest binary (GTEST_OUTPUT, GTEST_FILTER).
"""

import fnmatch
import json
import os
import pathlib
import random
import statistics
import subprocess
import sys
import tempfile
import time
import unittest
import xml.etree.ElementTree

from chromium import Chromium, find_chromium

BLUE, ORANGE = (0, 114, 178), (230, 159, 0)  # F and B, as in schedules/viewer/look.js
SLUICE = ""


class Page:
    """A page of one or two schedules, and the output of `--json --actions` for the first."""

    def __init__(self, browser, folder, show, more="", against=""):
        self.path = os.path.join(folder, "page.html")
        subprocess.run([SLUICE, "schedule", "show", *show.split(), *more.split(), *against.split(), "--format", "html", "-o",
                        self.path], check=True, timeout=120)
        answer = subprocess.run([SLUICE, "schedule", "show", *show.split(), "--json", "--actions"], check=True, timeout=120,
                                capture_output=True)
        self.truth = json.loads(answer.stdout)
        self.browser = browser
        self.open_seconds = browser.open(self.path)
        browser.frame()

    def actions(self):
        """(rank, position, action) of every computation."""
        for rank, row in enumerate(self.truth["rank_actions"]):
            for position, action in enumerate(row):
                yield rank, position, action

    def place(self, rank, time, layer=0, panel=0):
        """The place in the window of a time on a rank."""
        return self.browser.run(f"""(() => {{
            const panel = viewer.panels[{panel}];
            const box = panel.canvas.getBoundingClientRect();
            const bars = panel.lane({rank}).bars[{layer}];
            return [box.left + panel.x({time}), box.top + bars.y + bars.height / 2];
        }})()""")

    def hover(self, *place):
        self.browser.mouse("mouseMoved", *place)
        return self.browser.run("document.getElementById('card').hidden ? '' : document.getElementById('card').innerText")

    def shown(self):
        return self.browser.run("[viewer.view.from, viewer.view.to]")

    def settle(self):
        """Waits until an animation is over."""
        for _ in range(100):
            self.browser.frame()
            if self.browser.run("!viewer.view.gliding"):
                return

    def pixel(self, x, y):
        """The colour on the first panel's canvas at a place in the window."""
        return tuple(self.browser.run(f"""(() => {{
            const canvas = viewer.panels[0].canvas;
            const box = canvas.getBoundingClientRect();
            return [...canvas.getContext('2d').getImageData({x} - box.left, {y} - box.top, 1, 1).data].slice(0, 3);
        }})()"""))


def name_of(action):
    return f"{action['stage']}{action['op']}{action['micro_batch']}"


class Viewer(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.browser = cls.enterClassContext(Chromium(1280, 720))
        cls.folder = cls.enterClassContext(tempfile.TemporaryDirectory())

    def open(self, show, **more):
        page = Page(self.browser, self.folder, show, **more)
        self.addCleanup(self.look, self.id().rsplit(".", 1)[-1])
        return page

    def look(self, name):
        """The page had no errors and loaded nothing else; saves a picture."""
        if os.environ.get("SLUICE_SCREENSHOTS"):
            self.browser.screenshot(os.path.join(os.environ["SLUICE_SCREENSHOTS"], f"{name}.png"))
        complaints = [text for text in self.browser.complaints() if "getImageData" not in text]  # pixels that we read here
        self.assertEqual(complaints, [])
        self.assertTrue(all(url.startswith("file:///") and url.endswith(".html") for url in self.browser.requests()))
        self.assertEqual(len(self.browser.requests()), 1)

    def test_heading_says_what_the_command_says(self):
        page = self.open("1f1b -p 4 -m 8")
        header = self.browser.run("document.querySelector('section header').innerText")
        for text in ("1f1b: 4 ranks, 8 micro-batches", "makespan 33", "bubble 27.3%", "span bubble 27.3%", "bound 27", "gap 22.2%"):
            self.assertIn(text, " ".join(header.split()))
        self.assertEqual(page.shown(), [0, 33])

    def test_card_tells_times_and_why(self):
        """Against the command's JSON, with the reasons worked out again here."""
        page = self.open("interleaved -p 4 -m 8 -v 2 --cost F=1,B=2,send=0.25")
        ended = {name_of(a): a["end"] for _, _, a in page.actions()}
        held = {name_of(a): rank for rank, _, a in page.actions()}
        chosen = random.Random(5).sample(list(page.actions()), 40)
        waits = 0
        for rank, position, action in chosen:
            card = page.hover(*page.place(rank, (action["start"] + action["end"]) / 2))
            lines = card.split("\n")
            self.assertTrue(lines[0].startswith(name_of(action)), card)
            self.assertIn(f"start\t{action['start']:g}", lines)
            self.assertIn(f"end\t{action['end']:g}", lines)
            self.assertIn(f"duration\t{action['end'] - action['start']:g}", lines)
            before = page.truth["rank_actions"][rank][position - 1] if position > 0 else None
            idle = action["start"] - (before["end"] if before else 0)
            if idle == 0:
                if before:
                    self.assertIn(f"Waited for {name_of(before)}, before it on this rank; no idle time.", lines)
                continue
            waits += 1
            from_stage = action["stage"] + (-1 if action["op"] == "F" else 1)
            producer = f"{from_stage}{action['op']}{action['micro_batch']}"
            self.assertIn(f"Rank {rank} was idle for {idle:g} before it.", lines)
            self.assertIn(f"Waited for {producer} on rank {held[producer]}, which ended at {ended[producer]:g}; its message took "
                          f"{action['start'] - ended[producer]:g}.", lines)
        self.assertGreater(waits, 3)

    def test_card_tells_of_busy_links(self):
        """Messages of rank 0 take 2 each, one after the other, though F takes 1."""
        costs = pathlib.Path(self.folder, "costs.json")
        costs.write_text(json.dumps({"F": [1, 1], "B": [2, 2], "send": 0, "send_bytes": [2], "bandwidth": 1}))
        page = self.open(f"gpipe -p 2 -m 4 --costs {costs}")
        third = next(a for rank, _, a in page.actions() if name_of(a) == "1F2")
        self.assertEqual(third["start"], 1 + 3 * 2)
        card = page.hover(*page.place(1, third["start"] + 0.5))
        self.assertIn("Waited for 0F2 on rank 0, which ended at 3; its message took 4, 2 of it waiting for the link.", card)

    def test_card_of_a_bubble_and_of_memory(self):
        page = self.open("1f1b -p 4 -m 8 --memory-limit 4")
        self.assertIn("bubble, rank 0\nstart\t4\nend\t10\nduration\t6", page.hover(*page.place(0, 7)))
        x, y = page.place(0, 7)
        below = self.browser.run("viewer.panels[0].lane(0).memory.y - viewer.panels[0].lane(0).bars[0].y "
                                 "- viewer.panels[0].lane(0).bars[0].height / 2")
        card = page.hover(x, y + below + 3)
        for line in ("activations held, rank 0", "held\t4", "peak\t4", "limit\t4"):
            self.assertIn(line, card.split("\n"))
        self.browser.mouse("mouseMoved", x=5, y=5)
        self.assertTrue(self.browser.run("document.getElementById('card').hidden"))

    def test_bars_are_where_their_times_are(self):
        page = self.open("1f1b -p 4 -m 8")
        colours = {"F": BLUE, "B": ORANGE}
        for rank, _, action in page.actions():
            x, y = page.place(rank, action["start"] + 0.15 * (action["end"] - action["start"]))
            self.assertEqual(page.pixel(x, y - 12), colours[action["op"]], name_of(action))

    def test_many_bars_become_their_density(self):
        """The share of a lane's pixels in a kind's colour is that kind's share of the time."""
        page = self.open("1f1b -p 4 -m 2000")
        self.assertGreater(len(page.truth["rank_actions"][0]), 2 * 1280)
        for rank, row in enumerate(page.truth["rank_actions"]):
            counts = self.browser.run(f"""(() => {{
                const panel = viewer.panels[0];
                const bars = panel.lane({rank}).bars[0];
                const pixels = panel.canvas.getContext('2d').getImageData(GUTTER, bars.y, panel.chartWidth(), bars.height).data;
                let [blue, orange] = [0, 0];
                for (let i = 0; i < pixels.length; i += 4) {{ // the grid's lines darken some
                  if (pixels[i] < 20) ++blue;
                  if (pixels[i] > 190 && pixels[i + 2] < 20) ++orange;
                }}
                return [blue * 4 / pixels.length, orange * 4 / pixels.length];
            }})()""")
            for share, op in zip(counts, "FB"):
                truth = sum(a["end"] - a["start"] for a in row if a["op"] == op) / page.truth["makespan"]
                self.assertAlmostEqual(share, truth, delta=0.02)

    def test_wheel_zooms_about_the_pointer_and_drag_moves(self):
        page = self.open("zb-h1 -p 4 -m 8")
        x, y = page.place(1, 9)
        at = f"viewer.panels[0].timeAt({x} - viewer.panels[0].canvas.getBoundingClientRect().left)"
        for delta in (-300, -200, 150):
            width = page.shown()[1] - page.shown()[0]
            self.browser.mouse("mouseWheel", x, y, deltaX=0, deltaY=delta)
            self.browser.frame()
            self.assertAlmostEqual(self.browser.run(at), 9, places=6)
            self.assertEqual(page.shown()[1] - page.shown()[0] < width, delta < 0)
        before = self.browser.run(at)
        self.browser.mouse("mousePressed", x, y, button="left", buttons=1, clickCount=1)
        self.browser.mouse("mouseMoved", x + 60, y, button="left", buttons=1)
        self.browser.mouse("mouseReleased", x + 60, y, button="left", clickCount=1)
        self.browser.frame()
        self.assertAlmostEqual(self.browser.run(at.replace(str(x), str(x + 60), 1)), before, places=6)
        self.assertLess(self.browser.run(at), before)

    def test_keys_and_buttons(self):
        page = self.open("1f1b -p 4 -m 8")

        def after(act):
            act()
            page.settle()
            return page.shown()

        self.assertEqual(page.shown(), [0, 33])
        start, end = after(lambda: self.browser.key("+"))
        self.assertAlmostEqual(end - start, 33 / 1.6)
        self.assertGreater(after(lambda: self.browser.key("ArrowRight"))[0], start)
        self.assertAlmostEqual(after(lambda: self.browser.key("ArrowLeft"))[0], start)
        self.assertAlmostEqual(after(lambda: self.browser.key("-"))[1], 33)
        after(lambda: self.browser.run("document.getElementById('in').click()"))
        self.assertLess(page.shown()[1], 33)
        self.assertEqual(after(lambda: self.browser.key("0")), [0, 33])
        after(lambda: self.browser.run("viewer.view.show(-5, 1e9)"))
        self.assertEqual(page.shown(), [0, 33])

    def test_critical_path_is_the_command_s(self):
        page = self.open("1f1b -p 4 -m 8 --cost F=1,B=2,send=0.2")
        names = self.browser.run("viewer.panels[0].criticalPath().map((i) => viewer.panels[0].layers[0].actionName(i))")
        self.assertEqual(names, [name_of(action) for action in page.truth["critical_path"]])
        critical = {*names}
        x, y = next(page.place(r, a["start"] + 0.1) for r, _, a in page.actions() if name_of(a) not in critical and a["op"] == "F")
        self.assertEqual(page.pixel(x, y - 12), BLUE)
        self.browser.key("c")
        self.browser.frame()
        self.assertNotEqual(page.pixel(x, y - 12), BLUE)
        self.assertEqual(self.browser.run("document.getElementById('path').getAttribute('aria-pressed')"), "true")

    def test_memory_curves_reach_the_peaks(self):
        for show in ("gpipe -p 4 -m 8", "1f1b -p 4 -m 8", "zb-h1 -p 4 -m 8", "interleaved -p 4 -m 8 -v 2"):
            page = self.open(show)
            peaks = self.browser.run("viewer.panels[0].about.peakActivations.map((_, r) => viewer.panels[0].curve(r).peak)")
            self.assertEqual(peaks, page.truth["peak_activations"])
            times = [time + 0.5 for time in range(int(page.truth["makespan"]))]
            for rank, row in enumerate(page.truth["rank_actions"]):
                held = [sum(a["op"] == "F" and a["start"] <= time for a in row) -
                        sum(a["op"] in "BW" and a["end"] <= time for a in row) for time in times]
                self.assertEqual(self.browser.run(
                    f"{times}.map((time) => viewer.panels[0].curve({rank}).valueAt(time / viewer.panels[0].layers[0].tick))"), held)

    def test_memory_in_bytes_with_a_limit(self):
        costs = pathlib.Path(self.folder, "costs.json")
        costs.write_text(json.dumps({"F": [1] * 4, "I": [1] * 4, "W": [1] * 4, "activation_bytes": [2**20] * 4,
                                     "weight_grad_bytes": [2**18] * 4, "device_memory": [2**22] * 4}))
        page = self.open(f"zb-h1 -p 4 -m 8 --costs {costs}")
        peaks = self.browser.run("viewer.panels[0].about.peakActivations.map((_, r) => viewer.panels[0].curve(r).peak)")
        self.assertEqual(peaks, page.truth["peak_bytes"])
        self.assertEqual(self.browser.run("viewer.panels[0].memoryLimit(2)"), 2**22)

    def test_memory_of_what_is_recomputed(self):
        table = pathlib.Path(self.folder, "recompute.csv")
        table.write_text("0F0,0F1,0RECOMPUTE0,0B0,0RECOMPUTE1,0B1\n")
        costs = pathlib.Path(self.folder, "costs.json")
        costs.write_text(json.dumps({"F": [1], "B": [2], "activation_bytes": [1000]}))
        page = self.open(f"{table} --costs {costs}")
        # F0's activations are dropped when F1 starts, and rebuilt for B0.
        self.assertEqual(self.browser.run("Array.from(viewer.panels[0].curve(0).values)"), [1000, 1000, 1000, 1000, 0])
        self.assertEqual(self.browser.run("viewer.panels[0].curve(0).peak"), page.truth["peak_bytes"][0])

    def test_two_schedules_share_the_time_axis(self):
        page = self.open("1f1b -p 4 -m 8", against="--against zb-h1")
        self.assertEqual(self.browser.run("viewer.panels.map((panel) => panel.about.title)"),
                         ["1f1b: 4 ranks, 8 micro-batches", "zb-h1: 4 ranks, 8 micro-batches"])
        x, y = page.place(1, 9, panel=1)
        self.browser.mouse("mouseWheel", x, y, deltaX=0, deltaY=-400)
        self.browser.frame()
        places = self.browser.run("viewer.panels.map((panel) => [panel.x(9), panel.x(12)])")
        self.assertEqual(places[0], places[1])
        self.assertLess(page.shown()[1] - page.shown()[0], 33)
        self.assertIn("gradient of micro-batch", page.hover(*page.place(1, 9.5, panel=1)))  # 1F1B does not split it

    def test_a_measured_run_under_its_plan(self):
        """A made-up trace: every action 10 % longer than planned, and all of it 1.5 s late."""
        plan = subprocess.run([SLUICE, *"schedule show 1f1b -p 2 -m 4 --cost F=1,B=2 --json --actions".split()], check=True,
                              capture_output=True)
        events = [{"name": name_of(a), "ph": "X", "tid": rank, "ts": 1e6 * (1.5 + 1.1 * a["start"]),
                   "dur": 1e6 * 1.1 * (a["end"] - a["start"]),
                   "args": {"step": 3, "stage": a["stage"], "micro_batch": a["micro_batch"]}}
                  for rank, row in enumerate(json.loads(plan.stdout)["rank_actions"]) for a in row]
        trace = pathlib.Path(self.folder, "trace.json")
        trace.write_text(json.dumps({"traceEvents": events}))
        page = self.open("1f1b -p 2 -m 4 --cost F=1,B=2", more=f"--measured {trace}")
        self.assertIn("measured (step 3) 16.50 s", self.browser.run("document.querySelector('.facts').innerText").replace("\u00a0", " "))
        for layer in (0, 1):  # 1B1 is planned from 5 to 7: hovering either bar compares both
            card = page.hover(*page.place(1, 6, layer=layer)).split("\n")
            self.assertTrue(card[0].startswith("1B1"), card)
            self.assertIn("start\t5.000 s\t5.500 s\t+500.0 ms", card)
            self.assertIn("duration\t2.000 s\t2.200 s\t+10.0%", card)
        fitted = self.open("1f1b -p 2 -m 4", more=f"--measured {trace}")  # the plan from the run's own durations
        self.assertAlmostEqual(self.browser.run("viewer.panels[0].about.makespan"), 16.5, places=6)
        self.assertIsNotNone(fitted)

    def test_a_gradient_that_leaves_early_comes_before_its_use(self):
        """In a real run 0B0 may start while 1B0 still computes its last weights' gradient."""
        rows = [("0F0", 0, 0, 1), ("1F0", 1, 1, 2), ("1B0", 1, 2, 4.5), ("0B0", 0, 4, 6)]
        events = [{"name": name, "ph": "X", "tid": rank, "ts": 1e6 * start, "dur": 1e6 * (end - start),
                   "args": {"step": 1, "stage": rank, "micro_batch": 0}} for name, rank, start, end in rows]
        trace = pathlib.Path(self.folder, "trace.json")
        trace.write_text(json.dumps({"traceEvents": events}))
        page = self.open("1f1b -p 2 -m 1", more=f"--measured {trace}")
        card = page.hover(*page.place(0, 5.9, layer=1))
        self.assertIn("Rank 0 was idle for 3.000 s before it.", card)
        self.assertIn("Waited for 1B0 on rank 1, which passed its result on before its own end at 4.500 s.", card)
        self.assertIn("planned: this schedule with the median durations of the run",
                      self.browser.run("document.querySelector('.facts').innerText"))

    def test_what_is_compared_is_drawn_alike(self):
        """On both panels bars or densities, numbers or names, and no closer than one action."""
        self.open("1f1b -p 4 -m 180", against="--against zb-h1")
        drawn = "viewer.panels.map((panel) => [panel.dense, panel.named])"
        self.assertEqual(self.browser.run("viewer.panels.map((panel) => panel.isCrowded())"), [False, True])
        self.assertEqual(self.browser.run(drawn), [[True, False]] * 2)
        for width, state in ((40, [False, False]), (10, [False, True])):
            self.browser.run(f"viewer.view.show(100, {100 + width})")
            self.browser.frame()
            self.assertEqual(self.browser.run(drawn), [state] * 2)
        self.browser.run("viewer.view.show(100, 100.001)")
        self.assertEqual(self.browser.run("viewer.view.to - viewer.view.from"), 1)

    def test_what_is_shown_can_be_saved_as_svg(self):
        """The saved picture has the bars that are shown, where they are on the canvas, and reads as XML."""
        table = pathlib.Path(self.folder, "a<b>&.csv")
        subprocess.run([SLUICE, *"schedule show zb-h1 -p 4 -m 8 --format csv -o".split(), table], check=True)
        self.open(f"{table} -p 4 -m 8", against="--against 1f1b")
        self.browser.key("c")
        self.browser.run("viewer.view.show(4, 16)")
        self.browser.frame()
        self.browser.call("Browser.setDownloadBehavior", behavior="allow", downloadPath=self.folder)
        self.browser.key("s")
        saved = pathlib.Path(self.folder, "a-b-.csv-and-1f1b.svg")
        shown = self.browser.run("savedPage(viewer.panels)")
        text = ""
        deadline = time.monotonic() + 20
        while text != shown and time.monotonic() < deadline:  # the browser makes the file before it fills it
            self.browser.frame()
            text = saved.read_text(encoding="utf-8") if saved.exists() else ""
        self.assertEqual(text, shown)
        svg = xml.etree.ElementTree.fromstring(text)
        inner = [part for part in svg if part.tag.endswith("}svg")]
        self.assertEqual(len(inner), 2)
        for number, panel in enumerate(inner):
            boxes = [[float(bar.get(key)) for key in ("x", "y", "width", "height")] for bar in panel if bar.tag.endswith("}rect")]
            places = self.browser.run(f"""(() => {{
                const panel = viewer.panels[{number}];
                const layer = panel.layers[0];
                const places = [];
                for (let rank = 0; rank < 4; ++rank) {{
                  const [first, end] = panel.visibleActions(layer, rank);
                  for (let i = first; i < end; ++i) {{
                    const box = panel.barBox(layer, i, panel.lane(rank).bars[0]);
                    const left = Math.max(box.x, GUTTER);
                    places.push([left, box.y, Math.min(box.x + box.width, panel.right()) - left, box.height]);
                  }}
                }}
                return places;
            }})()""")
            self.assertGreater(len(places), 20)
            for place in places:
                self.assertTrue(any(all(abs(a - b) < 0.01 for a, b in zip(place, box)) for box in boxes), place)
        texts = [text.text for text in svg.iter() if text.tag.endswith("}text")]
        self.assertIn("a<b>&.csv: 4 ranks, 8 micro-batches", texts)
        for text in ("rank 3", "forward", "weight gradient", "bubble"):
            self.assertIn(text, texts)
        if os.environ.get("SLUICE_SCREENSHOTS"):
            pathlib.Path(os.environ["SLUICE_SCREENSHOTS"], "saved.svg").write_text(text, encoding="utf-8")

    def test_names_are_only_text(self):
        name = """"><img src=x onerror=alert(1)>'&{{data}}.csv"""
        path = pathlib.Path(self.folder, name)
        subprocess.run([SLUICE, *"schedule show gpipe -p 2 -m 2 --format csv -o".split(), path], check=True)
        html = os.path.join(self.folder, "page.html")
        subprocess.run([SLUICE, "schedule", "show", path, "--format", "html", "-o", html], check=True)
        self.browser.open(html)
        self.assertEqual(self.browser.run("document.querySelector('h1').textContent"), f"{name}: 2 ranks, 2 micro-batches")
        self.assertEqual(self.browser.run("document.images.length"), 0)
        self.look("names")

    def test_dark_light_and_print(self):
        page = self.open("1f1b -p 4 -m 8")
        self.assertEqual(page.pixel(*page.place(0, -1)), (255, 255, 255))
        self.browser.key("t")
        self.browser.frame()
        self.assertLess(max(page.pixel(*page.place(0, -1))), 60)
        self.browser.call("Emulation.setEmulatedMedia", media="print")
        self.addCleanup(self.browser.call, "Emulation.setEmulatedMedia", media="")
        self.browser.frame()
        self.assertEqual(page.pixel(*page.place(0, -1)), (255, 255, 255))
        self.assertEqual(self.browser.run("getComputedStyle(document.getElementById('tools')).display"), "none")

    def test_a_million_actions(self):
        page = os.path.join(self.folder, "page.html")
        subprocess.run([SLUICE, *"schedule show interleaved -p 32 -m 2048 -v 8 --format html -o".split(), page], check=True, timeout=200)
        self.assertLess(os.path.getsize(page), 30e6)
        seconds = self.browser.open(page)
        self.assertGreater(self.browser.run("viewer.panels[0].layers[0].size"), 1e6)
        self.assertLess(seconds, 100)  # no measure of speed: only that it is not hopeless
        draws = {}
        for part in (1, 0.1, 0.01, 0.001):
            draws[part] = min(statistics.median(self.browser.run(f"""(async () => {{
                const width = {part} * viewer.view.whole;
                viewer.view.show(0.4 * viewer.view.whole, 0.4 * viewer.view.whole + width);
                const times = [];
                for (let k = 0; k < 15; ++k) {{
                  viewer.view.pan(0.01 * width);
                  await new Promise(requestAnimationFrame);
                  await new Promise(requestAnimationFrame);
                  times.push(viewer.lastDraw);
                }}
                return times;
            }})()""")) for _ in range(3))
        print(f"a million actions: open {seconds:.2f} s; median redraw in ms by part shown: {draws}")
        self.assertLess(max(draws.values()), 500)  # to draw each of them takes seconds
        self.look("million")


class Report(unittest.TextTestResult):
    """Keeps what became of each case, as GoogleTest's JSON has it."""

    def __init__(self, *args, **more):
        super().__init__(*args, **more)
        self.cases = {}

    def startTest(self, test):
        super().startTest(test)
        self.cases[test.id().rsplit(".", 1)[-1]] = {"result": "COMPLETED"}

    def stopTest(self, test):
        super().stopTest(test)
        bad = [text for failed, text in self.failures + self.errors if failed is test]
        if bad:
            self.cases[test.id().rsplit(".", 1)[-1]]["failures"] = bad


def write_report(cases):
    """`cases` where GTEST_OUTPUT=json:FOLDER/ asks for it."""
    kind, _, folder = os.environ.get("GTEST_OUTPUT", "").partition(":")
    if kind != "json" or not folder.endswith("/"):
        return
    suite = [{"name": name.removeprefix("test_"), "status": "RUN", **case} for name, case in cases.items()]
    pathlib.Path(folder, "viewer_browser_test.json").write_text(
        json.dumps({"testsuites": [{"name": "Viewer", "testsuite": suite}]}))


def wanted(name):
    """GTEST_FILTER's patterns: `Viewer.card*`."""
    positive, _, negative = os.environ.get("GTEST_FILTER", "*").partition("-")
    full = f"Viewer.{name.removeprefix('test_')}"
    return any(fnmatch.fnmatchcase(full, p) for p in (positive or "*").split(":")) and not any(
        fnmatch.fnmatchcase(full, p) for p in negative.split(":") if p)


def main():
    names = [name for name in unittest.TestLoader().getTestCaseNames(Viewer) if wanted(name)]
    if sys.argv[2:]:
        names = [name for name in names if name.removeprefix("test_") in sys.argv[2:]]
    if find_chromium() is None:
        print("skipped: there is no Chromium here (tools/setup installs it; SLUICE_CHROMIUM names another)")
        write_report({name: {"result": "SKIPPED"} for name in names})
        return 0
    result = unittest.TextTestRunner(resultclass=Report, verbosity=2).run(unittest.TestSuite(map(Viewer, names)))
    cases = dict(result.cases)
    if not result.wasSuccessful() and not any("failures" in case for case in cases.values()):
        cases["test_browser_starts"] = {"result": "COMPLETED", "failures": ["see above"]}
    write_report(cases)
    return 0 if result.wasSuccessful() else 1


if __name__ == "__main__":
    SLUICE = os.path.abspath(sys.argv[1])
    sys.exit(main())
