"""What users claim and nobody has promised them."""

import unittest

from case import CellCase


class Forged(CellCase):
    def test_no_context_of_libras_comes_with_a_submission(self):
        job = self.accept(60, "1h")
        line = self.cell.details(job)["context"].partition(f"libra={job}:")[2].split(",")[0]
        number = int(job) + 1
        for claim in (f"libra={number}:{line}", "libra"):
            for terms in ([], self.terms(60, "1h")):
                self.refused(self.cell.qsub("-ac", claim, *terms), "Libra's own")
        self.refused(self.cell.qsub(script=f"#$ -ac libra={number}:{line}\nsleep 1\n"), "Libra's own")

    def test_a_copy_is_promised_nothing(self):
        job = self.accept(60, "1h")
        said = self.cell.run("qresub", job, user=self.cell.users[0])
        self.assertIn("Libra's own", said.out + said.err)
        self.assertEqual([number for number, *_ in self.cell.jobs()], [job])

    def test_an_old_context_is_not_believed_on_a_host(self):
        """As managers could write it, or a job that was queued before Libra came: bound to another job, or a line of nobody's."""
        job = self.accept(60, "1h")
        line = self.cell.details(job)["context"].partition(f"libra={job}:")[2].split(",")[0]
        allowed = self.cell.must("qconf", "-sconf")
        self.set_verifier("none")
        try:
            copy = self.cell.submit("-ac", f"libra={job}:{line}", script="cat /proc/self/cgroup\nsleep 1000\n")
            nonsense = self.cell.submit("-ac", "libra=nothing", script="cat /proc/self/cgroup\nsleep 1000\n")
        finally:
            self.set_verifier(next(text.split()[1] for text in allowed.splitlines() if text.startswith("jsv_url")))
        for forged in (copy, nonsense):
            self.cell.wait_running(forged)
            self.cell.wait("it runs as one without terms", lambda forged=forged: "-best-effort" in self.cell.output(forged))
            self.assertIn(f"job {forged} claims what is not committed to it", self.cell.shepherds_log())
        self.cell.wait("the book takes neither", lambda: f"not taken: job {copy}: its context is that of job {job}" in self.cell.log() or self.cell.qsub("-l", "budget=1") is None)

    def set_verifier(self, url):
        text = "".join(f"jsv_url {url}\n" if line.startswith("jsv_url") else f"{line}\n" for line in self.cell.must("qconf", "-sconf").splitlines() if not line.startswith("#"))
        self.cell.give("-Mconf", "global", text)

    def test_what_a_job_sets_in_its_environment_changes_nothing(self):
        job = self.accept(60, "1h", "-v", "SGE_ROOT=/nonexistent,LIBRA_CONFIG=/nonexistent,LD_PRELOAD=/nonexistent,JOB_ID=1", script="cat /proc/self/cgroup\nsleep 1000\n")
        host = self.cell.wait_running(job)
        self.cell.wait("it is in its own group", lambda: f"{self.cell.cgroup_root(host)}/job-{job}" in self.cell.output(job))


if __name__ == "__main__":
    unittest.main()
