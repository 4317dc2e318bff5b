#!/usr/bin/env python3
"""What the admitting side says is true: jobs that wait hold nothing that they do not use, an end is one that somebody saw, and a configuration that
is gone is not the defaults.

Run as root: `python3 tests/openpbs/test_truth.py`. Nothing here needs much processor time.
"""

import contextlib
import json
import pathlib
import re
import shutil
import sys
import time
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))

from case import SiteCase  # noqa: E402
from libra_site import busy  # noqa: E402
from scripts import idle_until  # noqa: E402
from promises import MARGIN  # noqa: E402
from test_accounts import Accounts as MoneySite  # noqa: E402

HELD = "held: its share is given back, and is asked for anew when it is released"


class Site(SiteCase):
    """What the classes have in common."""

    def idle(self):
        """From now on nothing that is submitted starts."""
        self.pbs.qmgr("set server scheduling = false")

    def go(self):
        self.pbs.qmgr("set server scheduling = true")

    def said(self, pattern, patience=180):
        return self.pbs.wait(f"'{pattern}' in the log", lambda: re.search(pattern, self.pbs.log()), patience)

    def comment(self, job, part, patience=180):
        """Wait until PBS gives a reason in the job's comment. It asks at every cycle."""
        def found():
            self.pbs.cycle()
            text = self.pbs.qstat(job).get("comment", "")
            return part in text.replace("\n", " ") and text
        return self.pbs.wait(f"'{part}' in the comment of {job}", found, patience)


