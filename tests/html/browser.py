"""A page of `opgap html` in Chromium, for the tests and for the pictures in docs/html."""
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time


def skip(reason):
    print("skipped: " + reason)
    sys.exit(77)


try:
    from selenium import webdriver
    from selenium.webdriver.chrome.service import Service
except ImportError:
    skip("no Selenium for %s (Debian: python3-selenium)" % sys.executable)

CHROMIUM, DRIVER = shutil.which("chromium"), shutil.which("chromedriver")


def need_browser():
    if CHROMIUM is None or DRIVER is None:
        skip("no Chromium or no driver for it (Debian: chromium, chromium-driver)")


def clean_environment(**more):
    environment = {k: v for k, v in os.environ.items() if not k.startswith("OPGAP_") and k != "LD_PRELOAD"}
    environment.update(more)
    return environment


class Page:
    """A page, opened from disk at a given width and height."""

    def __init__(self, path, width=1400, height=900, dark=False):
        need_browser()
        options = webdriver.ChromeOptions()
        options.binary_location = CHROMIUM
        self.profile = tempfile.mkdtemp(prefix="opgap-chromium-")
        for argument in ("--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--no-first-run",
                         "--disable-background-networking", "--hide-scrollbars", "--user-data-dir=" + self.profile):
            options.add_argument(argument)
        options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
        self.driver = webdriver.Chrome(service=Service(DRIVER), options=options)
        self.driver.set_script_timeout(60)
        self.command("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=width < 600)
        self.command("Emulation.setEmulatedMedia",
                     features=[{"name": "prefers-color-scheme", "value": "dark" if dark else "light"}])
        self.driver.get("file://" + os.path.abspath(path))
        self.wait("document.documentElement.dataset.ready === 'yes'")

    def __enter__(self):
        return self

    def __exit__(self, *unused):
        self.driver.quit()
        shutil.rmtree(self.profile, ignore_errors=True)

    def command(self, name, **arguments):
        return self.driver.execute_cdp_cmd(name, arguments)

    def js(self, expression):
        """The value of an expression, by way of JSON so that large integers stay exact."""
        text = self.driver.execute_script("return JSON.stringify(%s)" % expression)
        return None if text is None else json.loads(text)

    def do(self, statement):
        self.driver.execute_script(statement)

    def wait(self, condition, seconds=60):
        end = time.monotonic() + seconds
        while not self.driver.execute_script("return " + condition):
            if time.monotonic() > end:
                raise AssertionError("never came true: %s; the console says %s" % (condition, self.console()))
            time.sleep(0.05)

    def frame(self):
        """Until the page has drawn what was asked for."""
        self.driver.execute_async_script("requestAnimationFrame(() => requestAnimationFrame(() => arguments[0]()))")

    def console(self):
        return [entry["message"] for entry in self.driver.get_log("browser")]

    def mouse(self, kind, x, y, **more):
        self.command("Input.dispatchMouseEvent", type=kind, x=x, y=y, **more)

    def click(self, x, y):
        self.mouse("mousePressed", x, y, button="left", clickCount=1)
        self.mouse("mouseReleased", x, y, button="left", clickCount=1)
        self.frame()

    def press(self, selector):
        """Clicks the middle of an element as a person would."""
        box = self.js("""(() => { const e = document.querySelector(%s); e.scrollIntoView({ block: "center" });
            const b = e.getBoundingClientRect(); return [b.left + b.width / 2, b.top + b.height / 2]; })()""" % json.dumps(selector))
        self.click(*box)

    def key(self, name, code=None, text=None):
        more = {"text": text} if text else {}
        for kind in ("keyDown", "keyUp"):
            self.command("Input.dispatchKeyEvent", type=kind, key=name, code=code or name, **more)
        self.frame()

    def type(self, selector, text):
        self.do("""const e = document.querySelector(%s); e.focus(); e.value = %s;
            e.dispatchEvent(new Event("input", { bubbles: true }))""" % (json.dumps(selector), json.dumps(text)))
        self.frame()


def run(command, **environment):
    done = subprocess.run(command, env=clean_environment(**environment), stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                          timeout=200)
    if done.returncode != 0:
        raise AssertionError("%s: exit status %d: %s" % (command, done.returncode, done.stderr.decode("utf-8", "replace")))
    return done.stdout
