"""A headless Chromium, driven over a pipe by its own protocol (DevTools), with nothing but Python.

    with Browser("chromium", directory) as browser:
        browser.open("http://127.0.0.1:8000/")
        browser.click("button")
        browser.wait("document.title === 'Done'")
"""

import base64
import contextlib
import ctypes
import errno
import json
import os
import pathlib
import select
import signal
import socket
import subprocess
import time

FLAGS = ["--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking", "--disable-component-update",
         "--disable-sync", "--disable-dev-shm-usage", "--hide-scrollbars", "--disable-auto-reload", "--remote-debugging-pipe", "--force-prefers-reduced-motion"]

# A connection that was kept from an earlier request was gone before anything of the next one was sent. Seen on machines with many times more work than
# processors. It is learned from the protocol: the page that a person is shown then is empty in a browser that has no windows.
NOT_SENT = "net::ERR_SOCKET_NOT_CONNECTED"

LIBC, PR_SET_PDEATHSIG = ctypes.CDLL(None), 1


def deaf_to_addresses():
    """A filter of system calls (libseccomp, which Debian's apt needs) under which no address of this machine is seen to come or go; load it in the child. Clusters
    of other tests bring addresses, and a browser that sees one gives up what it has just asked for: ERR_NETWORK_CHANGED."""

    class Compared(ctypes.Structure):  # struct scmp_arg_cmp
        _fields_ = [("argument", ctypes.c_uint), ("how", ctypes.c_int), ("value", ctypes.c_uint64), ("other", ctypes.c_uint64)]

    library, allow, error, equal = ctypes.CDLL("libseccomp.so.2"), 0x7FFF0000, 0x00050000, 4
    library.seccomp_init.restype, library.seccomp_init.argtypes = ctypes.c_void_p, [ctypes.c_uint32]
    library.seccomp_rule_add_array.argtypes = [ctypes.c_void_p, ctypes.c_uint32, ctypes.c_int, ctypes.c_uint, ctypes.c_void_p]
    library.seccomp_load.argtypes = [ctypes.c_void_p]
    rules = library.seccomp_init(allow)
    # socket(AF_NETLINK, any type, NETLINK_ROUTE)
    asked = (Compared * 2)(Compared(0, equal, socket.AF_NETLINK), Compared(2, equal, socket.NETLINK_ROUTE))
    assert library.seccomp_rule_add_array(rules, error | errno.EAFNOSUPPORT, library.seccomp_syscall_resolve_name(b"socket"), len(asked), asked) == 0
    return lambda: library.seccomp_load(rules)


