#!/usr/bin/env python3
"""The page behind others that log users in: nginx and Apache as in packaging/proxy, and Open OnDemand's app (packaging/ondemand) in Passenger behind the rules of its
portal. Called by tests/web/run: LIBRA SERVERS PICTURES, where SERVERS has Debian's programs unpacked."""

import base64
import contextlib
import grp
import json
import os
import pathlib
import pwd
import re
import shutil
import subprocess
import sys
import tempfile
import time
import traceback

sys.path[:0] = [str(pathlib.Path(__file__).resolve().parent), str(pathlib.Path(__file__).resolve().parent.parent / "batch")]

import browser  # noqa: E402
import drive  # noqa: E402
import processes  # noqa: E402
import servers  # noqa: E402

ROOT = os.geteuid() == 0
# Users that Debian has, whose processes are nobody's: by root the page, the proxy and a stranger are three.
ME = pwd.getpwuid(os.geteuid()).pw_name
USER, WORKER, STRANGER = ("daemon", "www-data", "games") if ROOT else (ME, ME, None)
APP = pathlib.Path(__file__).resolve().parent.parent.parent / "packaging/ondemand/app"
TERMS = {"estimate": "10", "deadline": "60", "budget": "1000", "processors": "1"}


def basic(user, password="secret"):
    return "Authorization", "Basic " + base64.b64encode(f"{user}:{password}".encode()).decode()


class Portal:
    """A place of its own for all of this: a host of the user's, passwords, sockets."""

    def __init__(self, libra, where, directory, pictures):
        self.directory, self.pictures = pathlib.Path(directory), pictures
        self.directory.chmod(0o755)
        # Its own user starts both.
        self.libra, self.where = (processes.for_everybody(path, self.directory / "programs") for path in (libra, where))
        self.own, self.sockets = self.directory / "own", self.directory / "sockets"
        self.sockets.mkdir()
        for made in (self.own, self.own / "home", self.own / "work", self.sockets / USER):
            made.mkdir()
            if ROOT:
                shutil.chown(made, USER)
        self.config = self.directory / "libra.toml"
        self.config.write_text(f'[cgroup]\nroot = "libra-portal-{os.getpid()}"\n[registry]\ndirectory = "{self.own}/registry"\n[agent]\ninterval = "100ms"\ngrace = "1s"\n')
        hashed = subprocess.run(["openssl", "passwd", "-apr1", "secret"], capture_output=True, text=True, check=True).stdout.strip()
        self.users = self.directory / "users"
        self.users.write_text("".join(f"{name}:{hashed}\n" for name in (USER, "bob", "../x")))
        self.environment = {"HOME": f"{self.own}/home", "PATH": os.environ["PATH"]}
        self.socket = self.sockets / USER / "socket"

    def web(self, *more):
        return Proxied([self.libra, "--config", self.config], "local", "--socket", str(self.socket), "--user-header", "X-Remote-User", "--base", "/libra",
                       *(("--proxy-user", WORKER) if ROOT else ()), *more, env=self.environment, cwd=self.own / "work", **as_user(USER))

    def end(self):
        def command(*words):
            return subprocess.run([self.libra, "--config", self.config, *words], env=self.environment, capture_output=True, text=True, check=False, **as_user(USER))
        done = command("status", "--json", "--system", "local")
        assert done.returncode == 0, done
        for job in json.loads(done.stdout)["jobs"]:
            if job["phase"] != "ended":
                command("cancel", job["id"])


class Proxied(drive.Web):
    """`libra web` at a socket, which says no address."""

    def address(self, told):
        return told["socket"]


def group(user):
    return grp.getgrgid(pwd.getpwnam(user).pw_gid).gr_name


def as_user(user):
    """For a program that is to run as this user, which only root can say."""
    return {"user": user, "group": group(user), "extra_groups": []} if ROOT else {}


def worker():
    return (WORKER, group(WORKER)) if ROOT else None


class At:
    """A page that is there already."""

    def __init__(self, url):
        self.url = url


def user_at(portal, page, port, path, first=None):
    """The user, logged in. With the password in the address once, at `first`; the browser keeps it."""
    page.view()
    page.open(f"http://{USER}:secret@127.0.0.1:{port}{first or path}")
    page.wait(f"location.pathname === '{path}submit' && document.querySelector('[name=script]')")
    user = drive.User(page, At(f"http://127.0.0.1:{port}{path}"), portal.pictures)
    page.requested.clear()
    user.go("submit")
    page.wait("document.querySelector('[name=script]')")
    return user


