#!/usr/bin/env python3
"""Classes of service on a Slurm with Libra: whole processors, given now and held from start to end, or refused.

Run as root: `python3 tests/slurm/test_classes.py`. Nothing is measured here: what a job may use stands in its cgroup.
"""

import json
import pathlib
import re
import shutil
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))

from case import BAD_OPTION, SiteCase  # noqa: E402
from libra_site import busy, program  # noqa: E402
from scripts import idle_until, works_until  # noqa: E402

HOUR = 3600
PRICES = "[class]\ndedicated-price = 2.0\nimmediate-price = 3.0\n"


class Classes(SiteCase):
    """Two nodes of two processors each, with agents, so that shares are taken anew as jobs get on."""

    site = {"nodes": 2, "cpus": 2, "agents": True, "rules": PRICES, "partitions": {"urgent": {"OverSubscribe": "FORCE:20"}}}

    def setUp(self):
        self.enough = self.slurm.directory / f"enough-{self.id().rpartition('.')[2]}"

    def whole(self, sla_class, *more, estimate=HOUR, script=None):
        """A job of a whole processor on the first node, which works until it is told; sbatch's answer."""
        return self.slurm.judged(f"--sla-class={sla_class}", f"--estimate={estimate}", "--budget=1000000", "-n", 1, "-w", self.slurm.nodes[0], *more,
                                 script=script or works_until(self.enough))

    def taken(self, answer):
        """The number of a job that was accepted."""
        self.assertEqual(answer.rc, 0, answer.err)
        return answer.out

    def fill(self, slots, estimate, deadline):
        """A job with a share on the first node, which does nothing until it is told."""
        return self.accept(estimate, deadline, "-n", 1, "-c", slots, "-w", self.slurm.nodes[0], budget=1000000, script=idle_until(self.enough))

    def shown(self, job):
        """The job in `libra slurm status`."""
        libra = shutil.copy(program(), self.slurm.directory / "libra")
        status = json.loads(self.slurm.must(libra, "--config", self.slurm.rules_file, "slurm", "status", "--json"))
        [found] = [one for one in status["jobs"] if one["id"] == job]
        return found

    def test_whole_processors_are_held_while_the_job_gets_on(self):
        """With its estimate used and hours until its deadline a job with a share would need next to nothing: this one keeps its processor."""
        slurm, node = self.slurm, self.slurm.nodes[0]
        answer = self.whole("dedicated", "--sla-deadline=2h", estimate=2, script=busy(3) + idle_until(self.enough))
        job = self.taken(answer)
        self.assertRegex(answer.err, rf"accepted: a whole processor on {node} from now on, finished in \S+ at the latest, for \S+ of 1000000 credits")
        self.started(job)
        self.assertEqual((self.share(job), self.commitment(job)["class"]), (1.0, "dedicated"))
        self.assertEqual(self.quota(job, node), 1.0)
        self.booked(job)
        slurm.wait("it has used its estimate", lambda: self.used(job) > 2.5)
        self.assertEqual(self.quota(job, node), 1.0)
        # One of two processors is left to others, half of which somebody gets.
        with_share = self.fill(1, HOUR, 2 * HOUR)
        self.refused(self.whole("immediate"), "refused (share)", f"the best node, {node}, has")
        found = self.shown(job)
        self.assertEqual((found["class"], found["share"]), ("dedicated", 1.0))
        self.assertEqual(self.shown(with_share)["class"], "deadline")
        self.enough.touch()
        self.met(job, with_share)

    def test_an_immediate_job_needs_no_deadline(self):
        """It starts at once; it is told none, and Slurm lets it run for another estimate."""
        slurm, node = self.slurm, self.slurm.nodes[0]
        answer = self.whole("immediate",
                            script="echo due ${LIBRA_DEADLINE-never}\n" + works_until(self.enough))
        job = self.taken(answer)
        self.assertRegex(answer.err, rf"accepted: a whole processor on {node} from now on, for \S+ of 1000000 credits")
        self.started(job)
        self.assertEqual(slurm.job(job)["TimeLimit"], "02:00:00")
        slurm.wait("it says when it is due", lambda: "due never\n" in slurm.output(job))
        self.booked(job)
        found = self.shown(job)
        self.assertEqual((found["class"], found["deadline"], found["deadline_seconds"], found["left_seconds"]), ("immediate", None, None, None))
        self.enough.touch()
        text, _ = self.ending(job)
        self.assertRegex(text, rf"job {job} is done: ended after ")

    def test_prices_by_class(self):
        """Of the same terms: once, twice, and three times what they cost at full speed."""
        price = lambda answer: float(re.search(r"for (\S+) of", answer.err)[1])  # noqa: E731
        by_share, dedicated = (self.whole(sla_class, "--sla-deadline=4h") for sla_class in ("deadline", "dedicated"))
        self.taken(by_share)
        self.taken(dedicated)
        self.assertAlmostEqual(price(dedicated), 2 * price(by_share), delta=1)
        immediate = self.whole("immediate", "--sla-deadline=4h", "-w", self.slurm.nodes[1])
        self.taken(immediate)
        # The linear rule: estimate and estimate / deadline, which is 1 at full speed.
        self.assertAlmostEqual(price(immediate), 3 * (HOUR + 1), delta=1)

    def test_less_than_a_whole_processor_is_free(self):
        """Refused at once, with what would be taken instead; and that is taken."""
        node = self.slurm.nodes[0]
        # 1.575 with the margin, and a little more for each second until it runs.
        self.fill(2, 3 * HOUR, 4 * HOUR)
        refused = self.whole("dedicated", "--sla-deadline=4h")
        text = self.refused(refused, "refused (share): needs 1 CPU until its deadline")
        self.assertRegex(text, rf"the best node, {node}, has 0\.4\d* free")
        self.assertRegex(text, r"(?m)--sla-class=deadline \(costs \S+\)$")
        self.taken(self.whole("deadline", "--sla-deadline=4h"))
        # No deadline: nothing that has one is offered.
        self.assertNotIn("--sla-class", self.refused(self.whole("immediate"), "refused (share)"))

    def test_an_array_and_two_nodes(self):
        """A whole processor for each slot, wherever it is."""
        answer = self.slurm.judged("--sla-class=immediate", f"--estimate={HOUR}", "--budget=1000000", "-N", 2, "-n", 4, script=f"srun sh -c '{idle_until(self.enough).strip()}'\n")
        self.assertIn("accepted: 4 whole processors on ", answer.err)
        job = self.taken(answer)
        self.started(job)
        for node in self.slurm.nodes:
            self.assertGreaterEqual(self.quota(job, node), 2.0, "all of its processors: without a cap they are as many")
        self.refused(self.whole("deadline", "--sla-deadline=100h"), "refused (share)")

    def test_bad_input(self):
        """Each is told what is wrong with it, and is not queued."""
        budget = "--budget=100000"
        terms = [budget, f"--estimate={HOUR}", "--sla-deadline=4h"]
        waits = "class=immediate starts at once or is refused, and this job may not start yet"
        other = self.slurm.must("sbatch", "--parsable", "--hold", "--wrap=true", user=self.slurm.users[0]).strip()
        for options, said in [
            ([*terms, "--sla-class=dedicated", "--sla-quote=hold:5m"], "a quote cannot be held for class=dedicated"),
            ([budget, "--sla-deadline=4h", "--sla-class=dedicated"], "estimate is missing; class=dedicated needs it"),
            ([budget, f"--estimate={HOUR}", "--sla-class=dedicated"], "give it as --sla-deadline=…"),
            ([budget, "--sla-class=immediate"], "estimate is missing; class=immediate needs it"),
            ([f"--estimate={HOUR}", "--sla-class=immediate"], "give it as --budget=…"),
            ([budget, f"--estimate={HOUR}", "--sla-class=immediate", "--penalty-rate=1"], "class=immediate promises no deadline here"),
            (["--sla-class=best-effort"], "class=best-effort: in a batch system a job without terms is promised nothing"),
            (["--comment=libra:class=urgent"], "'urgent' is no class of service"),
            ([*terms, "--sla-class=immediate", "--begin=now+1hour"], waits),
            ([*terms, "--sla-class=immediate", "--hold"], waits),
            ([*terms, "--sla-class=immediate", f"--dependency=afterany:{other}"], waits),
            (["--budget=100000", "--estimate=4h", "--sla-deadline=1h", "--sla-class=immediate"], "refused (deadline)"),
        ]:
            with self.subTest(options):
                self.refused(self.slurm.sbatch(*options), said)
        self.refused(self.slurm.sbatch(*terms, "--sla-class=urgent"), "deadline, dedicated, immediate, best-effort", status=BAD_OPTION)

    def test_classes_of_jobs_that_name_none(self):
        """By the partition, else by the processors: a quote, a submission and a refusal say the same, and what a job names counts."""
        slurm, node = self.slurm, self.slurm.nodes[0]
        slurm.rule(f"{PRICES}several = 'dedicated'\n[class.queues]\nurgent = 'immediate'\n")
        terms = [f"--estimate={HOUR}", "--sla-deadline=4h", "--budget=1000000", "-w", node]
        for options, sla_class, line in [
            (["-n", 1], "deadline", None),
            (["-n", 2], "dedicated", "class.several"),
            (["-p", "urgent", "-n", 2], "immediate", "class.queues.urgent"),
            (["-p", "urgent,main", "-n", 2, "--sla-class=deadline"], "deadline", None),
        ]:
            with self.subTest(options):
                question = slurm.judged(*terms, *options, "--sla-quote=ask", "--test-only").err
                [found] = re.findall(r"libra-quote: (\{.*\})", question)
                quote = json.loads(found)
                self.assertEqual((quote["accepted"], quote["class"], quote["class_line"]), (True, sla_class, line))
                job = self.taken(slurm.judged(*terms, *options, script=idle_until(self.enough)))
                self.assertEqual(self.commitment(job).get("class", "deadline"), sla_class)
                self.clear()
        self.refused(slurm.sbatch(*terms, "-p", "urgent", "--hold"), "class=immediate starts at once",
                     "class=immediate by class.queues.urgent of the site's configuration, as it names none")
        self.refused(slurm.sbatch(*terms, "-p", "main,urgent"), "it may go to main or to urgent and names no class", "name a class as --sla-class=…")

    def test_what_a_site_does_not_offer(self):
        """Refused by name, and not offered instead."""
        self.slurm.rule(f"{PRICES}immediate = false\n")
        self.refused(self.whole("immediate"), "class=immediate is not offered here (section [class]")
        self.taken(self.whole("dedicated", "--sla-deadline=4h"))


if __name__ == "__main__":
    unittest.main(verbosity=2)
