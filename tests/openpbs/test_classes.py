#!/usr/bin/env python3
"""Classes of service on an OpenPBS with Libra: whole processors, given now and held from start to end, or refused.

Run as root: `python3 tests/openpbs/test_classes.py`. Nothing is measured here: what a job may use stands in its cgroup.
"""

import json
import pathlib
import sys
import time
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))

from case import SiteCase  # noqa: E402

HOUR = 3600
BUSY = "exec python3 -c 'while True: pass'\n"


class Classes(SiteCase):
    """Two hosts of two processors, with agents, so that shares are taken anew as jobs get on."""

    site = {"hosts": 2, "processors": 2, "agents": True, "server_config": "[class]\ndedicated-price = 2.0\nimmediate-price = 3.0\n"}

    @property
    def host(self):
        return self.pbs.host_names[0]

    def whole(self, terms, *more, **options):
        """A job of one processor on the first host; qsub's answer."""
        return self.pbs.qsub("-l", f"budget=1000000,{terms}", "-l", f"select=1:ncpus=1:host={self.host}", *more, **options)

    def taken(self, answer):
        """The number of a job that was accepted."""
        self.assertEqual(answer.rc, 0, answer.err)
        return answer.out.strip()

    def shown(self, job):
        """The job in `libra pbs status`."""
        status = json.loads(self.pbs.must(self.pbs.libra, "--config", self.pbs.own / "server.toml", "pbs", "status", "--json"))
        [found] = [one for one in status["jobs"] if one["id"] == job]
        return found

    def test_whole_processors_are_held_while_the_job_gets_on(self):
        """With its estimate used and hours until its deadline a job with a share would need next to nothing: this one keeps its processor."""
        job = self.taken(self.whole("estimate=2,deadline=2h,class=dedicated", script=BUSY))
        self.running(job)
        self.assertEqual((self.share(job), self.terms(job)["class"]), (1.0, "dedicated"))
        self.assertIn("a whole processor on", self.pbs.qstat(job)["Resource_List.libra_info"])
        self.assertEqual(self.quota(job, self.host), 1.0)
        self.pbs.wait("it has used its estimate", lambda: self.used(job, self.host) > 2.5)
        self.assertEqual(self.quota(job, self.host), 1.0)
        # One of two processors is left to others, half of which somebody gets.
        self.running(self.taken(self.whole(f"estimate={HOUR},deadline=2h")))
        self.refused(self.whole(f"estimate={HOUR},class=immediate"), "refused (share)", f"the best node, {self.host}, has")
        found = self.shown(job)
        self.assertEqual((found["class"], found["share"]), ("dedicated", 1.0))

    def test_an_immediate_job_needs_no_deadline(self):
        """It starts at once, and PBS lets it run for another estimate."""
        job = self.taken(self.whole(f"estimate={HOUR},class=immediate"))
        self.running(job)
        record = self.pbs.qstat(job)
        self.assertEqual(record["Resource_List.walltime"], "02:00:00")
        self.assertNotIn("finished", record["Resource_List.libra_info"])
        found = self.shown(job)
        self.assertEqual((found["class"], found["deadline"], found["left_seconds"]), ("immediate", None, None))

    def test_less_than_a_whole_processor_is_free(self):
        """Refused at once, with what would be taken instead; and that is taken."""
        # 1.575 with the margin.
        self.running(self.taken(self.pbs.qsub("-l", "budget=1000000,estimate=3h,deadline=4h", "-l", f"select=1:ncpus=2:host={self.host}")))
        terms = f"estimate={HOUR},deadline=4h"
        self.refused(self.whole(f"{terms},class=dedicated"), "refused (share): needs 1 CPU until its deadline", "class=deadline (costs ")
        self.running(self.taken(self.whole(f"{terms},class=deadline")))
        # No deadline: nothing that has one is offered.
        self.assertNotIn("class=deadline", self.refused(self.whole(f"estimate={HOUR},class=immediate"), "refused (share)"))

    def test_bad_input(self):
        """Each is told what is wrong with it, and is not queued."""
        terms, waits = f"estimate={HOUR},deadline=4h", "class=immediate starts at once or is refused, and this job may not start yet"
        later = time.strftime("%Y%m%d%H%M", time.localtime(time.time() + HOUR))
        other = self.pbs.submit("-h")
        for more, options, said in [
            (f"{terms},class=dedicated,libra_quote=hold:5m", [], "a quote cannot be held for class=dedicated"),
            ("deadline=4h,class=dedicated", [], "estimate is missing; class=dedicated needs it"),
            (f"estimate={HOUR},class=dedicated", [], "deadline is missing; class=dedicated needs it"),
            ("class=immediate", [], "estimate is missing; class=immediate needs it"),
            (f"estimate={HOUR},class=immediate,penalty_rate=1", [], "class=immediate promises no deadline here"),
            ("class=best-effort", [], "class=best-effort: in a batch system a job without terms is promised nothing"),
            (f"{terms},class=urgent", [], "'urgent' is no class of service"),
            (f"{terms},class=immediate", ["-h"], waits),
            (f"{terms},class=immediate", ["-a", later], waits),
            (f"{terms},class=immediate", ["-W", f"depend=afterany:{other}"], waits),
            ("estimate=4h,deadline=1h,class=immediate", [], "refused (deadline)"),
        ]:
            with self.subTest(more, options=options):
                self.refused(self.whole(more, *options), said)

    def test_what_a_site_does_not_offer(self):
        """Refused by name."""
        before = self.pbs.server_config
        self.addCleanup(self.pbs.write_config, before)
        self.pbs.write_config(f"{before}immediate = false\n")
        self.refused(self.whole(f"estimate={HOUR},class=immediate"), "class=immediate is not offered here (section [class]")


if __name__ == "__main__":
    unittest.main(verbosity=2)
