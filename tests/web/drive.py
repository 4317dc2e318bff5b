"""What a user does on the page of `libra web`, in a real browser. The same for every system: this host, Slurm, PBS.

`Web` starts `libra web` and ends it; `User` does things on the page and asserts what comes of them. Pictures of all pages (light and dark, 1280, 768 and 360 px wide) go to
a directory, for people to look at; view.js looks at them meanwhile.
"""

import json
import os
import pathlib
import re
import select
import shlex
import signal
import subprocess
import time

import browser

HERE = pathlib.Path(__file__).resolve().parent
# A file with axe-core (https://github.com/dequelabs/axe-core), where there is one: then pages are looked at by it too.
AXE = os.environ.get("LIBRA_AXE")
SIZES = {"": {}, "middle": {"width": 768, "height": 1024}, "narrow": {"width": 360, "height": 800}}
VIEWS = {"-".join(filter(None, (size, tone))): {**view, "dark": tone == "dark"} for size, view in SIZES.items() for tone in ("light", "dark")}


# The first does the same for less; as find_browser in scripts/probe/probes.sh.
NAMES = ("chromium-headless-shell", "chromium", "chromium-browser", "google-chrome")


def chromium():
    """The browser of this machine, None if there is none."""
    places = [pathlib.Path(directory) / name for name in NAMES for directory in os.environ["PATH"].split(":")]
    return next((str(place) for place in places if os.access(place, os.X_OK)), None)


class Web:
    """`libra web`, started by `command` (its words up to `web`), as long as a `with` lasts."""

    def __init__(self, command, system, *more, **options):
        self.command = [*map(str, command), "--json", "web", "--system", system, *more]
        self.options, self.system = options, system

    def __enter__(self):
        self.process = subprocess.Popen(self.command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, **self.options)
        ready = select.select([self.process.stdout], [], [], 180)[0]
        line = self.process.stdout.readline() if ready else ""
        if not line:
            self.process.kill()
            raise RuntimeError(f"libra web did not start: {self.process.communicate()[1]}")
        self.url = self.address(json.loads(line))
        return self

    def address(self, told):
        """Where it is, by what it has said."""
        return told["url"]

    def __exit__(self, *_):
        self.process.send_signal(signal.SIGTERM)
        try:
            out, err = self.process.communicate(timeout=180)
        except subprocess.TimeoutExpired:
            self.process.kill()
            raise
        assert self.process.returncode == 0, f"libra web ended with {self.process.returncode}: {err}"
        assert json.loads(out.splitlines()[-1]) == {"ended": "terminated"}, out
        assert "panicked" not in err, err


