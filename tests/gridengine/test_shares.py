"""Shares are measured and deadlines met, on two hosts that share this machine's processors."""

import re
import time
import unittest

from case import CellCase

BUSY = "exec python3 -c 'while True: pass'\n"


class Shares(CellCase):
    measures = 1
    WINDOW = 8.0

    def test_a_job_gets_its_share_and_no_more(self):
        job = self.accept(600, 1260, "-l", "h=g1", script=BUSY)  # half a processor
        self.cell.wait_running(job)
        self.cell.wait("it works", lambda: self.processes(job, "g1") and self.used(job, "g1") > 0.5)
        share = self.places(job)["g1"]
        self.assertAlmostEqual(share, 0.5, places=2)
        # What it used before its first readjustment is not in the window.
        before, began = self.used(job, "g1"), time.monotonic()
        time.sleep(self.WINDOW)
        rate = (self.used(job, "g1") - before) / (time.monotonic() - began)
        self.assertLess(rate, share * 1.15)
        self.assertGreater(rate, share * 0.5, "half of it even where others press")

    def test_a_deadline_is_met(self):
        work = "python3 -c 'import time\nwhile time.process_time() < 3: pass'\n"
        job = self.accept(4, 20, "-l", "h=g1", script=work)
        said = self.cell.wait("how it ended", lambda: re.search(rf"job {job} (met|missed) its deadline.*: ended after (\S+) s of 20 s", self.cell.log()))
        self.assertEqual(said[1], "met", said[0])
        self.assertGreater(float(said[2]), 7, "it had a share, not the whole processor")


if __name__ == "__main__":
    unittest.main()