class Waiting(Site):
    """One host of one processor: whoever holds it keeps everybody else out."""

    site = {"hosts": 1}

    def test_qhold_gives_the_share_back_and_asks_anew(self):
        self.idle()
        held = self.accept(500, 1000)
        due = self.due_at(held)
        self.refused(self.ask(900, 1000), "refused (share)")
        self.assertEqual(self.pbs.run("qhold", held).rc, 0)
        # Nobody is refused for the sake of a job that is held.
        other = self.accept(900, 1000)
        self.pbs.qdel(other)
        other = self.accept(450, 1000)  # with which it fits as it was, and no more as it has become
        self.pbs.wait("it says so itself", lambda: self.pbs.qstat(held).get("Resource_List.libra_info") == HELD)
        self.go()
        self.running(other)
        # It needs more the longer it waits: soon more than the other leaves.
        too_late = due - 500 * MARGIN / (1 - self.share(other)) + 1
        self.pbs.wait("it does not fit beside the other any more", lambda: time.time() > too_late)
        self.assertEqual(self.pbs.run("qrls", held).rc, 0)
        self.comment(held, "libra: refused (share): ")
        self.pbs.qdel(other)
        record = self.running(held)
        self.assertIn("accepted: ", record["Resource_List.libra_info"])
        self.assertIn("(asked anew after a hold)", record["Resource_List.libra_info"])
        self.assertLess(float(self.terms(held)["deadline"]), 1000)
        self.assertGreater(self.share(held), 0.525)
        # The deadline is where it was.
        self.assertAlmostEqual(self.due_at(held), due, delta=0.01)
        self.refused(self.ask(900, 1000), "refused (share)")

    def test_qhold_of_a_job_that_runs(self):
        """It goes on with its share; PBS alters nothing of it, so nobody tries to."""
        pbs = self.pbs
        job = self.accept(500, 1000)
        self.running(job)
        self.assertEqual(pbs.run("qhold", job).rc, 0)
        pbs.qmgr("set hook libra_periodic enabled = false", "set hook libra_periodic freq = 1", "set hook libra_periodic enabled = true")
        self.addCleanup(pbs.qmgr, "set hook libra_periodic enabled = false", "set hook libra_periodic freq = 30", "set hook libra_periodic enabled = true")

        def seen():
            """It was looked at once more after this."""
            with contextlib.suppress(OSError, ValueError):
                records = json.loads((pbs.home / "server_priv/libra/records.json").read_text())
                return any(one["id"] == job and one["held"] and one["state"] == "R" for one in records["jobs"]) and records["taken"] > held + 3
            return False
        held = time.time()
        pbs.wait("the periodic hook has seen it", seen)
        # Of other jobs that may have been said, when their server was killed.
        self.assertEqual([line for line in pbs.log().splitlines() if "held jobs are not told so" in line and job in line], [])
        self.assertIn("accepted: ", pbs.qstat(job)["Resource_List.libra_info"])
        self.refused(self.ask(900, 1000), "refused (share)")

    def restart(self):
        """pbs_server is killed and started; its host has come back."""
        self.pbs.kill_server()
        self.pbs.start_server()
        self.pbs.wait("its host is up", lambda: self.pbs.node(self.pbs.host_names[0])["state"] == "free")

    due_at = MoneySite.due_at

    def test_a_later_start(self):
        """qalter -a."""
        self.idle()
        job = self.accept(50, 600)
        later = time.strftime("%Y%m%d%H%M.%S", time.localtime(time.time() + 3600))
        self.assertEqual(self.pbs.run("qalter", "-a", later, job).rc, 0)
        self.pbs.wait_state(job, "W")
        self.accept(570, 600)
        self.said(rf"job {re.escape(job)} is held")

    def test_a_restart_forgets_no_hold(self):
        """What was held is asked for anew, also where the server has begun anew in between."""
        self.idle()
        held = self.accept(3000, 6000, budget=10_000)
        self.assertEqual(self.pbs.run("qhold", held).rc, 0)
        time.sleep(31)  # what it is told by: a job that becomes eligible to run so long after its commitment
        self.assertEqual(self.pbs.run("qrls", held).rc, 0)
        self.restart()
        # Together with what is committed to the other it would be too much.
        other = self.accept(5600, 6000, budget=10_000)
        self.go()
        self.running(other)
        self.comment(held, "libra_share")
        self.pbs.qdel(other)
        self.running(held)
        self.assertIn("asked anew", self.pbs.qstat(held)["Resource_List.libra_info"])

    def test_a_restart_forgets_no_hold_of_a_job_that_ran(self):
        """Held while it runs and taken back into its queue, it keeps the time from which it could run first: nothing in PBS's record says of it that it
        was held, once it is released."""
        pbs = self.pbs
        job = self.accept(3000, 6000, budget=10_000)
        self.running(job)
        self.assertEqual(pbs.run("qhold", job).rc, 0)
        self.assertEqual(pbs.run("qrerun", job).rc, 0)
        pbs.wait_state(job, "H")
        self.idle()
        other = self.accept(5000, 6000, budget=10_000)  # with which its hold is noticed
        self.restart()
        pbs.qdel(self.accept(1, 1000))  # with which the server reads its records
        self.assertEqual(pbs.run("qrls", job).rc, 0)
        self.go()
        self.running(other)
        pbs.qdel(other)
        self.running(job)
        self.assertIn("asked anew", pbs.qstat(job)["Resource_List.libra_info"])

    def test_a_job_that_was_held_past_its_deadline(self):
        """It can never be accepted again: it is held, and not tried in every cycle."""
        self.idle()
        def noticed(deadline):
            held = self.accept(5, deadline)
            self.assertEqual(self.pbs.run("qhold", held).rc, 0)
            self.pbs.qdel(self.accept(900, 1000))  # with which its hold is noticed, where its deadline has not passed by then
            return re.search(rf"job {re.escape(held)} is held", self.pbs.log()) and held

        held = self.pbs.in_time("a hold", noticed)
        due = self.due_at(held)
        self.pbs.wait("its deadline has passed", lambda: time.time() > due + 1, 600)
        self.go()
        self.assertEqual(self.pbs.run("qrls", held).rc, 0)
        # Held first, by PBS; its scheduler writes the reason down after that.
        says_why = lambda found: found.get("job_state") == "H" and "held past its deadline" in found.get("comment", "")  # noqa: E731
        self.assertIn("s", self.pbs.wait_job(held, "says why it is held", says_why)["Hold_Types"])

    def test_a_waiting_job_past_its_deadline(self):
        """It holds nothing any more; it runs when there is room, and has missed its deadline."""
        self.idle()
        late = self.accept(2, 6, "-l", "walltime=600", script=busy(1))
        due = self.due_at(late)
        self.pbs.wait("its deadline has passed", lambda: time.time() > due + 1)
        other = self.accept(940, 1000)
        self.go()
        self.running(other)
        self.comment(late, "libra_share")
        self.pbs.qdel(other)
        self.assertFalse(self.ending(late)[1])

    def test_a_held_array(self):
        self.idle()
        array = self.accept(200, 1000, "-J", "1-4")
        self.refused(self.ask(900, 1000), "refused (share)")
        self.assertEqual(self.pbs.run("qhold", array).rc, 0)
        other = self.accept(150, 1000)
        self.assertEqual(self.pbs.run("qrls", array).rc, 0)
        self.go()
        for index in (1, 2, 3, 4):
            self.running(array.replace("[]", f"[{index}]"))
        self.running(other)
        self.refused(self.ask(30, 100), "refused (share)")

    def test_a_released_array_for_which_there_is_no_room(self):
        """What has no share runs without a promise: PBS's scheduler would try a subjob that is not let run without an end, and start nothing else."""
        self.idle()
        array = self.accept(310, 1000, "-J", "1-2")
        due = self.due_at(array)
        self.assertEqual(self.pbs.run("qhold", array).rc, 0)
        self.pbs.qdel(self.accept(900, 1000))  # with which its hold is noticed
        other = self.accept(325, 1000)
        # As they are all three fit, to PBS. In what time is left there is room for one of them beside the other, and not for both.
        self.pbs.wait("they need more", lambda: time.time() > due - 980)
        self.assertEqual(self.pbs.run("qrls", array).rc, 0)
        self.go()
        self.running(other)
        infos = [self.running(array.replace("[]", f"[{index}]"))["Resource_List.libra_info"] for index in (1, 2)]
        self.assertIn("(asked anew after a hold)", infos[0])
        self.assertIn("runs without a promise: refused (share): ", infos[1])
        self.assertEqual(self.pbs.qstat(array.replace("[]", "[2]"))["Resource_List.libra_price"], "0")

    def test_how_its_script_ended(self):
        """Its host knows, and shows it as it shows a job of its own."""
        for script, exit_code, signal in (("exit 0\n", 0, None), ("exit 3\n", 3, None), ("kill -9 $$\n", 137, None)):
            job = self.accept(5, 1000, script=script)
            self.pbs.wait_state(job, "F")
            file = self.pbs.own / self.pbs.host_names[0] / f"ended/{job}.json"
            self.pbs.wait("it is written down", file.exists)
            ending = json.loads(file.read_text())["ending"]
            self.assertEqual((ending["exit-code"], ending["signal"], ending["met"]), (exit_code, signal, exit_code == 0), script)

    def test_deleted_by_force(self):
        """It has met nothing."""
        job = self.accept(50, 100)
        self.running(job)
        self.pbs.qdel("-Wforce", job)
        self.said(rf"job {re.escape(job)} was deleted by force")
        self.assertNotIn(f"job {job} met", self.pbs.log())

    def test_an_end_that_the_host_did_not_see(self):
        """Its registry is gone: the last that was measured is not an end."""
        host = self.pbs.host_names[0]
        end = self.pbs.own / "unseen.end"
        job = self.accept(3, 25, "-l", "walltime=3600", script=busy(3) + idle_until(end))
        due = self.due_at(job)
        self.running(job)
        self.pbs.wait("measured", lambda: self.pbs.qstat(job).get("resources_used.libra_progress"))
        # Put aside first: its host writes there every now and then.
        lost = (self.pbs.own / host).rename(self.pbs.own / f"{host}.lost")
        shutil.rmtree(lost)
        self.pbs.wait("its deadline has passed", lambda: time.time() > due + 2)
        end.touch()
        took, met = self.ending(job)
        self.assertFalse(met, took)
        # Nobody on the host knows its group any more.
        self.pbs.wait("its processes are gone", lambda: not self.group_processes(job, host))
        self.pbs.remove_cgroups([host])

    def test_plain_jobs(self):
        """As on a server without Libra."""
        host = self.pbs.host_names[0]
        for words in (["-l", "nodes=1:ppn=1"], ["-l", f"nodes={host}"], ["-l", "select=1:ncpus=1", "-l", "place=excl"], ["-l", "select=1:ncpus=1", "-l", "place=exclhost"]):
            with self.subTest(words):
                job = self.pbs.submit(*words)
                self.running(job)
                self.pbs.qdel(job)
                self.pbs.wait_state(job, "F")

    def test_a_question_about_a_queue_that_there_is_not(self):
        """What a quote says, a submission does."""
        self.refused(self.ask(1, 9, "-q", "nowhere", "-l", "libra_quote=ask"), "libra: there is no queue 'nowhere'")
        self.refused(self.ask(1, 9, "-q", "workq", "-l", "libra_quote=ask"), "libra-quote: ")

    def test_libra_toml_is_gone(self):
        pbs = self.pbs
        pbs.write_config("[pbs]\nwithout-terms = 'refuse'\n")
        refused = lambda: "need a deadline" in pbs.qsub().err  # noqa: E731
        pbs.wait("the rule is known", refused)
        file = pbs.own / "server.toml"
        file.unlink()
        try:
            self.assertTrue(refused())
            self.said(r"server\.toml is gone; Libra goes on with the rules it had last")
            self.restart()
            self.assertTrue(refused())
            # The host's as well, where each event is a process of its own.
            host = pbs.host_names[0]
            (pbs.own / f"{host}.toml").unlink()
            job = self.accept(1, 30, script="true\n")
            pbs.wait_state(job, "F")
            self.assertIn(f"{host}.toml is gone", pbs.log(host))
        finally:
            pbs.write_config("")
        pbs.wait("the rule is another", lambda: not refused())