class User:
    """Somebody in front of the page."""

    def __init__(self, page, web, pictures):
        self.page, self.web, self.pictures, self.base = page, web, pathlib.Path(pictures), web.url.split("?")[0]
        self.problems, self.asked = [], []
        page.directory = self.pictures

    def enter(self):
        page = self.page
        page.view()
        page.open(self.web.url)
        page.wait("location.pathname.endsWith('/submit')")
        assert "token" not in page.evaluate("location.href + document.referrer"), "the token must not stay in the address"
        assert page.evaluate("document.cookie") == "", "scripts must not see the cookie"

    def go(self, where):
        self.page.open(self.base + where)

    def until(self, where, said, patience=180):
        """Load a page, again and again, until it says so; its text."""
        end = time.monotonic() + patience
        while True:
            self.go(where)
            text = self.page.text()
            if said in text or time.monotonic() > end:
                assert said in text, text
                return text
            time.sleep(0.2)

    def check_view(self, name):
        """Look at the page as it is, in all ways; pictures of it."""
        for how, view in VIEWS.items():
            self.page.view(**view)
            time.sleep(0.2)
            found = self.page.evaluate((HERE / "view.js").read_text())
            if AXE:
                self.page.evaluate(pathlib.Path(AXE).read_text())
                found += self.page.evaluate("axe.run().then((all) => all.violations.map((one) => `${one.id}: ${one.nodes.map((node) => node.html).join(' ').slice(0, 300)}`))")
            self.problems += [f"{name}, {how}: {problem}" for problem in found]
            self.page.picture(f"{name}-{how}")
        self.page.view()

    # ---- the form

    def fill(self, **fields):
        self.go("submit")
        self.fields(**fields)

    def fields(self, **fields):
        for name, text in fields.items():
            self.page.fill(name, text)

    def choose(self, name, value):
        """Choose of a list, as by its keys."""
        self.page.wait(f"""(() => {{ const list = document.querySelector("select[name='{name}']"); if (!list) return false; list.focus(); list.value = {json.dumps(value)};
            for (const what of ['input', 'change']) list.dispatchEvent(new Event(what, {{bubbles: true}})); return list.value === {json.dumps(value)}; }})()""")

    def submit(self, **fields):
        """A job that must be accepted; the key of its page."""
        self.fill(**fields)
        self.page.follow("button[value=submit]")
        return self.at_job()

    def at_job(self):
        self.page.wait("location.pathname.endsWith('/job')")
        self.page.loaded()
        return self.page.evaluate("new URLSearchParams(location.search).get('id')")

    def verdict(self):
        """What stands beside the form, once it has come to rest."""
        self.page.wait("document.querySelector('#verdict .verdict, #verdict .notice') && !document.querySelector('#verdict.asking')")
        return self.page.text("#verdict")

    # ---- jobs

    def state(self):
        return self.page.text("#part .badge")

    def wait_state(self, *states, patience=180):
        self.page.wait(f"{json.dumps(states)}.includes(document.querySelector('#part .badge')?.innerText)", patience)

    def output(self):
        return self.page.evaluate("document.getElementById('output')?.textContent ?? ''")

    def wait_output(self, text, patience=180):
        self.page.wait(f"document.getElementById('output')?.textContent.includes({json.dumps(text)})", patience)

    def part(self, what):
        """How far a bar on the page is, from 0 to 100: `time` or `work`."""
        return self.page.evaluate(f"Number(document.querySelector('#part .progress .{what}')?.getAttribute('width') ?? 0)")

    def cancel_on_list(self, key):
        """Tick the box of a job on the list, and say that it is meant."""
        self.page.click(f"#choose-{key}")
        self.page.follow("#cancel-chosen")
        assert "ends now" in self.page.text(), self.page.text()
        self.page.follow("#sure")
        self.page.wait("location.pathname.endsWith('/jobs')")

    # ---- together

    def complaints(self):
        """What was wrong with how the page looked, and what the browser complained of. All requests went to this page alone."""
        elsewhere = [url for url in self.page.requested if not url.startswith((self.base, "data:", "about:")) and url not in self.asked]
        # What was not sent is asked again, by the page or by who sits in front of it (browser.again_if_not_sent); where it is not, what is waited for never comes.
        expected = lambda line: "422" in line or "ERR_SOCKET_NOT_CONNECTED" in line  # noqa: E731
        return [*self.problems, *(f"console: {line}" for line in self.page.said if not expected(line)), *(f"asked for {url}" for url in elsewhere)]


def lines(script):
    return "#!/bin/sh\n" + script


# A job that prints a line each time, and works; in the middle it waits for a file.
def steps(count, until, each=0.3):
    work = f"end=$(($(date +%s%N) + {int(each * 1e9)})); while [ $(date +%s%N) -lt $end ]; do :; done"
    wait = f"[ $i -ne {count // 2} ] || while [ ! -e {shlex.quote(str(until))} ]; do sleep 0.1; done"
    return lines(f"for i in $(seq 1 {count}); do echo \"step $i\"; {work}; {wait}; done\necho 'all done'\n")


def watched(user, directory, terms, count=20):
    """A job is submitted, its progress and its output grow, it ends in time. It goes on when its first lines have been seen, however late that is."""
    seen = pathlib.Path(directory) / "watched-is-seen"
    seen.unlink(missing_ok=True)
    user.submit(script=steps(count, seen), name="watched", directory=str(directory), **{**terms, "estimate": "30", "deadline": "1000"})
    user.wait_output("step 1\n")
    first, early = user.output(), user.part("time")
    user.check_view("job-running")
    seen.touch()
    user.wait_output("all done")
    assert len(user.output()) > len(first) and user.output().startswith("step 1\n"), user.output()
    assert re.findall(r"step \d+", user.output()) == [f"step {i}" for i in range(1, count + 1)], "each line once, in order"
    user.wait_state("finished", patience=180)
    assert user.part("time") > early, (early, user.part("time"))
    user.check_view("job-ended")
    user.go("jobs")
    assert "watched" in user.page.text("#rows"), user.page.text()


