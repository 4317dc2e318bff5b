#!/usr/bin/env python3
"""Drives the page of `libra web` with jobs of this host. Called by tests/web/run: LIBRA PICTURES."""

import json
import os
import pathlib
import pty
import re
import select
import subprocess
import sys
import tempfile
import time
import traceback

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent / "batch")]

import browser  # noqa: E402
import drive  # noqa: E402
from commands import where_the_day_is_young  # noqa: E402

TERMS = {"estimate": "10", "deadline": "40", "budget": "1000", "processors": "1"}
# No network: two weeks of what metrics may have kept.
HISTORY = [{"hour": int(time.time()) // 3600 * 3600 - 3600 * age, "accepted": 7, "met": 3 + age % 5, "late": int(age % 7 == 0), "refused": {"share": age % 3, "budget": 1, "funds": 1}}
           for age in range(0, 240, 2)]


class Local:
    """A host of its own: registry, cgroups, home."""

    def __init__(self, libra, directory):
        self.libra, self.directory = libra, pathlib.Path(directory)
        self.config, self.home, self.work = self.directory / "libra.toml", self.directory / "home", self.directory / "work"
        self.config.write_text(f'[cgroup]\nroot = "libra-web-{os.getpid()}"\n[registry]\ndirectory = "{self.directory}/registry"\n[agent]\ninterval = "100ms"\ngrace = "1s"\n'
                               f'[web]\ntemplates = "{self.directory}/templates"\n')
        for made in (self.home, self.work, self.directory / "templates"):
            made.mkdir()
        (self.directory / "metrics").mkdir()
        (self.directory / "metrics/local.json").write_text(json.dumps({"version": 1, "hours": HISTORY}))
        self.environment = {**os.environ, "HOME": str(self.home)}
        for name in ("XDG_STATE_HOME", "LIBRA_CONFIG", "LIBRA_LOG"):
            self.environment.pop(name, None)

    def web(self, *more):
        return drive.Web([self.libra, "--config", self.config], "local", "--metrics", str(self.directory / "metrics"), *more, env=self.environment, cwd=self.work)

    def command(self, *words):
        return subprocess.run([self.libra, "--config", self.config, *words], env=self.environment, capture_output=True, text=True, check=False)

    def accounts_on(self, credits):
        """From now on budgets are taken from an account, which has so many credits."""
        with self.config.open("a") as config:
            config.write(f'[accounts]\nmode = "on"\nledger = "{self.directory}/accounts/ledger.sqlite"\nlive = "{self.directory}/live"\n')
        for words in (["init"], ["create", "root"], ["deposit", "root", str(credits), "--note", "for a start", "--until", "2099-12-31"],
                      ["create", "project:chem", "--member", "root"], ["deposit", "project:chem", "3"], ["create", "project:others"]):
            done = self.command("account", *words)
            assert done.returncode == 0, done

    def jobs(self):
        answer = self.command("status", "--json", "--system", "local")
        assert answer.returncode == 0, answer
        return json.loads(answer.stdout)["jobs"]

    def wait_running(self):
        """A job's page is there as soon as it is accepted; that it runs is written down after it has begun."""
        end = time.monotonic() + 180
        while not [job for job in self.jobs() if job["phase"] == "running"]:
            assert time.monotonic() < end, self.jobs()
            time.sleep(0.1)

    def end(self):
        for job in self.jobs():
            if job["phase"] != "ended":
                self.command("cancel", job["id"])


def ends_in_words(user, local):
    """An exit code, a signal, an interpreter that is not there."""
    for script, words in (("#!/bin/sh\nexit 2\n", "It failed with exit code 2"), ("#!/bin/sh\nkill -9 $$\n", "It failed: it was ended by signal 9, SIGKILL: killed"),
                          ("#!/nowhere/python\n", "the first line, /nowhere/python, does not exist")):
        user.submit(script=script, name="ends", directory=str(local.work), **TERMS)
        user.page.wait(f"document.getElementById('part').innerText.includes({json.dumps(words)})")
    user.check_view("failed")


def price_moves(user, local):
    """The price beside the form follows the slider, and a bad value is said without losing anything."""
    page = user.page
    user.fill(script=drive.lines("echo x\n"), name="priced", directory=str(local.work), estimate="1h", deadline="4h", budget="9000", processors="1")
    text = user.verdict()
    assert "It would be accepted" in text and "credits" in text, text
    page.wait("!document.querySelector('.slider').hidden")
    user.check_view("submit")
    price = "document.querySelector('#verdict .price strong').innerText"
    before = float(page.evaluate(price))
    page.evaluate("document.getElementById('slider').focus()")
    page.key("Home")
    page.wait(f"document.querySelector('#verdict .price') && Number({price}) !== {before} || document.querySelector('#verdict .verdict.bad')")
    deadline = page.evaluate("document.querySelector('[name=deadline]').value")
    assert deadline.startswith("1h"), deadline
    for _ in range(30):
        page.key("ArrowRight")
    page.wait(f"document.querySelector('[name=deadline]').value !== '{deadline}' && {price} > 0 && !document.querySelector('#verdict.asking')")
    assert float(page.evaluate(price)) != before
    user.fields(budget="5")
    page.wait("document.querySelector('#verdict .verdict.bad')")
    assert "Submit with budget" in user.verdict(), user.verdict()
    user.fields(budget="five")
    page.wait("document.querySelector('#verdict .notice.bad')")
    assert "five" in user.verdict(), user.verdict()
    assert page.evaluate("document.querySelector('[name=name]').value") == "priced"
    # A price needs no budget.
    user.fields(budget="")
    page.wait("document.querySelector('#verdict .price') && document.getElementById('verdict').innerText.includes('o budget was given')")
    # Proposed, it is taken by one click, and priced again.
    page.click("#verdict button[name=fill]")
    page.wait("document.querySelector('[name=budget]').value > 0 && document.querySelector('#verdict .price') && !document.querySelector('#verdict [name=fill]')")
    user.fields(estimate="1:30", budget="five")
    page.wait("document.querySelectorAll('[aria-invalid=true]').length === 2")
    assert "cannot be read" in page.text("#estimate-error"), page.text()
    user.check_view("mistakes")
    user.fields(estimate="1h", budget="9000")
    page.wait("!document.querySelector('[aria-invalid=true]') && document.querySelector('#verdict .verdict.good')")
    # What it costs is in view while the last field is typed, on a small laptop and on a telephone.
    for width, height, what in ((1366, 768, "#verdict .price"), (360, 700, "#brief")):
        page.view(width=width, height=height)
        page.evaluate("document.querySelector('[name=budget]').scrollIntoView({block: 'center'})")
        box = f"document.querySelector('{what}').getBoundingClientRect()"
        page.wait(f"{box}.top >= 0 && {box}.height > 0 && {box}.bottom <= {height}")
    page.view()
    # Without a deadline there is no question; what was said of another one goes, and its buttons.
    user.fields(deadline="")
    page.wait("!document.getElementById('verdict').firstElementChild")


def best_effort(user, local):
    """A job that is promised nothing needs nothing: neither a browser nor the page asks for terms."""
    page = user.page
    for scripts in (True, False):
        page.view(scripts=scripts)
        user.fill(script=drive.lines("echo some day\n"), name="some-day", directory=str(local.work))
        user.choose("class", "best-effort")
        if scripts:
            page.wait("document.querySelector('#verdict .verdict.good h2')?.innerText.includes('best-effort')")
            user.check_view("best-effort")
        page.follow("button[value=submit]")
        user.at_job()
        user.wait_output("some day")
        user.wait_state("finished")
        assert "best-effort" in page.text("#part") and "no deadline" in page.text("#part"), page.text("#part")
        page.view()


def the_whole_site(user, local):
    """What an administrator sees: all jobs, nodes and days, found without scripts; nothing there changes anything."""
    key = user.submit(script=drive.lines("echo here; sleep 1000\n"), name="seen-by-all", directory=str(local.work), **{**TERMS, "deadline": "600"})
    user.wait_output("here")
    with local.web("--overview") as web:
        drive.overview(user, web, "seen-by-all", "local")
    user.go("jobs")
    user.cancel_on_list(key)


def a_file(user, local):
    """A script from a file of the user's, with scripts and without."""
    script = local.directory / "from file.sh"
    script.write_text(drive.lines("echo from a file\n"))
    for scripts in (True, False):
        user.page.view(scripts=scripts)
        user.go("submit")
        user.page.files("#file", script)
        user.fields(directory=str(local.work), **TERMS)
        if scripts:
            user.page.wait("document.getElementById('script').value.includes('from a file')")
            assert user.page.evaluate("document.querySelector('[name=name]').value") == "from-file.sh"
        user.page.follow("button[value=submit]")
        user.page.wait("location.pathname.endsWith('/job')")
        user.page.wait("document.getElementById('output')?.textContent.includes('from a file')")
        user.page.view()


def a_file_of_this_machine(user, local):
    """A script is found below home, with scripts beside what is typed and by keys, and without; nothing else can be had."""
    page = user.page
    inner = local.home / "runs <b>"
    inner.mkdir(exist_ok=True)
    (inner / "night.sh").write_text(drive.lines("echo found at home\n"))
    value = "document.querySelector('[name={}]').value".format
    user.fill(budget="77", **{name: text for name, text in TERMS.items() if name != "budget"})
    page.evaluate("document.getElementById('choose').focus()")
    page.key("Enter", text="\r")
    page.wait("document.querySelector('#chosen .names')?.innerText.includes('runs <b>/')")
    user.check_view("files")
    page.evaluate("[...document.querySelectorAll('#chosen a')].find((one) => one.innerText === 'runs <b>/').focus()")
    page.key("Enter", text="\r")
    page.wait("[...document.querySelectorAll('#chosen a')].some((one) => one.innerText === 'night.sh' && (one.id = 'night'))")
    page.click("#night")
    page.wait(f"{value('script')}.includes('found at home') && {value('name')} === 'night.sh' && {value('directory')}.endsWith('/runs <b>')")
    assert page.evaluate(value("budget")) == "77" and page.evaluate("document.getElementById('chosen').hidden"), page.text()
    page.view(scripts=False)
    user.go("submit")
    page.follow("#choose")
    page.evaluate("[...document.querySelectorAll('#files a')].find((one) => one.innerText === 'runs <b>/').id = 'runs'")
    page.follow("#runs")
    user.check_view("files-page")
    page.view(scripts=False)
    page.evaluate("[...document.querySelectorAll('#files a')].find((one) => one.innerText === 'night.sh').id = 'night'")
    page.follow("#night")
    user.fields(**TERMS)
    page.follow("button[value=submit]")
    user.at_job()
    user.wait_output("found at home")
    page.view()
    for address in ("files?in=/", "files?in=%2Fetc", "submit?file=%2Fetc%2Fpasswd"):
        user.go(address)
        assert "only what is below" in page.text() and "root:" not in page.text(), page.text()
    page.said[:] = [line for line in page.said if "404" not in line]  # that is what the answers were


def scripts_stay_as_they_are(user, local):
    """Control characters in a script that is refused come back; a file that is no text leaves what was typed."""
    page = user.page
    script = drive.lines("printf '\033[1m\x7f\t&amp;</textarea>'\n")
    user.fill(script=script, directory=str(local.work), **{**TERMS, "budget": "1"})
    page.follow("button[value=submit]")
    page.wait("document.querySelector('#verdict .verdict.bad h2')?.innerText.startsWith('Refused')")
    value = "document.getElementById('script').value"
    assert page.evaluate(value) == script, ascii(page.evaluate(value))
    latin = local.directory / "latin1.sh"
    latin.write_bytes(b"#!/bin/sh\necho gr\xfc\xdfe\n")
    page.files("#file", latin)
    page.wait("document.getElementById('trouble').innerText.includes('not text in UTF-8')")
    assert page.evaluate(value) == script, ascii(page.evaluate(value))


def enter_submits(user, local):
    """Enter in a field submits, whatever else there is a button for."""
    page = user.page
    user.fill(script=drive.lines("echo entered\n"), name="entered", directory=str(local.work), **TERMS)
    page.wait("document.querySelector('#verdict .verdict')")
    page.evaluate("window.isLeft = true; document.querySelector('[name=budget]').focus()")
    page.key("Enter", text="\r")
    page.wait("!window.isLeft && location.pathname.endsWith('/job')")
    user.wait_output("entered")


def many_jobs(user, local):
    """Jobs of one name stand in one row; they are found, counted and cancelled together, with scripts and without. Who has another page open is told."""
    page = user.page
    words = ("run", "-W", "deadline=600,budget=1000,estimate=1", "--", "sh", "-c", "sleep 1000 # sweep")
    for _ in range(5):
        subprocess.Popen([local.libra, "--config", local.config, *words], env=local.environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    running = "document.getElementById('rows')?.innerText.includes('5 running')"
    user.go("jobs")
    page.wait(running)
    assert page.evaluate("[...document.querySelectorAll('#rows a')].filter((a) => a.innerText.includes('sweep')).length") == 1, page.text()
    user.check_view("jobs-in-one-row")
    page.evaluate("document.getElementById('q').focus()")
    page.call("Input.insertText", text="sweep")
    page.wait("document.querySelectorAll('#rows tr').length === 1 && location.search.includes('q=')")
    page.follow("#rows a")
    page.wait("document.querySelectorAll('#rows [type=checkbox]').length === 5")
    page.click("#rows [type=checkbox]")
    page.wait("document.getElementById('cancel-chosen').innerText.includes('(1)')")
    page.follow("#cancel-chosen")
    assert "This job ends now" in page.text(), page.text()
    user.check_view("cancel")
    page.follow("main a.button")  # back to the list, and nothing has happened
    page.wait("document.querySelectorAll('#rows [type=checkbox]').length === 5")
    page.view(scripts=False)
    user.go("jobs?still=yes&q=sweep&state=running")
    page.follow("#cancel-all")
    assert "5 jobs" in page.text("h1"), page.text()
    page.follow("#sure")
    page.view()
    user.go("jobs?q=sweep&state=running")
    page.wait("document.getElementById('above').innerText.includes('No job of yours is like that')")


def news(user, local):
    """Who looks at another page is told when a job ends."""
    page = user.page
    key = user.submit(script=drive.lines("while [ ! -e told ]; do sleep 0.1; done\n"), name="tells", directory=str(local.work), **{**TERMS, "estimate": "100", "deadline": "6000"})
    user.wait_state("on track")
    user.go("jobs")
    page.wait("document.getElementById('rows').innerText.includes('tells')")
    user.go("cluster")
    (local.work / "told").touch()
    page.wait("document.getElementById('news').innerText.includes('tells')")
    assert "has ended: finished, in time" in page.text("#news"), page.text("#news")
    user.check_view("news")
    # Others that have ended meanwhile may be told of as well.
    page.evaluate("[...document.querySelectorAll('#news a')].find((a) => a.innerText.includes('tells')).id = 'told'")
    page.follow("#told")
    assert page.evaluate("location.search") == f"?id={key}"
    page.wait("!document.getElementById('news').firstElementChild")  # it is told once


def from_templates(user, local):
    """The site's template and the user's own fill in the form, and submitting again every field of it."""
    page = user.page
    (local.directory / "templates/fluid").write_text("#!/bin/sh\n#LIBRA estimate=7\n#LIBRA deadline=5m\n#LIBRA memory=8MiB\necho flows\n")
    value = "document.querySelector('[name={}]').value".format
    user.go("submit")
    page.follow("form.find button")
    page.wait(f"{value('deadline')} === '5m' && {value('memory')} === '8MiB'")
    assert page.evaluate(value("script")) == "#!/bin/sh\necho flows\n"
    assert page.evaluate("document.querySelector('[name=memory]').closest('details').open"), "what is filled in is shown"
    user.fields(budget="100", name="flows", directory=str(local.work))
    user.verdict()  # what stands above the button is complete
    page.evaluate("document.querySelector('[name=template-name]').closest('details').open = true")
    user.fields(**{"template-name": "mine"})
    page.follow("button[value=keep]")
    assert "Kept as the template mine" in page.text("#verdict"), page.text()
    user.check_view("template")
    user.go("submit?template=own.mine")
    assert page.evaluate(value("budget")) == "100"
    page.follow("button[value=submit]")
    user.at_job()
    user.wait_output("flows")
    page.follow("a.button")
    kept = {name: page.evaluate(value(name)) for name in ("name", "estimate", "deadline", "budget", "memory", "directory")}
    assert kept == {"name": "flows", "estimate": "7", "deadline": "5m", "budget": "100", "memory": "8MiB", "directory": str(local.work)}, kept
    user.go("submit?template=own.absent")
    assert "there is no template" in page.text(), page.text()
    page.said[:] = [line for line in page.said if "404" not in line]  # that is what the answer was


def in_the_background(local):
    """`libra web &` in a terminal is not stopped when it looks for Enter; it answers and ends."""
    pid, terminal = pty.fork()
    if pid == 0:
        # With job control: a group of its own, that does not have the terminal.
        script = 'set -m; "$@" & web=$!; until [ -e "$HOME/asked" ]; do sleep 0.1; done; sleep 3; echo "state $(ps -o stat= -p $web)"; kill $web; kill -CONT $web; wait $web; echo "status $?"'
        os.execve("/bin/sh", ["sh", "-c", script, "sh", str(local.libra), "--config", str(local.config), "web", "--system", "local"], local.environment)
    said, patience = b"", time.monotonic() + 180
    try:
        while True:
            # It has said its address, and looks for Enter from now on; or it was stopped, and says nothing.
            if b"token=" in said or time.monotonic() > patience:
                (local.home / "asked").touch()
            if select.select([terminal], [], [], 1)[0]:
                part = os.read(terminal, 4096)
                if not part:
                    break
                said += part
    except OSError:
        pass  # the end of a terminal
    os.close(terminal)
    os.waitpid(pid, 0)
    said = said.decode()
    assert "token=" in said and re.search(r"state [SR]", said) and "status 0" in said, said


def other_pages(user, local):
    user.go("account")
    assert "Accounts are off here" in user.page.text(), user.page.text()
    user.check_view("account")
    user.go("cluster")
    text = user.page.text()
    for part in ("processors are committed", "met their deadlines", "funds"):
        assert part in text, text
    user.check_view("cluster")
    user.go("nowhere")
    assert "no page of this name" in user.page.text()
    user.go("job?id=..%2f..%2fetc")
    assert "no such job of yours" in user.page.text()
    root = user.base.rsplit("/", 2)[0] + "/"
    user.asked = [root, root + "style.css", root + "icon.svg"]
    user.page.open(root)
    assert "Enter in the terminal" in user.page.text(), user.page.text()
    user.check_view("no-session")
    user.page.said.clear()  # a page that is not there is an error on the console: these were


def jobs_outlive_the_page(user, local):
    user.submit(script=drive.lines("while [ ! -e page-is-gone ]; do sleep 0.1; done; echo survived\n"), name="outlives", directory=str(local.work), **TERMS)
    return user.page.evaluate("new URLSearchParams(location.search).get('id')")


def an_account_pays(page, local, pictures):
    """What it has, a budget that it does not cover and the offer that it does, the charge on the statement."""
    # The page of an account is that of this month: not in the first minutes of one.
    local.environment["TZ"] = where_the_day_is_young()
    local.accounts_on(20)
    with local.web() as web:
        user = drive.User(page, web, pictures)
        user.enter()
        user.go("account")
        text = page.text()
        assert "user:root" in text and "for a start" in text and "project:chem" in text, text
        assert "2100-01-01" in text or "2099-12-31" in text, text  # it ends
        assert "project:others" not in text and "site:" not in text, text
        kept = page.evaluate("fetch([...document.querySelectorAll('a')].find((one) => one.href.includes('account.csv')).href).then(async (a) => [a.headers.get('content-disposition'), await a.text()])")
        assert kept[0].startswith('attachment; filename="user-root-') and "for a start" in kept[1], kept
        user.fill(script=drive.lines("echo paid\n"), name="paid", directory=str(local.work), **{**TERMS, "deadline": "400", "budget": "21"})
        page.follow("button[value=submit]")
        page.wait("document.querySelector('.verdict.bad') && document.body.innerText.includes('funds')")
        text = page.text()
        assert "the account has 20 available" in text and "Submit with budget 20" in text, text
        user.check_view("refused-funds")
        page.evaluate("[...document.querySelectorAll('button')].find(b => b.innerText.includes('Submit with budget 20')).id = 'offer'")
        page.follow("#offer")
        page.wait("location.pathname.endsWith('/job')")
        user.wait_state("finished")
        # It is paid for in the moment after its end.
        text = user.until("account", "met its deadline")
        assert "9.98" in text, text
        user.check_view("account-on")
        user.page.open(user.base + "jobs")
        user.page.follow("#rows a")
        page.wait("document.getElementById('story').innerText.includes('Charged')")
        assert "Held at its acceptance" in page.text("#story") and "met its deadline" in page.text("#story"), page.text("#story")
        user.check_view("story-paid")


def main(libra, pictures):
    passed, failed = 0, []
    program = drive.chromium()
    with tempfile.TemporaryDirectory() as directory:
        local = Local(libra, directory)
        (local.directory / "browser").mkdir()
        try:
            with browser.Browser(program, local.directory / "browser") as page:
                with local.web() as web:
                    user = drive.User(page, web, pictures)
                    user.enter()
                    tests = {
                        "the form and its price": lambda: price_moves(user, local),
                        "a job is watched to its end": lambda: drive.watched(user, local.work, TERMS),
                        "a job is cancelled": lambda: drive.cancelled(user, local.work, TERMS),
                        "refused, and an offer taken": lambda: drive.refused(user, local.work, {**TERMS, "budget": "1"}, "Submit with budget"),
                        "whole processors, and shares in their place": lambda: drive.whole_processors(user, local.work, TERMS, 2),
                        "whole processors now": lambda: drive.immediate(user, local.work, TERMS),
                        "nothing promised, nothing asked": lambda: best_effort(user, local),
                        "hostile text stays text": lambda: drive.hostile(user, local.work, TERMS),
                        "a job's story": lambda: drive.story(user, local.work, TERMS),
                        "ends in words": lambda: ends_in_words(user, local),
                        "without scripts": lambda: drive.without_scripts(user, local.work, TERMS),
                        "Enter submits": lambda: enter_submits(user, local),
                        "many jobs": lambda: many_jobs(user, local),
                        "templates": lambda: from_templates(user, local),
                        "news of jobs": lambda: news(user, local),
                        "by keyboard": lambda: drive.keyboard(user, local.work, TERMS),
                        "a script from a file": lambda: a_file(user, local),
                        "a file of this machine": lambda: a_file_of_this_machine(user, local),
                        "scripts stay as they are": lambda: scripts_stay_as_they_are(user, local),
                        "in the background of a terminal": lambda: in_the_background(local),
                        "the whole site": lambda: the_whole_site(user, local),
                        "account, cluster, and pages that are not": lambda: other_pages(user, local),
                    }
                    for name, test in tests.items():
                        try:
                            user.page.view()
                            test()
                            complaints, user.problems = user.complaints(), []
                            page.said.clear()
                            page.requested.clear()
                            assert not complaints, "\n".join(complaints)
                            print(f"ok {name}", flush=True)
                            passed += 1
                        except Exception:
                            page.said.clear()
                            page.requested.clear()
                            user.problems = []
                            failed.append(name)
                            print(f"FAILED {name}\n{traceback.format_exc(limit=4)}", flush=True)
                    key = jobs_outlive_the_page(user, local)
                # The page has ended; the job has not.
                try:
                    local.wait_running()
                    (local.work / "page-is-gone").touch()
                    with local.web() as web:
                        user = drive.User(page, web, pictures)
                        user.enter()
                        user.go(f"job?id={key}")
                        user.wait_output("survived")
                        user.wait_state("finished")
                    print("ok jobs outlive the page")
                    passed += 1
                except Exception:
                    failed.append("jobs outlive the page")
                    print(f"FAILED jobs outlive the page\n{traceback.format_exc(limit=4)}")
                try:
                    an_account_pays(page, local, pictures)
                    print("ok an account pays")
                    passed += 1
                except Exception:
                    failed.append("an account pays")
                    print(f"FAILED an account pays\n{traceback.format_exc(limit=4)}")
        finally:
            local.end()
    print(f"{passed} passed, {len(failed)} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(pathlib.Path(sys.argv[1]).resolve(), sys.argv[2]))