class Browser:
    """One page of one browser. `said`: what its console complained of; `requested`: addresses that it asked for."""

    def __init__(self, program, directory):
        self.directory = pathlib.Path(directory)
        deaf = deaf_to_addresses()
        ours, theirs = os.pipe(), os.pipe()  # (read, write) of what the browser reads, and of what it writes

        def inherit():
            # The browser reads from 3 and writes to 4. Through high numbers, as each of these may be one of the others.
            read, write = os.dup2(ours[0], 100), os.dup2(theirs[1], 101)
            os.dup2(read, 3)
            os.dup2(write, 4)
            # It is of no use to anybody when this process has ended, in whatever way.
            LIBC.prctl(PR_SET_PDEATHSIG, int(signal.SIGKILL))
            if deaf() != 0:
                raise OSError("the kernel takes no filter of system calls")

        # It has a directory of its own among the temporary ones, which who is killed does not remove.
        self.process = subprocess.Popen([program, *FLAGS, f"--user-data-dir={directory}/profile", "about:blank"], preexec_fn=inherit, close_fds=False,
                                        env=os.environ | {"TMPDIR": str(directory)}, start_new_session=True,
                                        stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=open(self.directory / "browser.log", "wb"))
        os.close(ours[0])
        os.close(theirs[1])
        self.write, self.read = ours[1], theirs[0]
        self.buffer, self.number, self.session, self.said, self.requested, self.scripts = b"", 0, None, [], [], True
        self.failed = {}  # by kind of request (Document, Fetch): why the last one had no answer
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        self.session = self.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.call(f"{domain}.enable")

    def __enter__(self):
        return self

    def __exit__(self, *_):
        try:
            os.killpg(self.process.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
        self.process.wait(180)
        os.close(self.write)
        os.close(self.read)

    def message(self, patience):
        """The next message; None when there is none in time."""
        end = time.monotonic() + patience
        while b"\0" not in self.buffer:
            if not select.select([self.read], [], [], max(0, end - time.monotonic()))[0]:
                return None
            more = os.read(self.read, 1 << 20)
            if not more:
                raise RuntimeError(f"the browser has ended: {(self.directory / 'browser.log').read_text(errors='replace')[-500:]}")
            self.buffer += more
        text, self.buffer = self.buffer.split(b"\0", 1)
        message = json.loads(text)
        method, values = message.get("method"), message.get("params", {})
        if method == "Log.entryAdded" and values["entry"]["level"] in ("error", "warning"):
            self.said.append(f"{values['entry']['text']} {values['entry'].get('url', '')}".strip())
        elif method == "Runtime.exceptionThrown":
            self.said.append(str(values["exceptionDetails"].get("exception", {}).get("description", values["exceptionDetails"]["text"])))
        elif method == "Page.javascriptDialogOpening":
            self.said.append(f"a dialog: {values['message']}")
        elif method == "Network.requestWillBeSent":
            self.requested.append(values["request"]["url"])
            self.failed.pop(values.get("type"), None)
        elif method == "Network.loadingFailed":
            self.failed[values["type"]] = values["errorText"]
        return message

    def call(self, method, patience=180, **values):
        self.number += 1
        number = self.number
        command = {"id": number, "method": method, "params": values} | ({"sessionId": self.session} if self.session else {})
        os.write(self.write, json.dumps(command).encode() + b"\0")
        end = time.monotonic() + patience
        while time.monotonic() < end:
            message = self.message(end - time.monotonic())
            if message and message.get("id") == number:
                if "error" in message:
                    raise RuntimeError(f"{method}: {message['error']['message']}")
                return message["result"]
        raise TimeoutError(f"the browser does not answer to {method}")

    # ---- what a person does

    def open(self, url):
        self.call("Page.navigate", url=url)
        self.loaded()

    def loaded(self):
        self.wait("location.protocol !== 'chrome-error:' && document.readyState === 'complete'")

    def evaluate(self, script):
        """The value of an expression in the page, promises waited for. One whose request was not sent is asked again."""
        end = time.monotonic() + 180
        while True:
            done = self.call("Runtime.evaluate", expression=script, returnByValue=True, awaitPromise=True, userGesture=True)
            if "exceptionDetails" not in done:
                return done["result"].get("value")
            why = str(done["exceptionDetails"].get("exception", {}).get("description"))
            if "Failed to fetch" not in why or self.failed.get("Fetch") != NOT_SENT or time.monotonic() > end:
                raise RuntimeError(f"{script}: {why}")
            time.sleep(0.1)

    def wait(self, script, patience=180.0):
        """Wait until an expression is true; its value. A page that is on its way to another is asked again; so is the server, as a person does, for a page
        that the browser did not come to ask for."""
        end, last = time.monotonic() + patience, None
        while time.monotonic() < end:
            try:
                last = self.evaluate(script)
                if last or last == {}:  # an element comes as {}
                    return last
            except RuntimeError as error:
                last = error
            self.again_if_not_sent()
            time.sleep(0.1)
        asked = " ".join(url.rpartition("/")[2] for url in self.requested[-8:])
        raise TimeoutError(f"waited {patience:.0f} s for {script} ({last}) at {self.evaluate('location.href')}, asked for last: {asked}: {self.evaluate('document.body.innerText')[:1500]}")

    def again_if_not_sent(self):
        """Where the browser shows its own page instead: ask again for what was not sent, a form as it was. Any other reason is an error."""
        if "Document" not in self.failed:
            return
        try:
            if not self.evaluate("location.protocol === 'chrome-error:'"):
                return
        except RuntimeError:  # on its way to another
            return
        why = self.failed.pop("Document", None)
        if why in (None, "net::ERR_ABORTED"):  # another was asked for meanwhile
            return
        if why != NOT_SENT:
            raise ConnectionError(f"no answer for {next(url for url in reversed(self.requested) if not url.startswith('data:'))}: {why}")
        self.call("Page.reload")

    def text(self, selector="body"):
        return self.evaluate(f"document.querySelector({json.dumps(selector)})?.innerText ?? ''")

    def click(self, selector):
        """A click with the mouse in the middle of what is shown, once it has come to rest: a page that is still being laid out, or scrolls to its fragment,
        would move it away from under the mouse. News that come just then do so all the same, and a click that meets something else is made again."""
        self.loaded()
        until = time.monotonic() + 180
        while not self.clicked(selector):
            if time.monotonic() > until:
                raise TimeoutError(f"for 180 s no click has met {selector}")

    def clicked(self, selector):
        """One click. Has it met what it was for, or led to another page?"""
        place, before = None, ()
        while place != before:
            before = place
            place = self.wait(f"""(() => {{ const found = [...document.querySelectorAll({json.dumps(selector)})].find((e) => e.getClientRects().length);
                if (!found) return null; found.scrollIntoView({{block: 'center'}}); const r = found.getBoundingClientRect();
                return [r.left + r.width / 2, r.top + r.height / 2]; }})()""")
            time.sleep(0.1)
        self.evaluate(f"""(() => {{ window.met = {{}}; for (const kind of ['mousedown', 'click'])
            document.addEventListener(kind, (event) => {{ window.met[kind] = !!event.target.closest({json.dumps(selector)}); }}, {{capture: true, once: true}}); }})()""")
        self.call("Input.dispatchMouseEvent", type="mousePressed", x=place[0], y=place[1], button="left", clickCount=1)
        # Without scripts nobody is told of it, and nothing moves.
        if self.scripts and not self.evaluate("window.met?.mousedown"):
            # Let go where that is no click on anything.
            self.call("Input.dispatchMouseEvent", type="mouseReleased", x=0, y=0, button="left", clickCount=1)
            return False
        self.call("Input.dispatchMouseEvent", type="mouseReleased", x=place[0], y=place[1], button="left", clickCount=1)
        with contextlib.suppress(RuntimeError):  # the page is being left
            return not self.scripts or self.evaluate("!window.met || window.met.click === true")
        return True

    def follow(self, selector):
        """A click that leads to another page, and wait for that: the one that is left may show already what is expected of it."""
        self.evaluate("window.isLeft = true")
        self.click(selector)
        self.wait("!window.isLeft && location.protocol !== 'chrome-error:' && document.readyState === 'complete'")

    def key(self, key, code=None, text=None):
        code = code or key
        virtual = {"Enter": 13, "Tab": 9, "ArrowRight": 39, "ArrowLeft": 37, "Home": 36, "End": 35, " ": 32}.get(key, 0)
        more = {"text": text} if text else {}
        self.call("Input.dispatchKeyEvent", type="keyDown", key=key, code=code, windowsVirtualKeyCode=virtual, **more)
        self.call("Input.dispatchKeyEvent", type="keyUp", key=key, code=code, windowsVirtualKeyCode=virtual)

    def fill(self, name, text):
        """Type a text into a field in place of what is there."""
        field = json.dumps(f"[name='{name}']")
        self.wait(f"(() => {{ const f = document.querySelector({field}); if (!f) return false; f.focus(); f.select(); return true; }})()")
        if text == "":
            self.call("Input.dispatchKeyEvent", type="keyDown", key="Delete", code="Delete", windowsVirtualKeyCode=46)
            self.call("Input.dispatchKeyEvent", type="keyUp", key="Delete", code="Delete", windowsVirtualKeyCode=46)
        else:
            self.call("Input.insertText", text=text)

    def files(self, selector, *paths):
        """Choose files."""
        root = self.call("DOM.getDocument")["root"]["nodeId"]
        node = self.call("DOM.querySelector", nodeId=root, selector=selector)["nodeId"]
        self.call("DOM.setFileInputFiles", nodeId=node, files=[str(path) for path in paths])

    # ---- how it looks

    def view(self, width=1280, height=900, dark=False, scripts=True):
        self.call("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=width < 500)
        self.call("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": "dark" if dark else "light"}])
        self.call("Emulation.setScriptExecutionDisabled", value=not scripts)
        self.scripts = scripts

    def picture(self, name):
        """The whole page as NAME.png in the directory; not where nobody looks at it, as it takes a third of the browser's time."""
        if os.environ.get("CI") == "true":
            return
        size = self.call("Page.getLayoutMetrics")["cssContentSize"]
        shot = self.call("Page.captureScreenshot", captureBeyondViewport=True, clip={"x": 0, "y": 0, "width": size["width"], "height": min(size["height"], 6000), "scale": 1})
        (self.directory / f"{name}.png").write_bytes(base64.b64decode(shot["data"]))