def cancelled(user, directory, terms):
    """A job is cancelled on the list; its page says so."""
    key = user.submit(script=lines("echo begun; sleep 1000\n"), name="cancel-me", directory=str(directory), **{**terms, "deadline": "6000"})
    user.wait_output("begun")
    user.go("jobs")
    user.page.wait("document.querySelector('table.jobs .progress')")
    user.check_view("jobs")
    user.cancel_on_list(key)
    user.page.wait("!document.querySelector('[id^=choose-]')")
    user.go(f"job?id={key}")
    user.wait_state("cancelled", patience=180)


def refused(user, directory, terms, offer):
    """A job is refused with a reason; one click takes what is offered in its place."""
    user.fill(script=lines("echo taken\n"), name="refused", directory=str(directory), **terms)
    user.page.follow("button[value=submit]")
    user.page.wait("document.querySelector('#verdict .verdict.bad h2')?.innerText.startsWith('Refused')")
    text = user.page.text("#verdict")
    assert "Nothing was submitted" in text and offer in text, text
    assert user.page.evaluate("document.getElementById('script').value").endswith("echo taken\n"), "nothing that was typed may be lost"
    user.check_view("refused")
    user.page.follow(".offers button")
    user.at_job()
    user.wait_output("taken")


def whole_processors(user, directory, terms, processors):
    """A class whose processors are not there is refused, and with one click the same job is accepted in another class, which is the one that runs."""
    page = user.page
    user.fill(script=lines("echo in shares\n"), name="classes", directory=str(directory), **{**terms, "processors": str(processors)})
    user.choose("class", "dedicated")
    page.wait("document.querySelector('#verdict .verdict.bad h2')?.innerText.includes('dedicated')")
    page.wait("[...document.querySelectorAll('.offers button')].some((one) => one.innerText.startsWith('Submit with class deadline') && (one.id = 'offer'))")
    user.check_view("class-refused")
    page.follow("#offer")
    key = user.at_job()
    user.wait_output("in shares")
    user.wait_state("finished")
    assert "Class" not in page.text("#part"), page.text("#part")
    # Submitted again it is of that class, whatever was asked for first.
    user.go(f"submit?again={key}")
    assert page.evaluate("document.querySelector('[name=class]').value") == "deadline", page.text()


def immediate(user, directory, terms):
    """Whole processors, now, and no deadline: with scripts and without."""
    page = user.page
    for scripts in (True, False):
        seen = pathlib.Path(directory) / "immediate-is-seen"
        seen.unlink(missing_ok=True)
        user.page.view(scripts=scripts)
        user.fill(script=lines(f"echo now; while [ ! -e {shlex.quote(str(seen))} ]; do sleep 0.1; done\n"), name="now", directory=str(directory), **{**terms, "estimate": "100000", "deadline": "", "budget": "unlimited"})
        user.choose("class", "immediate")
        if scripts:
            page.wait("document.querySelector('#verdict .verdict.good h2')?.innerText.includes('immediate')")
        page.follow("button[value=submit]")
        key = user.at_job()
        user.wait_output("now")
        assert "immediate" in page.text("#part"), page.text("#part")
        if scripts:
            user.check_view("job-immediate")
        user.go("jobs")
        page.wait("document.querySelector('#rows')?.innerText.includes('immediate')")
        seen.touch()
        user.go(f"job?id={key}")
        user.wait_state("finished")
        page.view()


def hostile(user, directory, terms):
    """What is printed, and what is typed, stays text."""
    nasty = "<img src=x onerror=alert(1)></pre><script>alert(2)</script>&lt;"
    user.submit(script=lines(f"cat <<'END'\n{nasty}\nEND\nsleep 1\nprintf 'a\\033[31mred\\r\\n'\n"), name="hostile", directory=str(directory), **terms)
    user.wait_output("red")
    assert nasty in user.output(), user.output()
    assert user.page.evaluate("document.querySelectorAll('main img, main script').length") == 0
    user.page.follow("a.button")
    user.page.wait("document.getElementById('script')?.value.includes('onerror')")
    assert user.page.evaluate("document.querySelectorAll('main img, main script').length") == 0


