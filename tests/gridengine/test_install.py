"""Installing Libra into a cell and taking it out again."""

import unittest

from case import CellCase


class Install(CellCase):
    site = {"installed": False}

    def there(self, *more):
        return self.cell.libra("gridengine", *more, *self.cell.places)

    def test_all_is_as_before_to_the_byte(self):
        cell = self.cell
        before = cell.configuration()
        shown = self.there("install", "--dry-run")
        self.assertEqual(shown.rc, 0, shown)
        self.assertEqual(cell.configuration(), before, "a dry run changes nothing")
        done = self.there("install")
        self.assertEqual((done.rc, done.out), (0, shown.out), "it does what it has printed")
        self.assertNotEqual(cell.configuration()["conf"], before["conf"])
        self.assertEqual(self.there("install").out, "nothing to do\n")
        checked = self.there("check")
        self.assertEqual(checked.rc, 0, checked)
        job = self.accept(60, "1h")
        held = self.there("uninstall")
        self.assertEqual((held.rc, held.out.count(job)), (1, 1), held)
        cell.must("qdel", job)
        cell.wait_gone(job)
        self.assertEqual(self.there("uninstall").rc, 0)
        self.assertEqual(cell.configuration(), before)
        self.assertFalse((cell.directory / "scripts").exists() or (cell.directory / "state").exists())
        self.assertIn("nothing to do", self.there("uninstall").out)

    def test_what_may_start_is_taken_out_as_well(self):
        """A host's value that no verifier has taken away, since none runs."""
        cell = self.cell
        before = cell.configuration(), cell.must("qconf", "-se", "g1").splitlines()[:3]
        self.assertEqual(self.there("install").rc, 0)
        job = self.accept(60, "1h", "-h")
        cell.must("qrls", job)
        host = cell.wait_running(job)
        conf = "".join("jsv_url none\n" if line.startswith("jsv_url") else f"{line}\n" for line in cell.must("qconf", "-sconf").splitlines() if not line.startswith("#"))
        cell.give("-Mconf", "global", conf)
        cell.kill_verifiers()
        cell.must("qdel", job)
        cell.wait_gone(job)
        done = self.there("uninstall")
        self.assertEqual(done.rc, 0, done)
        self.assertIn(f"qconf -dattr exechost complex_values libra_start {host}", done.out)
        self.assertEqual((cell.configuration(), cell.must("qconf", "-se", "g1").splitlines()[:3]), before)

    def test_what_others_have_set_is_not_overwritten(self):
        cell = self.cell
        conf = cell.must("qconf", "-sconf")
        plain = "".join(f"{line}\n" for line in conf.splitlines() if not line.startswith("#"))
        cell.give("-Mconf", "global", plain.replace("shepherd_cmd                 none", "shepherd_cmd /bin/true"))
        refused = self.there("install")
        self.assertEqual(refused.rc, 1, refused)
        self.assertIn("problem  shepherd_cmd is /bin/true", refused.out)
        cell.give("-Mconf", "global", plain)
        self.assertEqual(cell.must("qconf", "-sconf"), conf)

    def test_claims_from_before_stop_an_installation(self):
        job = self.cell.submit("-ac", "libra=1:v=1", "-h")
        refused = self.there("install")
        self.assertEqual(refused.rc, 1, refused)
        self.assertIn(f"jobs [{job}] have a context variable 'libra'", refused.out)

    def test_a_check_says_what_jobs_would_wait_for(self):
        cell = self.cell
        queue = cell.must("qconf", "-sq", "main.q")
        cell.must("qconf", "-rattr", "queue", "load_thresholds", "np_load_avg=1.75", "main.q")
        self.assertIn("warning  queue main.q starts no job on a host with more load", self.there("check").out)
        cell.must("qconf", "-rattr", "queue", "load_thresholds", "NONE", "main.q")
        self.assertEqual(cell.must("qconf", "-sq", "main.q"), queue)


if __name__ == "__main__":
    unittest.main()
