#!/usr/bin/env python3
"""Users who say themselves what is committed to their jobs: PBS lets none of them; and what an administrator says takes nothing from others.

Run as root: `python3 tests/openpbs/test_forged.py`.
"""

import json
import pathlib
import subprocess
import sys
import time
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))

from case import SiteCase  # noqa: E402

HERE = pathlib.Path(__file__).resolve().parent
OURS = ["libra_terms", "libra_price", "libra_info", "libra_share", "libra_besteffort"]


class Forged(SiteCase):
    """One host of one processor, more than half of which is a victim's; the attacker is another user."""

    site = {"hosts": 1, "users": 2}

    @classmethod
    def prepare(cls):
        cls.host, = cls.pbs.host_names
        cls.attacker, cls.owner = cls.pbs.users[:2]
        cls.ifl = cls.pbs.directory / "ifl"
        lib = pathlib.Path(cls.pbs.exec) / "lib"
        subprocess.run(["cc", "-o", cls.ifl, HERE / "ifl.c", f"-I{lib.parent}/include", f"-L{lib}", "-lpbs", f"-Wl,-rpath,{lib}"], check=True)
        cls.script = cls.pbs.directory / "forged.sh"
        cls.script.write_text("sleep 1000\n")
        for file in (cls.ifl, cls.script):
            file.chmod(0o755)

    def line(self, share=1, processors=1):
        return (f"v=1:token=1:submitted={time.time()}:estimate=500:deadline=1000:budget=1:type=hard:penalty=0:price=0:chunks=1:processors={processors}:memory=0:"
                f"scatter=0:count=1:at={self.host}*1*{share}")

    def victim(self):
        # Of so long a deadline a quarter of an hour is next to nothing.
        victim = self.accept(500_000, 1_000_000, user=self.owner, budget=1_000_000)
        self.running(victim)
        return victim

    def unharmed(self, victim):
        """The victim keeps its quota: what it was promised, and the little that it lacks by now."""
        quota = self.quota(victim, self.host)
        self.assertTrue(0.52 <= quota <= 0.54, f"the victim's quota is {quota}")

    def rejected(self):
        """What the host has counted: {reason: jobs}."""
        file = self.pbs.own / self.host / "counts.json"
        return json.loads(file.read_text())["totals"].get("claims-rejected", {}) if file.exists() else {}

    def test_no_user_can(self):
        """By qsub, by lines of a script, by qalter, by PBS's own interface; with terms and without."""
        pbs, victim = self.pbs, self.victim()
        replayed = pbs.qstat(victim)["Resource_List.libra_terms"]
        terms = ["estimate=1", "deadline=100", "budget=9"]
        for commitment in (self.line(), self.line(1, 65536), replayed, "v=1", ""):
            for more in ([], terms):
                with self.subTest(f"{commitment[:20]} {more}"):
                    entries = [*more, f"libra_terms={commitment}"]
                    for asked in (pbs.qsub(*[word for entry in entries for word in ("-l", entry)], user=self.attacker),
                                  pbs.qsub(user=self.attacker, script="".join(f"#PBS -l {entry}\n" for entry in entries) + "sleep 1000\n"),
                                  pbs.run(self.ifl, "submit", self.script, *entries, user=self.attacker)):
                        # An empty one may be taken for none.
                        if commitment or asked.rc != 0:
                            self.assertNotEqual(asked.rc, 0, asked.out)
                        else:
                            self.assertNotIn("v=1", pbs.qstat(asked.out.strip()).get("Resource_List.libra_terms", "") if not more else "")
                            pbs.qdel("-Wforce", asked.out.strip())
        for name in OURS:
            for more in ([], terms):
                asked = pbs.run(self.ifl, "submit", self.script, *more, f"{name}=1", user=self.attacker)
                self.assertNotEqual(asked.rc, 0, name)
        pbs.qmgr("set server scheduling = false")
        for more in ([], ["-l", ",".join(terms)]):
            job = pbs.submit(*more, user=self.attacker)
            before = pbs.qstat(job)
            for name in OURS:
                for change in (pbs.run("qalter", "-l", f"{name}={self.line()}" if name == "libra_terms" else f"{name}=1", job, user=self.attacker),
                               pbs.run(self.ifl, "alter", job, f"{name}={self.line()}" if name == "libra_terms" else f"{name}=1", user=self.attacker),
                               pbs.run(self.ifl, "alter", job, f"{name}=", user=self.attacker)):
                    self.assertNotEqual(change.rc, 0, name)
            after = pbs.qstat(job)
            self.assertEqual({key: after.get(key) for key in after if "libra" in key}, {key: before.get(key) for key in before if "libra" in key})
        self.unharmed(victim)
        self.assertEqual(self.rejected(), {})

    def test_what_administrators_write(self):
        """Somebody who may write everything gives a job a line: the victim keeps what it was promised all the same."""
        pbs, victim = self.pbs, self.victim()
        replayed = pbs.qstat(victim)["Resource_List.libra_terms"]
        # The server's own checks are put out of the way.
        hooks = ("libra_modifyjob", "libra_runjob")
        pbs.qmgr(*(f"set hook {hook} enabled = false" for hook in hooks))
        try:
            for commitment, reason, share in ((self.line(1, 65536), "capacity", None), ("forged", "unrecorded", None), (self.line(), "capacity", 0.475), (replayed, "capacity", 0.475)):
                with self.subTest(commitment):
                    before = self.rejected().get(reason, 0)
                    pbs.qmgr("set server scheduling = false")
                    job = pbs.submit("-l", "ncpus=0", user=self.attacker)
                    changed = pbs.run("qalter", "-l", f"libra_terms={commitment}", job)
                    self.assertEqual(changed.rc, 0, changed.err)
                    pbs.cycle()
                    self.running(job)
                    self.assertEqual(self.rejected().get(reason, 0), before + 1)
                    self.assertEqual(pbs.cgroup(self.host, job).exists(), share is not None)
                    if share is not None:
                        self.assertAlmostEqual(self.quota(job, self.host), share, delta=0.04)
                    self.unharmed(victim)
                    pbs.qdel("-Wforce", job)
                    pbs.wait("it is gone", lambda job=job: not pbs.cgroup(self.host, job).exists())
        finally:
            pbs.qmgr(*(f"set hook {hook} enabled = true" for hook in hooks))


if __name__ == "__main__":
    unittest.main()
