#!/usr/bin/env python3
"""What Libra in pbs_server is made of goes wrong: the library, its configuration, its records. The server lives, users are told,
and nothing that was promised is forgotten.

Run as root: `tests/openpbs/run test_faults_library`. Takes about three minutes. LIBRA_FAULTY_LIBRARY: a library that was built with the
feature test-faults; without it one is built.
"""

import json
import os
import pathlib
import shutil
import subprocess
import sys
import time
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))

from libra_site import TOP  # noqa: E402
from promises import expect_free, free_nodes, libra_log, terms  # noqa: E402
from test_faults import OneSite  # noqa: E402  (puts tests/batch in the path)
import faulty  # noqa: E402

DEADLY = ["-l", "deadline=100,estimate=10,budget=666"]  # the library panics when it sees this budget


def faulty_library():
    """A library that panics when it is asked to."""
    given = os.environ.get("LIBRA_FAULTY_LIBRARY")
    return pathlib.Path(given) if given else faulty.built("libra", "liblibra.so")


class FaultySite(OneSite):
    """What several classes need."""

    def restart(self, begin=lambda: None):
        """The server is ended, something is done, it is started."""
        self.pbs.kill_server()
        begin()
        self.pbs.start_server()
        free_nodes(self.pbs)

    def said(self, text, cause=lambda: None):
        """Wait for a line of Libra's in the server's log, and bring its cause about until it is there."""
        def is_there():
            cause()
            return [line for line in libra_log(self.pbs) if text in line]
        self.pbs.wait(f"'{text}' in the log", is_there)

    def expect_fault(self, *reasons):
        """A job with terms is refused, with a text that says why; one without is not."""
        refused = self.pbs.qsub(*terms(0.1))
        self.assertEqual(refused.rc, 32)
        self.assertIn("libra: cannot judge this job, so it is refused; please tell the administrators", refused.err)
        for reason in reasons:
            self.assertIn(reason, refused.err)
        self.said("fault in libra_queuejob")
        # Held, because Libra's hook lets it pass as it is: running, it would keep its node to itself.
        plain = self.pbs.qsub("-h", "-l", "select=1:ncpus=1")
        self.assertEqual(plain.rc, 0, plain.err)
        self.pbs.qdel(plain.out)


class Panics(FaultySite):
    """The library panics: the event has no answer, everything else goes on."""

    options = {"hosts": 2, "processors": 1, "library": None}

    @classmethod
    def setUpClass(cls):
        cls.options = {**cls.options, "library": faulty_library()}
        super().setUpClass()

    def test_refuse_and_admit(self):
        pbs = self.pbs
        n1, n2 = pbs.host_names
        server = pbs.server_pid()
        kept = pbs.submit(*terms(0.4, n1))
        pbs.wait_started(kept)
        for _ in range(3):
            refused = pbs.qsub(*DEADLY)
            self.assertEqual(refused.rc, 32)
            self.assertIn("libra: cannot judge this job, so it is refused; please tell the administrators", refused.err)
        self.said("fault in libra_queuejob: Fault:")
        expect_free(self, pbs, {n1: 0.6, n2: 1})

        pbs.write_config('[pbs]\non-fault = "admit"\n')
        pbs.install()
        admitted = pbs.submit(*DEADLY, "-l", f"select=1:ncpus=1:host={n2}")
        has = pbs.wait_started(admitted)
        self.assertEqual(has["Resource_List.libra_info"], "admitted without a promise: Libra could not judge it")
        self.assertNotIn("Resource_List.libra_terms", has)
        self.assertEqual([name for name in pbs.cgroups() if name.endswith(f" job-{admitted}")], [], "it runs without a cap")
        expect_free(self, pbs, {n1: 0.6})
        # It has all processors of its node, so nothing else is started there before it has ended.
        self.assertIn("refused (no-node)", pbs.qsub(*terms(0.1, n2)).err)
        pbs.qdel(admitted)
        pbs.wait("its node is free", lambda: pbs.node(n2)["state"] == "free")
        expect_free(self, pbs, {n1: 0.6, n2: 1})
        self.assertEqual(pbs.server_pid(), server)
        self.assertEqual(pbs.qstat(kept)["job_state"], "R")