def works(user, portal, name):
    """A job is submitted and watched with scripts, another without, and a third is cancelled; nothing leaves the page."""
    page = user.page
    assert page.evaluate("document.cookie") == ""
    page.wait(f"document.querySelector('.who').innerText.startsWith({json.dumps(USER)})")
    go_on = portal.own / "work" / f"{name}-seen"
    user.fill(script=drive.lines(f"echo first\nuntil [ -e '{go_on}' ]; do sleep 0.1; done\necho second\n"), name=f"{name}-job", directory=str(portal.own / "work"), **{**TERMS, "deadline": "300"})
    user.verdict()
    page.follow("button[value=submit]")
    key = user.at_job()
    user.wait_output("first")
    go_on.touch()
    user.wait_output("second")
    user.wait_state("finished")
    status = page.evaluate(f"fetch('download?id={key}').then(async (answer) => [answer.status, await answer.text()])")
    assert status == [200, "first\nsecond\n"], status
    page.view(scripts=False)
    user.submit(script=drive.lines("echo plain\n"), name=f"{name}-plain", directory=str(portal.own / "work"), **TERMS)
    page.wait("document.getElementById('output')?.textContent.includes('plain')")
    page.view()
    key = user.submit(script=drive.lines("sleep 1000\n"), name=f"{name}-gone", directory=str(portal.own / "work"), **{**TERMS, "deadline": "6000"})
    user.go("jobs")
    user.cancel_on_list(key)
    user.until(f"job?id={key}", "cancelled")
    # The portal's own sign, and what the page with the password in its address still asked for when that was left.
    user.asked += [url for url in page.requested if url.endswith("/favicon.ico") or f"//{USER}:secret@" in url]
    complaints = user.complaints()
    assert not complaints, "\n".join(complaints)


def leave(page):
    """A page that stays open goes on asking, and complains when there is nobody left to ask."""
    page.open("about:blank")


def guarded(port, base="/libra/"):
    """What a browser writes into the header itself changes nothing."""
    status, _ = servers.ask(port, f"{base}submit")
    assert status == 401, status
    status, _ = servers.ask(port, f"{base}submit", ("X-Remote-User", USER))
    assert status == 401, status
    status, text = servers.ask(port, f"{base}submit", basic(USER), ("X-Remote-User", "bob"))
    assert status == 200 and "name=\"script\"" in text, (status, text)
    for headers in ([basic("bob")], [basic("bob"), ("X-Remote-User", USER)], [basic("bob"), ("X-Remote-User", USER), ("X-Remote-User", USER)], [basic("../x")]):
        status, text = servers.ask(port, f"{base}submit", *headers)
        assert status in (403, 502, 503, 404) and "name=\"script\"" not in text, (headers, status, text)


def behind(portal, page, kind, site):
    with portal.web(), site:
        guarded(site.port)
        user = user_at(portal, page, site.port, "/libra/")
        works(user, portal, kind)
        user.check_view(f"portal-{kind}")
        assert not user.problems, user.problems
        leave(page)


def behind_nginx(portal, page):
    port = servers.free_port()
    site = servers.example("nginx.conf", {"listen 443 ssl;": f"listen 127.0.0.1:{port};", r"ssl_certificate\w* .*;": "", "/etc/nginx/libra.users": str(portal.users), "/run/libra-web": str(portal.sockets)})
    behind(portal, page, "nginx", servers.nginx(portal.where, portal.directory / "nginx", site, port, worker()))


def behind_apache(portal, page):
    port = servers.free_port()
    site = servers.example("apache.conf", {r"\*:443": f"127.0.0.1:{port}", "SSL.*": "", "/etc/apache2/libra.users": str(portal.users), "/run/libra-web": str(portal.sockets)})
    behind(portal, page, "apache", servers.apache(portal.where, portal.directory / "apache", site, port, worker()))


