"""nginx, and Apache with Passenger, in front of `libra web`: Debian's programs, unpacked and not installed, with configurations of our own.

`where` is the directory they were unpacked in (tests/web/run does it), as if it were /. Each listens on a port of this machine that is free.
"""

import contextlib
import http.client
import pathlib
import re
import signal
import socket
import subprocess
import time


def free_port():
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        return taken.getsockname()[1]


def libraries(where):
    return {"LD_LIBRARY_PATH": ":".join(str(path) for path in sorted(pathlib.Path(where).glob("usr/lib/*-linux-gnu")))}


class Server:
    """A program in the foreground that answers at a port while a `with` lasts."""

    def __init__(self, words, port, log, **options):
        self.words, self.port, self.log, self.options = words, port, pathlib.Path(log), options

    def __enter__(self):
        with open(self.log, "ab") as log:
            self.process = subprocess.Popen(self.words, stdin=subprocess.DEVNULL, stdout=log, stderr=log, **self.options)
        end = time.monotonic() + 180
        while True:
            with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", self.port), 5):
                return self
            if self.process.poll() is not None or time.monotonic() > end:
                self.__exit__()
                raise RuntimeError(f"{self.words[0]} does not answer: {self.log.read_text(errors='replace')[-2000:]}")
            time.sleep(0.05)

    def __exit__(self, *_):
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
        try:
            self.process.wait(180)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait(180)
            raise


def ask(port, path, *headers, method="GET"):
    """One request, these headers as they are and as often as they come; its status and its text."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=120)
    try:
        connection.putrequest(method, path)
        for name, value in headers:
            connection.putheader(name, value)
        connection.endheaders()
        answer = connection.getresponse()
        return answer.status, answer.read().decode(errors="replace")
    finally:
        connection.close()


def ask_socket(path, request):
    """One request at a socket, as a program of this user would send it."""
    with socket.socket(socket.AF_UNIX) as connection:
        connection.settimeout(120)
        connection.connect(str(path))
        connection.sendall(request.encode())
        parts = []
        while part := connection.recv(65536):
            parts.append(part)
    return b"".join(parts).decode(errors="replace")


def example(name, changes):
    """A file of packaging/proxy, with places of this test in place of those of a site; each has to be there."""
    text = (pathlib.Path(__file__).resolve().parent.parent.parent / "packaging/proxy" / name).read_text()
    for before, after in changes.items():
        text, count = re.subn(before, lambda _: after, text)
        assert count, f"{name} has no {before}"
    return text


def nginx(where, directory, site, port, worker):
    """nginx with one site. `worker`: the user of its workers, where it is started by root; None elsewhere."""
    directory.mkdir()
    user = f"user {worker[0]} {worker[1]};" if worker else ""
    temporary = "".join(f"{kind}_temp_path {directory}/{kind};" for kind in ("client_body", "proxy", "fastcgi", "uwsgi", "scgi"))
    configuration = directory / "nginx.conf"
    configuration.write_text(f"daemon off; {user} pid {directory}/pid; error_log {directory}/error.log; worker_processes 1; events {{}}\n"
                             f"http {{ access_log off; {temporary}\n{site}\n}}\n")
    return Server([f"{where}/usr/sbin/nginx", "-p", str(directory), "-c", str(configuration), "-e", f"{directory}/error.log"], port, directory / "log", env=libraries(where))


MODULES = ("mpm_event", "authn_core", "authn_file", "auth_basic", "authz_core", "authz_user", "headers", "rewrite", "proxy", "proxy_http", "env")


def apache(where, directory, site, port, worker, more=(), **options):
    """Apache with one site and, beyond MODULES, those of `more`. It waits for whoever answers it longer than who asks does: how fast a machine is
    is not what is tried, and of an answer that was given up nothing would be known."""
    directory.mkdir()
    modules = f"{where}/usr/lib/apache2/modules"
    user = f"User {worker[0]}\nGroup {worker[1]}\n" if worker else ""
    lines = [f'ServerRoot "{directory}"', f'PidFile "{directory}/pid"', f'ErrorLog "{directory}/error.log"', "ServerName localhost", "Timeout 600", f"DefaultRuntimeDir {directory}",
             f'Mutex file:{directory}', f"Listen 127.0.0.1:{port}", user, *(f"LoadModule {name}_module {modules}/mod_{name}.so" for name in (*MODULES, *more)), site]
    configuration = directory / "apache.conf"
    configuration.write_text("\n".join(lines) + "\n")
    return Server([f"{where}/usr/sbin/apache2", "-d", str(directory), "-f", str(configuration), "-DFOREGROUND"], port, directory / "log", env={**libraries(where), "PATH": "/usr/bin:/bin"}, **options)