class BadFiles(FaultySite):
    """Files that are missing or broken."""

    options = {"hosts": 2, "processors": 1}

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        pbs = cls.pbs
        # A library that can be taken away without taking it from others.
        cls.original, cls.library = pbs.library, pbs.own / "liblibra.so"
        shutil.copy(cls.original, cls.library)
        pbs.library = cls.library
        pbs.install()

    def test_library(self):
        """Missing, no library at all, or another one: until it is there again nothing is judged, then everything is as before."""
        pbs = self.pbs
        n1, n2 = pbs.host_names
        runs = pbs.submit(*terms(0.4, n1))
        pbs.wait_started(runs)

        def put(source):
            self.library.unlink(missing_ok=True)
            if source:
                shutil.copy(source, self.library)

        other = next(pathlib.Path("/lib").rglob("libm.so.6"))
        for source, reason in [(None, "No such file"), (__file__, "invalid ELF header"), (other, "libra_pbs_event")]:
            with self.subTest(source):
                self.restart(lambda source=source: put(source))
                self.expect_fault(reason)
                put(self.original)
                # dlopen knows what it has loaded by its name: another file in its place is seen by a new server.
                if source == other:
                    self.restart()
                expect_free(self, pbs, {n1: 0.6, n2: 1})
                self.assertEqual(pbs.qstat(runs)["run_count"], "1")

    def test_hook_config(self):
        """What the hooks were told cannot be read."""
        pbs = self.pbs
        n1 = pbs.host_names[0]
        pbs.submit(*terms(0.3, n1))
        broken = pbs.own / "broken.json"
        broken.write_text('{"library": ')
        pbs.qmgr(f"import hook libra_queuejob application/x-config default {broken}")
        self.expect_fault("line 1")
        pbs.install()
        expect_free(self, pbs, {n1: 0.7})

    def test_server_configuration(self):
        """Broken while the server runs, or when it starts: the last rules stay. Where they are not known: nothing can be judged."""
        pbs = self.pbs
        n1 = pbs.host_names[0]
        pbs.write_config('[admission]\nestimate-margin = "5%"\n')
        expect_free(self, pbs, {n1: 1})
        pbs.write_config('[admission]\nestimate-margin = "five"\n')
        expect_free(self, pbs, {n1: 1})
        self.said("the rules stay as they were")
        self.said("'five' is not a margin")
        self.restart()
        expect_free(self, pbs, {n1: 1})
        (pbs.own / ".server.toml.last").unlink()
        self.restart()
        self.expect_fault("server.toml", "'five' is not a margin")
        pbs.write_config("")
        expect_free(self, pbs, {n1: 1})

    def test_records(self):
        """records.json is for what no event has told; whatever is in its place, the book stays."""
        pbs = self.pbs
        n1, n2 = pbs.host_names
        pbs.qmgr("set hook libra_periodic enabled = false")
        self.addCleanup(pbs.qmgr, "set hook libra_periodic enabled = true")
        pbs.wait_started(pbs.submit(*terms(0.4, n1)))
        pbs.qmgr("set server scheduling = false")
        pbs.submit(*terms(0.3, n2))
        left = {n1: 0.6, n2: 0.7}
        expect_free(self, pbs, left)
        record = pbs.home / "server_priv/libra/records.json"
        record.parent.mkdir(exist_ok=True)
        nodes = [{"name": host, "share": "1", "up": True, "resources": {"host": host}} for host in pbs.host_names]
        for text, said in [("not JSON", "records.json: expected ident"), ("", "records.json: EOF"), ("[]", "records.json: "), ("null", "records.json: "), ("{}", "records.json: "),
                           ('{"jobs": 5, "nodes": {}, "taken": 7}', "records.json: "), (json.dumps({"jobs": [], "nodes": nodes}), "records.json: "),
                           (json.dumps({"jobs": [], "nodes": nodes, "taken": time.time() - 3600}), "s old, expected at most")]:
            with self.subTest(text[:30]):
                # A hook that was at work when it was switched off may write it once more; it is read when there is an event.
                def put(text=text):
                    record.write_text(text)
                    expect_free(self, pbs, left)
                self.said(said, put)

        def too_large():
            with open(record, "r+b") as file:
                file.truncate(300 << 20)
            expect_free(self, pbs, left)
        self.said("too large, not read", too_large)
        record.unlink()
        expect_free(self, pbs, left)


if __name__ == "__main__":
    unittest.main()