def a_stranger_at_the_socket(portal, _):
    """Another user of the machine reaches the socket, and says whatever it likes: it is refused; so is the proxy's own user without the header."""
    def ask(user, *headers):
        request = "".join(f"{line}\r\n" for line in ("GET /libra/submit HTTP/1.1", "Host: localhost", *headers, "Connection: close", ""))
        # By its text, as the tests may be where nobody else can read.
        code = f"{pathlib.Path(servers.__file__).read_text()}\nprint(ask_socket(sys.argv[1], sys.argv[2]))".replace("import time", "import sys, time")
        words = [sys.executable if os.access(sys.executable, os.X_OK) and not ROOT else "python3", "-c", code, str(portal.socket), request]
        return subprocess.run(words, capture_output=True, text=True, check=True, cwd="/", env={"PATH": "/usr/bin:/bin"}, **as_user(user)).stdout
    named = f"X-Remote-User: {USER}"
    with portal.web():
        assert "name=\"script\"" in ask(USER, named)
        assert "name=\"script\"" in ask(WORKER, named)
        for user, headers, says in [(WORKER, (), "Nobody is logged in"), (WORKER, (named, named), "there twice"), (WORKER, ("X-Remote-User: bob",), "that you are bob")]:
            text = ask(user, *headers)
            assert " 403 " in text and says in text, text
        if STRANGER:
            text = ask(STRANGER, named)
            assert " 403 " in text and "does not speak for the proxy" in text and "name=\"script\"" not in text, text


def ondemand(portal, port):
    """What Open OnDemand's Apache does with /pun: it logs in, names the user, keeps the name of the host, edits cookies and redirects."""
    return f"""<VirtualHost 127.0.0.1:*>
<Location "/pun">
    AuthType Basic
    AuthName "Portal"
    AuthBasicProvider file
    AuthUserFile {portal.users}
    Require valid-user
    ProxyPreserveHost On
    ProxyAddHeaders On
    ProxyPass "http://127.0.0.1:{port}/pun"
    ProxyPassReverse "http://localhost/pun"
    Header edit* Set-Cookie ";\\s*(?i)Domain[^;]*" ""
    Header edit* Set-Cookie ";\\s*(?i)Path\\s*=(?-i)(?!\\s*/pun)[^;]*" "; Path=/pun"
    RequestHeader set X-Forwarded-Proto http
    RequestHeader set X-Forwarded-User expr=%{{REMOTE_USER}}
    RequestHeader set X-Forwarded-Escaped-Uri expr=%{{REQUEST_URI}}
</Location>
</VirtualHost>"""


def passenger(portal, app):
    """What Open OnDemand says to Passenger in a user's nginx, said to Passenger in an Apache."""
    root = portal.directory / "passenger"
    root.mkdir()
    of = f"{portal.where}/usr"
    places = {"packaging_method": "deb", "bin_dir": f"{of}/bin", "support_binaries_dir": f"{of}/lib/passenger/support-binaries", "lib_dir": f"{of}/lib/passenger",
              "helper_scripts_dir": f"{of}/share/passenger/helper-scripts", "resources_dir": f"{of}/share/passenger", "include_dir": f"{of}/share/passenger/include",
              "doc_dir": f"{of}/share/doc/passenger", "ruby_libdir": f"{of}/lib/ruby/vendor_ruby", "node_libdir": f"{of}/share/passenger/node",
              "apache2_module_path": f"{of}/lib/apache2/modules/mod_passenger.so"}
    (root / "locations.ini").write_text("[locations]\n" + "".join(f"{name}={place}\n" for name, place in places.items()))
    temporary = root / "instances"
    temporary.mkdir()
    if ROOT:
        shutil.chown(temporary, USER)
    return f"""PassengerRoot {root}/locations.ini
PassengerInstanceRegistryDir {temporary}
PassengerDataBufferDir {temporary}
PassengerLogFile {portal.own}/passenger.log
PassengerNodejs {shutil.which('node')}
PassengerUserSwitching off
PassengerDefaultUser {USER}
PassengerLoadShellEnvvars off
PassengerDisableSecurityUpdateCheck on
PassengerDisableAnonymousTelemetry on
PassengerMinInstances 0
PassengerMaxInstancesPerApp 1
PassengerSpawnMethod direct
PassengerPoolIdleTime 300
DocumentRoot {portal.directory}
Alias /pun/sys/libra {app}/public
<Location /pun/sys/libra>
    PassengerBaseURI /pun/sys/libra
    PassengerAppRoot {app}
    PassengerEnabled on
    PassengerAppEnv production
    Require all granted
</Location>"""


def pages(portal):
    """Pages of `libra web` that this portal's app has started: their sockets."""
    return set(portal.own.glob(f"libra-web-{pwd.getpwnam(USER).pw_uid}-*"))


