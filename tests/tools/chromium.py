"""A headless Chromium, driven through the DevTools protocol over a pipe: no port, no package but the standard library."""

import base64
import json
import os
import shutil
import subprocess
import tempfile
import time


def find_chromium():
    """The program's path, or None: $SLUICE_CHROMIUM, else what Debian and others call it."""
    names = [os.environ.get("SLUICE_CHROMIUM"), "chromium", "chromium-browser", "google-chrome"]
    return next((path for path in map(shutil.which, filter(None, names)) if path), None)


class Chromium:
    """One page. Use it in a `with`; its events are kept in `events`."""

    def __init__(self, width=1280, height=720, dark=False):
        self.profile = tempfile.TemporaryDirectory(prefix="sluice-chromium-", ignore_cleanup_errors=True)
        self.size = (width, height)
        self.dark = dark
        self.events = []
        self.last_id = 0
        self.unread = b""
        self.session = None

    def __enter__(self):
        to_browser, self.write_end = os.pipe()
        self.read_end, from_browser = os.pipe()
        # The protocol reads descriptor 3 and writes 4. The sandbox needs rights that containers often lack.
        flags = ["--headless=new", "--remote-debugging-pipe", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage",
                 "--no-first-run", "--disable-extensions", "--disable-background-networking", "--disable-component-update",
                 "--hide-scrollbars", "--mute-audio", f"--user-data-dir={self.profile.name}",
                 f"--window-size={self.size[0]},{self.size[1]}", "about:blank"]
        self.process = subprocess.Popen(
            ["sh", "-c", f'exec "$@" 3<&{to_browser} 4>&{from_browser}', "sh", find_chromium(), *flags],
            pass_fds=(to_browser, from_browser), stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL)
        os.close(to_browser)
        os.close(from_browser)
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        self.session = self.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.call(f"{domain}.enable")
        self.call("Emulation.setDeviceMetricsOverride", width=self.size[0], height=self.size[1], deviceScaleFactor=1,
                  mobile=False)
        self.call("Emulation.setEmulatedMedia",
                  features=[{"name": "prefers-color-scheme", "value": "dark" if self.dark else "light"}])
        return self

    def __exit__(self, *_):
        try:
            self.session = None
            self.call("Browser.close")
        except (OSError, RuntimeError):
            self.process.kill()
        self.process.wait(timeout=20)
        os.close(self.write_end)
        os.close(self.read_end)
        self.profile.cleanup()

    def call(self, method, **params):
        """Sends one command and returns its result; keeps the events that come before it."""
        self.last_id += 1
        message = {"id": self.last_id, "method": method, "params": params}
        if self.session:
            message["sessionId"] = self.session
        data = json.dumps(message).encode() + b"\0"
        while data:
            data = data[os.write(self.write_end, data):]
        while True:
            answer = self._read()
            if answer.get("id") == self.last_id:
                if "error" in answer:
                    raise RuntimeError(f"{method}: {answer['error']['message']}")
                return answer["result"]

    def _read(self):
        while b"\0" not in self.unread:
            data = os.read(self.read_end, 1 << 20)
            if not data:
                raise RuntimeError("chromium went away")
            self.unread += data
        message, self.unread = self.unread.split(b"\0", 1)
        message = json.loads(message)
        if "method" in message:
            self.events.append(message)
        return message

    def open(self, path):
        """Opens a file and waits until its scripts have run; returns the seconds that took."""
        start = time.monotonic()
        self.events.clear()
        self.call("Page.navigate", url=f"file://{os.path.abspath(path)}")
        while not any(event["method"] == "Page.loadEventFired" for event in self.events):
            self._read()
        return time.monotonic() - start

    def run(self, expression):
        """The value of a JavaScript expression; awaits promises."""
        answer = self.call("Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True)
        if "exceptionDetails" in answer:
            details = answer["exceptionDetails"]
            raise RuntimeError(details.get("exception", {}).get("description", details["text"]))
        return answer["result"].get("value")

    def frame(self):
        """Waits until two frames were drawn."""
        self.run("new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(() => done(1))))")

    def mouse(self, kind, x, y, **more):
        self.call("Input.dispatchMouseEvent", type=kind, x=x, y=y, **more)

    def key(self, key):
        text = {"text": key} if len(key) == 1 else {}
        self.call("Input.dispatchKeyEvent", type="keyDown", key=key, **text)
        self.call("Input.dispatchKeyEvent", type="keyUp", key=key)

    def complaints(self):
        """Errors and warnings of the page, so far."""
        texts = []
        for event in self.events:
            params = event["params"]
            if event["method"] == "Runtime.exceptionThrown":
                texts.append(params["exceptionDetails"].get("exception", {}).get("description", "exception"))
            if event["method"] == "Runtime.consoleAPICalled" and params["type"] in ("error", "warning"):
                texts.append(str(params["args"]))
            if event["method"] == "Log.entryAdded" and params["entry"]["level"] in ("error", "warning"):
                texts.append(params["entry"]["text"])
        return texts

    def requests(self):
        """The addresses that were asked for, so far."""
        return [event["params"]["request"]["url"] for event in self.events if event["method"] == "Network.requestWillBeSent"]

    def screenshot(self, path):
        data = self.call("Page.captureScreenshot", format="png")["data"]
        with open(path, "wb") as file:
            file.write(base64.b64decode(data))
