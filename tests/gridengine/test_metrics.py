"""What the verifiers count and write, compared with what was done."""

import pwd
import os
import time
import unittest

import exposition
from case import CellCase
from cluster import ADMIN, MASTER


class Metrics(CellCase):
    """Two hosts of as many processors as this machine has."""

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        try:
            directory = cls.cell.directory / "metrics"
            directory.mkdir(mode=0o755)
            admin = pwd.getpwnam(ADMIN)
            os.chown(directory, admin.pw_uid, admin.pw_gid)
            cls.cell.add_rules(f"[metrics]\ndirectory = '{directory}'\ninterval = '1s'\n")
            cls.files = exposition.Files(directory, "gridengine")
            # The first submission has qmaster start its verifiers anew.
            cls.cell.qsub("-l", "estimate=10,deadline=20,budget=1")
            cls.cell.wait("they are written", lambda: (directory / "gridengine.json").exists())
        except BaseException:
            cls.tearDownClass()
            raise

    def written(self):
        now = time.time()
        self.cell.wait("metrics are written", lambda: self.files.written() > now)

    def grown(self, before):
        """What was counted since `before`, in the totals."""
        self.written()
        now = self.files.counts()
        refused = {reason: count - before.get("refused", {}).get(reason, 0) for reason, count in now.get("refused", {}).items()}
        grown = {key: count - before.get(key, 0) for key, count in now.items() if key != "refused"}
        return {key: count for key, count in {**grown, "refused": {k: v for k, v in refused.items() if v}}.items() if count}

    def counted(self, before, **expected):
        """Wait until this was counted since `before`; the history says the same."""
        grown = {}

        def is_it():
            grown.update(self.grown(before))
            return grown == expected

        try:
            self.cell.wait("all of it is counted", is_it)
        except TimeoutError:
            self.assertEqual(grown, expected)
        # All of its jobs have ended, so both files stay as they are.
        self.assertEqual(self.files.history(), {key: count for key, count in self.files.counts().items() if key != "verdicts"})

    def test_counts(self):
        cell, files = self.cell, self.files
        self.written()
        before = files.counts()
        self.assertEqual(files.gauges("libra_nodes"), {"yes": 2, "no": 0})
        processors = cell.slots("g1")
        self.assertEqual(files.gauges("libra_node_processors"), {"g1": processors, "g2": processors})
        # Accepted: one that is late, one in time, one that fails, one that is deleted, and three of an array.
        self.accept(1, 3, script="sleep 6\n")
        self.accept(1, 600, script="true\n")
        self.accept(1, 600, script="exit 3\n")
        deleted = self.accept(10, 1000)
        cell.wait_running(deleted)
        self.accept(1, 600, "-t", "1-3", script="true\n")
        # Refused, for three reasons; a question is none.
        self.refused(cell.qsub(*self.terms(10, 20, 9)), "refused (budget)")
        self.refused(cell.qsub(*self.terms(10, 20, 8)), "refused (budget)")
        self.refused(cell.qsub(*self.terms(30, 20)), "refused (deadline)")
        self.refused(cell.qsub(*self.terms(10, 20), "-t", "1-4", "-tc", "2"), "-tc")
        cell.qsub("-l", "quote=ask,estimate=10,deadline=20")
        cell.must("qdel", deleted)
        refused = {"budget": 2, "deadline": 1, "request": 1}
        self.counted(before, accepted=7, late=1, met=4, failed=1, cancelled=1, refused=refused, verdicts=9)
        self.assertEqual(files.gauges("libra_committed_processors"), {(): 0})

    def test_they_are_carried_on(self):
        job = self.accept(1, 600, script="true\n")
        self.cell.wait("its end is known", lambda: f"job {job} met its deadline" in self.cell.log())
        self.written()
        before = self.files.counts()
        self.cell.kill_verifiers()
        self.cell.kill(MASTER)
        self.cell.start_master()
        # Questions are not counted.
        ask = ["-l", "quote=ask,estimate=10,deadline=1000"]
        self.cell.wait("somebody judges again", lambda: '"accepted":true' in "".join(map(str, self.cell.qsub(*ask))))
        self.refused(self.cell.qsub(*self.terms(10, 1000, 1)), "refused (budget)")
        self.counted(before, refused={"budget": 1}, verdicts=1)


if __name__ == "__main__":
    unittest.main()