COLOURS = "".join(f"\\033[{code}m{name}\\033[0m " for code, name in
                  [("31", "red"), ("1;32", "green"), ("33", "yellow"), ("94", "blue"), ("35", "magenta"), ("38;5;51", "cyan"), ("2", "faint"), ("30", "black"), ("7", "inverse"),
                   ("41", "on red"), ("42", "on green"), ("43", "on yellow"), ("44", "on blue"), ("45", "on magenta"), ("46", "on cyan"), ("40;31", "on black"), ("47", "on white")])


def story(user, directory, terms):
    """A job's page tells what it printed as a terminal shows it, how it went on and ended, what its estimate should have been, and what it ran."""
    page = user.page
    seen = pathlib.Path(directory) / "story-is-seen"
    seen.unlink(missing_ok=True)
    script = lines(f"printf '{COLOURS}\\n'; printf '10 %%\\r50 %%\\r100 %% done\\n'; echo 'a Needle <b>'\n"
                   f"while [ ! -e {shlex.quote(str(seen))} ]; do sleep 0.1; done\necho 'last line'\n")
    key = user.submit(script=script, name="story", directory=str(directory), **{**terms, "estimate": "1000", "deadline": "6000", "budget": "unlimited"})
    user.wait_output("a Needle <b>")
    assert "\n100 % done\n" in user.output() and "50 %" not in user.output(), user.output()
    assert page.text("#output .in-red") == "red" and page.text("#output .on-blue") == "on blue", page.text("#output")
    page.wait("document.querySelectorAll('#story .figures svg').length === 2")
    user.check_view("story-running")
    seen.touch()
    user.wait_output("last line")
    user.wait_state("finished")
    page.wait("document.getElementById('story').innerText.includes('times too long')")
    assert "It finished with exit code 0" in page.text("#part"), page.text("#part")
    assert "it would cost" in page.text("#story"), page.text("#story")
    # What it ran is shown by a key.
    page.evaluate("[...document.querySelectorAll('summary')].find((one) => one.innerText.startsWith('Script')).focus()")
    page.key("Enter", text="\r")
    page.wait("document.querySelector('[aria-label=Script]').getClientRects().length && document.querySelector('[aria-label=Script]').textContent.includes('Needle <b>')")
    user.check_view("story")
    # All of it without scripts, and what else can be done with an output.
    page.view(scripts=False)
    user.go(f"job?id={key}")
    assert "times too long" in page.text("#story") and page.evaluate("document.querySelectorAll('#story svg').length") == 2, page.text()
    page.fill("q", "nEEdle")
    page.follow("form.find button")
    assert "1 line has it." in page.text() and page.text("mark") == "Needle", page.text()
    page.view()
    user.check_view("found")
    page.follow(".hits a")
    assert page.text("pre").startswith("a Needle <b>"), page.text()
    user.go(f"read?id={key}")
    assert page.text("pre .in-red") == "red" and "All of it" in page.text(), page.text()
    user.check_view("read")
    kept = page.evaluate(f"fetch('download?id={key}').then(async (a) => [a.headers.get('content-disposition'), await a.text()])")
    assert kept[0].startswith('attachment; filename="story-') and "\x1b[31mred" in kept[1] and "10 %\r50 %" in kept[1], kept
    page.follow("main p a")
    page.follow("#story a.button")
    value = "document.querySelector('[name=estimate]').value"
    assert 0 < float(page.evaluate(value)) < 800 and page.evaluate("document.querySelector('[name=deadline]').value") == "6000", page.evaluate(value)


