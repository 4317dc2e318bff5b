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

    def claim(self):
        """What would be committed to the next job, if it were believed."""
        job = self.accept(60, "1h")
        line = self.cell.details(job)["context"].partition(f"libra={job}:")[2].split(",")[0]
        return f"libra={int(job) + 1}:{line}"

    def test_no_spelling_of_its_name_gets_through(self):
        for around in (" {}", "\t{}", "\u00a0{}", "x=1,\n{}", "x='a,{}'"):
            claim = around.format(self.claim())
            with self.subTest(around):
                self.refused(self.cell.qsub("-ac", claim), "Libra's own")
        self.refused(self.cell.qsub("-ac", "li\x01bra=1"), "Libra's own")
        self.refused(self.cell.qsub("-sc", self.claim()), "Libra's own")
        # What is another name is the user's own.
        for other in ("LIBRA=1", "&#108;ibra=1", "mylibra=1"):
            self.assertEqual(self.cell.details(self.cell.submit("-h", "-ac", other))["context"], other)

    def test_an_open_quote_takes_nothing_along(self):
        for mark in ("'", '"'):
            for words in ([], ["-h"]):
                job = self.accept(60, "1h", "-ac", f"x={mark}", *words)
                self.assertEqual(self.commitment(job)["estimate"], "60")

    def test_no_value_is_a_line_of_the_protocol(self):
        other = self.cell.users[1]
        for inside in (f"PARAM USER {other}", "PARAM ac y=1", "BEGIN\n,{}", "START", "QUIT", "x" * 4080 + "\nBEGIN\n,{}", "x" * 8170 + "\nBEGIN\n,{}"):
            value = f"x=1\n{inside}".format(self.claim())
            with self.subTest(inside[-20:]):
                self.refused(self.cell.qsub("-ac", value), "looks like several")
                # Behind its claim; some of it qmaster itself takes for no path.
                self.refused(self.cell.qsub("-ac", self.claim(), "-o", value))
        # A payer is one that qmaster has on record.
        self.refused(self.cell.qsub("-ac", "x=1\nPARAM P nosuch", *self.terms(60, "1h")), "nosuch")
        # The next job is answered by itself.
        self.refused(self.cell.qsub(*self.terms(600, 600)), "refused (deadline)")
        # Lines that mean nothing in the protocol are taken as they are.
        self.accept(60, "1h", "-b", "y", "sh", "-c", "echo first\necho second")

    def test_terms_that_promise_nothing_are_refused(self):
        self.refused(self.cell.qsub("-soft", *self.terms(60, "1h")), "soft request")

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