class Money(MoneySite):
    """A share that is given back is not paid for."""

    def test_held_and_released(self):
        self.pbs.qmgr("set server scheduling = false")
        job = self.accept(10, 1000, budget=50)
        price = self.price(job)
        self.held(price)
        self.assertEqual(self.pbs.run("qhold", job).rc, 0)
        self.held(0)
        time.sleep(1)
        self.assertEqual(self.pbs.run("qrls", job).rc, 0)
        self.pbs.qmgr("set server scheduling = true")
        self.running(job)
        self.held(self.price(job))
        self.assertGreater(self.price(job), price)
        self.account("check")

    def test_held_and_spent(self):
        """Its money went elsewhere meanwhile."""
        self.pbs.qmgr("set server scheduling = false")
        job = self.accept(60, 1000, budget=100)
        self.assertEqual(self.pbs.run("qhold", job).rc, 0)
        self.held(0)
        other = self.accept(60, 900, budget=80)
        self.assertEqual(self.pbs.run("qrls", job).rc, 0)
        self.pbs.qmgr("set server scheduling = true")
        self.running(other)

        def told():
            self.pbs.cycle()
            return "libra: refused (funds): " in self.pbs.qstat(job).get("comment", "")
        self.pbs.wait("it says why it does not run", told)
        self.account("check")

    def test_deleted_by_force_is_charged_for_what_it_had(self):
        job = self.accept(50, 1000, budget=100)
        self.running(job)
        self.pbs.qdel("-Wforce", job)
        self.held(0)
        self.assertGreater(self.balance()["available"], 100 - self.price(job) / 2)
        self.account("check")


for name in [name for name in dir(MoneySite) if name.startswith("test_")]:
    setattr(Money, name, None)  # they are tested where they stand


if __name__ == "__main__":
    unittest.main(verbosity=2)