def without_scripts(user, directory, terms):
    """The forms work, the list shows what was submitted."""
    page = user.page
    seen = pathlib.Path(directory) / "plain-is-seen"
    seen.unlink(missing_ok=True)
    page.view(scripts=False)
    page.open(user.base + "submit")
    user.fields(script=lines(f"while [ ! -e {shlex.quote(str(seen))} ]; do sleep 0.1; done; echo plain\n"), name="plain", directory=str(directory), **{**terms, "estimate": "--help"})
    page.follow("button[value=submit]")
    page.wait("document.querySelector('#verdict .notice.bad')?.innerText.startsWith('Estimate')")
    page.said[:] = [line for line in page.said if "422" not in line]  # that is what the answer was
    user.fields(estimate=terms["estimate"])
    if page.evaluate("!!document.getElementById('ask')"):
        page.follow("#ask")
        page.wait("document.querySelector('#verdict .verdict.good')")
    page.follow("button[value=submit]")
    page.wait("location.pathname.endsWith('/job')")
    assert "plain" not in user.output()
    seen.touch()
    user.wait_output("plain")  # by pages that reload themselves
    page.view()


def keyboard(user, directory, terms):
    """From the address to an accepted job without a mouse."""
    page = user.page
    user.go("jobs")
    page.key("Tab")
    assert page.evaluate("document.activeElement.className") == "skip", "the first thing is the way past the menu"
    page.key("Enter", text="\r")
    page.wait("document.activeElement.id === 'main'")
    user.go("submit")
    page.wait("document.activeElement.name === 'script'")  # the form begins where one types, once it is drawn
    page.key("Tab")
    page.call("Input.dispatchKeyEvent", type="keyDown", key="Tab", code="Tab", windowsVirtualKeyCode=9, modifiers=8)
    page.call("Input.dispatchKeyEvent", type="keyUp", key="Tab", code="Tab", windowsVirtualKeyCode=9, modifiers=8)
    values = {"script": lines("echo keys\n"), "name": "keys", "directory": str(directory), **terms}
    seen = []
    for _ in range(40):
        name = page.evaluate("document.activeElement.name || document.activeElement.tagName")
        shown = page.evaluate("getComputedStyle(document.activeElement).outlineStyle")
        assert shown != "none", f"{name} does not show that it has the focus"
        seen.append(name)
        if name in values and page.evaluate("document.activeElement.type") != "range":
            page.evaluate("document.activeElement.select()")
            page.call("Input.insertText", text=values.pop(name))
        if page.evaluate("document.activeElement.value") == "submit":
            break
        page.key("Tab")
    assert not values, f"not reached: {sorted(values)} of {seen}"
    page.key("Enter", text="\r")
    user.at_job()
    user.wait_output("keys")


def overview(user, web, job, system):
    """What an administrator sees at `web`, a page of the whole site: a job, the one live one of this name or number, nodes and days, found without scripts; nothing there
    changes anything."""
    try:
        looked_over(user, web, job, system)
    finally:
        # What follows is another page's.
        user.asked += [url for url in user.page.requested if url.startswith(web.url.partition("?")[0])]
        user.page.view()


def looked_over(user, web, job, system):
    page = user.page
    everything = User(page, web, user.pictures)
    page.view(scripts=False)
    page.open(web.url)
    page.wait("location.pathname.endsWith('/jobs')")
    for words, found in ((f"{job} no-such-node", "No job is like that"), (f"{job.upper()} {system}", job)):
        page.fill("q", words)
        page.follow(".find button")
        assert found in page.text("main"), page.text()
    assert page.evaluate("document.querySelectorAll('tbody tr').length") == 1, page.text()
    # Without metrics nobody knows what became of promises.
    kept = f"Promises of {system}" if system == "local" else ""
    for where, says in (("jobs", job), ("jobs?which=ended", "have ended"), ("nodes", f"Nodes of {system}"), ("days", kept)):
        text = everything.until(where, says)
        assert "to be read only" in text, text
        assert page.evaluate("document.querySelectorAll('form[method=post], script, button:not(.find button)').length") == 0
        everything.check_view(f"overview-{where.partition('?')[0]}")
        page.view(scripts=False)
    everything.go("jobs")
    page.follow("p.small a[href*=reloads]")
    assert page.evaluate("document.querySelector('meta[http-equiv=refresh]').content") == "30"
    page.follow("p.small a:last-child")
    assert not page.evaluate("document.querySelector('meta[http-equiv=refresh]')")
    user.problems += everything.problems