def in_ondemand(portal, page):
    app = portal.directory / "apps/libra"
    shutil.copytree(APP, app)
    settings = portal.directory / "env"
    settings.write_text(f"# What this portal sets.\nLIBRA=/nowhere/libra\nLIBRA_CONFIG='{portal.config}'\nLIBRA_WEB_OPTIONS=--system local\nXDG_STATE_HOME={portal.own}/state\n")
    # Apps of a portal read it in /etc, and have their sockets in /tmp; this one is told other places, for there may be another such test.
    text = (app / "app.js").read_text()
    for place, here in (("'/etc/ood/config/apps/libra/env'", json.dumps(str(settings))), ("`/tmp/libra-web-", f"`{portal.own}/libra-web-")):
        assert place in text, place
        text = text.replace(place, here)
    (app / "app.js").write_text(text)
    inner, outer = servers.free_port(), servers.free_port()
    assert not pages(portal)
    own = servers.apache(portal.where, portal.own / "pun", passenger(portal, app), inner, None, ("alias", "passenger"), **as_user(USER))
    if ROOT:
        shutil.chown(portal.own / "pun", USER)
    front = servers.apache(portal.where, portal.directory / "front", ondemand(portal, inner), outer, worker())
    with own, front:
        status, text = servers.ask(outer, "/pun/sys/libra/submit", basic(USER))
        assert status == 502 and "/nowhere/libra cannot be started (ENOENT)" in text, (status, text)
        settings.write_text(settings.read_text().replace("/nowhere/libra", str(portal.libra)))
        status, text = servers.ask(outer, "/pun/sys/libra/submit", basic(USER), ("X-Forwarded-User", "bob"))
        assert status == 200 and "name=\"script\"" in text, (status, text)
        # The portal's other user, had it come to this one's nginx.
        status, text = servers.ask(outer, "/pun/sys/libra/submit", basic("bob"))
        assert status == 403 and "that you are bob" in text, (status, text)
        started = pages(portal)
        assert len(started) == 1, started
        user = user_at(portal, page, outer, "/pun/sys/libra/", first="/pun/sys/libra")
        works(user, portal, "ondemand")
        environment = job_environment(user, portal)
        strange = [name for name in environment if re.match("PASSENGER|NODE|RUBY|RAILS|RACK|WSGI|LD_LIBRARY|IN_PASS|APACHE|LIBRA_ONDEMAND", name)]
        assert not strange, strange
        assert "HOME" in environment and "LIBRA_CONFIG" in environment, environment
        leave(page)
    end = time.monotonic() + 180
    while pages(portal):
        assert time.monotonic() < end, "a page was left behind by its app"
        time.sleep(0.1)


def job_environment(user, portal):
    """Names of the variables that a job has."""
    user.submit(script=drive.lines("env\necho all-of-it\n"), name="environment", directory=str(portal.own / "work"), **TERMS)
    user.wait_output("all-of-it")
    return [line.partition("=")[0] for line in user.output().splitlines()]


def main(libra, where, pictures):
    tests = {"behind nginx": behind_nginx, "behind Apache": behind_apache, "a stranger at the socket": a_stranger_at_the_socket, "in Open OnDemand": in_ondemand}
    wanted = sys.argv[4:] or list(tests)
    failed = []
    with tempfile.TemporaryDirectory() as directory, contextlib.ExitStack() as stack:
        portal = Portal(libra, where, directory, pictures)
        (portal.directory / "browser").mkdir()
        try:
            page = stack.enter_context(browser.Browser(drive.chromium(), portal.directory / "browser"))
            for name in wanted:
                began = time.time()
                try:
                    page.said.clear()
                    page.requested.clear()
                    tests[name](portal, page)
                    print(f"ok {name}", flush=True)
                except Exception:
                    failed.append(name)
                    leave(page)
                    print(f"FAILED {name}, {time.time() - began:.0f} s after it began\n{traceback.format_exc(limit=4)}", flush=True)
                    # Of this test's servers: what the innermost says comes first, as whoever is shown a part sees the beginning.
                    for log in [*portal.own.glob("*.log"), *portal.own.glob("*/*log"), *portal.directory.glob("*/*log")]:
                        if log.stat().st_mtime >= began:
                            print(f"{log.name} of {log.parent.name}: {log.read_text(errors='replace')[-1500:]}", flush=True)
        finally:
            portal.end()
    print(f"{len(wanted) - len(failed)} passed, {len(failed)} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(pathlib.Path(sys.argv[1]).resolve(), pathlib.Path(sys.argv[2]).resolve(), sys.argv[3]))
