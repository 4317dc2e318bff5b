#!/usr/bin/env python3
"""What users see when they submit to a Slurm with Libra: price and node, refusals and counter-offers, where a job goes.

Run as root: `python3 tests/slurm/test_users.py`. Nothing here needs much processor time; that is in test_users_shares.py.
"""

import pathlib
import re
import shlex
import sys
import time
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))

import promises  # noqa: E402
from case import BAD_OPTION, MARGIN, SiteCase  # noqa: E402


class Submitting(SiteCase):
    """Four nodes of one processor each."""

    site = {"nodes": 4}

    def test_accepted_with_price_and_node(self):
        """The quote is on standard error, the number alone on standard output; the kernel holds the job to its share."""
        slurm, node = self.slurm, self.slurm.nodes[0]
        answer = self.ask(1000, 2000, budget=1500, script="echo due $LIBRA_DEADLINE\nsleep 1000\n")
        quote = f"sbatch: libra: accepted: 52.5 % of a processor on {node}, finished in 33m20s at the latest, for 1000.5 of 1500 credits\n"
        self.assertRegex(answer.out, r"^\d+$")
        self.assertEqual((answer.rc, answer.err), (0, quote))
        job = answer.out
        record = self.started(job)
        self.assertEqual((record["NodeList"], record["ReqNodeList"], record["TimeLimit"], record["Deadline"]), (node, node, "00:50:00", "N/A"))
        commitment = self.commitment(job)
        self.assertEqual((commitment["price"], commitment["estimate"], commitment["deadline"], commitment["budget"]), ("1000.5", "1000", "2000", "1500"))
        # The kernel holds it: 52.5 ms of each 100 ms, and a little more for each moment that it has lost.
        quota = self.quota(job, node)
        self.assertGreaterEqual(quota, 0.525)
        self.assertLess(quota, 0.6)
        due = int(slurm.wait("its output", lambda: re.search(r"due (\d+)", slurm.output(job)))[1])
        self.assertAlmostEqual(due, float(commitment["submitted"]) + 2000, delta=1)
        # Without --parsable.
        job_file = slurm.home(slurm.users[0]) / "job.sh"
        job_file.write_text("#!/bin/sh\nsleep 1000\n")
        answer = slurm.run("sbatch", *self.terms_of(10, 20), job_file, user=slurm.users[0])
        self.assertRegex(answer.out, r"^Submitted batch job \d+\n$")
        self.assertIn("for 10.5 of 1000 credits", answer.err)

    # ---- refusals, and what is accepted instead

    def offers(self, text):
        """What the refusal says would be accepted: a list of options for each line."""
        lines = re.findall(r"libra: (?:accepted now would be| +or): ([^(\n]+)", text)
        return [shlex.split(line) for line in lines]

    def take(self, text, kind, *terms):
        """Submit as before, and behind that the offer of this kind as it was printed; the job runs. The offer."""
        offer = next(words for words in self.offers(text) if words[0].startswith(kind))
        self.running(self.slurm.submit(*terms, *offer))
        return offer

    def test_refused_for_its_budget(self):
        text = self.refused(self.ask(10, 20, budget=9), "sbatch: error: libra: refused (budget): the job costs 10.5 credits; the budget is 9")
        self.assertEqual(self.take(text, "--budget", *self.terms_of(10, 20, 9)), ["--budget=10.5"])

    def test_refused_for_its_deadline(self):
        text = self.refused(self.ask(30, 20), "libra: refused (deadline)", "31.5 s; the deadline is 20 s")
        self.assertEqual(self.take(text, "--sla-deadline", *self.terms_of(30, 20)), ["--sla-deadline=31.5"])

    def test_refused_for_other_peoples_shares(self):
        """All four nodes are committed to 70 %; what the refusal offers is what is left."""
        jobs = [self.accept(200, 300) for _ in self.slurm.nodes]
        for job in jobs:
            self.running(job)
            self.booked(job)
        # A job needs more the longer it waits, until the plugin has seen that it runs: an offer made before is soon too little.
        asked = lambda: self.refused(self.ask(100, 200), "libra: refused (share): needs 0.525 CPU", " free")  # noqa: E731
        self.slurm.wait("all of them are seen to run", lambda: asked() == (time.sleep(1.5) or asked()))
        text = asked()
        offer = self.take(text, "--sla-deadline", *self.terms_of(100, 200))
        self.assertGreater(float(offer[0].split("=")[1]), 200)

    def test_refused_for_its_tasks(self):
        """Six tasks on four nodes of one processor; two nodes where one has room: the same work on fewer takes longer on each."""
        text = self.refused(self.ask(10, 100, "-n6"), "libra: refused (nodes): only 4 of 6 nodes would fit now")
        self.assertEqual(self.take(text, "-N", *self.terms_of(10, 100), "-n6"), ["-N", "4", "-n", "4", "--estimate=15"])
        self.clear()
        for node in self.slurm.nodes[1:]:
            self.accept(90, 100, "-w", node)
        terms = [*self.terms_of(40, 100), "-N2"]
        text = self.refused(self.slurm.judged(*terms), "libra: refused (nodes)")
        self.assertEqual(self.take(text, "-N", *terms), ["-N", "1", "-n", "1", "--estimate=80"])
        self.clear()
        for node in self.slurm.nodes[1:]:
            self.accept(90, 100, "-w", node)
        # Twice 60 s on one processor take longer than 100 s.
        text = self.refused(self.ask(60, 100, "-N2"), "libra: refused (nodes)")
        self.assertNotIn("-N 1", text)

    def test_refused_for_its_array(self):
        """Five of 0.63 on four nodes: four would be accepted, and as many as the budget is for."""
        text = self.refused(self.ask(60, 100, "--array=1-5"), "libra: refused (jobs): only 4 of 5 jobs would fit now (all 5 jobs of the array together)",
                            "an array of 4 jobs (costs 242.4)")
        self.running(self.slurm.submit(*self.terms_of(60, 100), "--array=1-4") + "_4")
        self.clear()
        self.take(text, "--sla-deadline", *self.terms_of(60, 100), "--array=1-5")
        self.clear()
        text = self.refused(self.ask(10, 20, "--array=1-3", budget=30), "libra: refused (budget): the job costs 31.5 credits", "an array of 2 jobs (costs 21)")
        self.take(text, "--budget", *self.terms_of(10, 20, 30), "--array=1-3")

    # ---- values

    def test_bad_values(self):
        """In an option: the client itself, exit 255. In a comment: the controller, exit 1."""
        slurm = self.slurm
        self.refused(slurm.sbatch("--estimate=abc", "--sla-deadline=20", "--budget=9"), "libra: --estimate=abc: 'abc' is not a duration", "HH:MM:SS", status=BAD_OPTION)
        for comment, parts in (("estimate=abc,deadline=20,budget=9", ["--comment: estimate: 'abc' is not a duration"]),
                               ("estimate=1,deadline=20,bugdet=9", ["--comment: there is no 'bugdet'"]),
                               ("estimate=1,deadline=20", ["the budget is missing", "--budget=…"])):
            with self.subTest(comment):
                self.refused(slurm.sbatch(f"--comment=libra:{comment}"), "sbatch: error: libra: ", *parts)
        self.assertEqual(slurm.must("squeue", "-h"), "")

    def test_missing_values(self):
        """One missing is said by its name; --time stands in for the estimate."""
        for given, said in ((["--budget=5", "--sla-deadline=20"], "the estimate is missing; give it as --estimate=…, or as --time in minutes"),
                            (["--budget=5", "--estimate=5"], "the deadline is missing; give it as --sla-deadline=…"),
                            (["--sla-deadline=50", "--estimate=5"], "the budget is missing; give it as --budget=…"),
                            (["--penalty-rate=1"], "the estimate is missing")):
            with self.subTest(given):
                self.refused(self.slurm.sbatch(*given), f"sbatch: error: libra: {said}")

    def test_lines_in_the_script(self):
        """#SBATCH lines are options; the command line wins."""
        script = "#!/bin/sh\n#SBATCH --estimate=10 --sla-deadline=20\n#SBATCH --budget=9\nsleep 1000\n"
        self.refused(self.slurm.judged(script=script), "refused (budget): the job costs 10.5 credits; the budget is 9")
        answer = self.slurm.judged("--budget=11", script=script)
        self.assertEqual(answer.rc, 0, answer.err)
        self.assertIn("for 10.5 of 11 credits", answer.err)
        self.assertEqual(self.commitment(answer.out)["budget"], "11")

    def test_terms_in_the_comment(self):
        job = self.slurm.submit("--comment=libra:estimate=10,deadline=20,budget=15,deadline_type=soft,penalty_rate=0.1")
        commitment = self.commitment(job)
        self.assertEqual([commitment[key] for key in ("estimate", "deadline", "budget", "type", "penalty")], ["10", "20", "15", "soft", "0.1"])
        self.refused(self.slurm.sbatch("--comment=libra:budget=5,estimate=1,deadline=9", "--budget=6"), "budget is given twice, as --budget and in --comment")
        # The rest in options; and a comment that is only one.
        self.running(self.slurm.submit("--comment=libra:budget=15", "--estimate=10", "--sla-deadline=20"))
        self.assertNotIn("AdminComment", self.slurm.job(self.slurm.submit("--comment=librarian: budget=15")))

    def test_slurms_own_deadline_and_time(self):
        """--deadline as deadline, --time as estimate; Slurm itself no longer ends the job at the deadline."""
        slurm = self.slurm
        began = time.time()
        job = slurm.submit("--budget=500", "--time=1", "--deadline=now+120")
        took = time.time() - began
        commitment, record = self.commitment(job), slurm.job(job)
        self.assertEqual((commitment["estimate"], record["Deadline"], record["TimeLimit"]), ("60", "N/A", "00:03:00"))
        # A clock time, in whole seconds.
        self.assertTrue(118.9 - took <= float(commitment["deadline"]) <= 120.1, commitment)
        self.refused(slurm.sbatch("--budget=500", "--estimate=5", "--deadline=now-60"), "libra: --deadline was ", " ago")
        # Both: the option counts, and what is longer of --time and the sum of deadline and estimate is the time limit.
        job = slurm.submit(*self.terms_of(5, 30), "--time=10", "--deadline=now+3600")
        self.assertEqual((self.commitment(job)["deadline"], self.commitment(job)["estimate"], slurm.job(job)["TimeLimit"]), ("30", "5", "00:10:00"))
        # Alone it is Slurm's.
        plain = slurm.job(slurm.submit("--time=1", "--deadline=now+3600"))
        self.assertNotIn("AdminComment", plain)
        self.assertNotEqual(plain["Deadline"], "N/A")

    def test_nothing_that_waits(self):
        """What has a queue of its own would hold a share for nothing. Jobs that may not start yet are in test_deferred.py."""
        for options, said in ((["--array=1-4%2"], "leave out %2, or submit 2 tasks that each do the work of 2, one after another: --array=0-1 --estimate=2"), (["--licenses=x"], "no licences x of its own")):
            with self.subTest(options):
                self.refused(self.ask(1, 9, *options), f"{said}")
        # One that may start is no such job, and a limit that lets all tasks run is none.
        self.running(self.ask(1, 9, "--begin=now").out)
        array = self.accept(1, "2d", "--array=1-2%2")
        for task in (1, 2):
            self.running(f"{array}_{task}")

    def test_nobody_else_says_what_is_committed(self):
        """A user's environment does not reach the prolog, and only Libra writes the admin comment."""
        slurm, node = self.slurm, self.slurm.nodes[0]
        forged = f"v=1:token=1:submitted={time.time()}:estimate=10:deadline=10:budget=1:type=hard:penalty=0:price=1:chunks=1:processors=1:memory=0:scatter=0:count=1:at={node}*1*1"
        job = slurm.submit("-w", node, environment={"LIBRA_COMMITMENT": forged, "SPANK_LIBRA_COMMITMENT": forged, "SLURM_SPANK_LIBRA_COMMITMENT": forged, "_SLURM_SPANK_OPTION_libra_LIBRA_COMMITMENT": forged})
        slurm.wait_running(job)
        slurm.wait("its processes", lambda: slurm.processes_at_best(node))
        self.assertEqual((slurm.live(), slurm.job_groups()), ([], []))
        answer = slurm.scontrol("update", f"jobid={job}", f"admincomment=libra:{forged}", user=slurm.users[0])
        self.assertNotEqual(answer.rc, 0)


class Placing(SiteCase):
    """Four nodes of one processor, two of which have a feature."""

    site = {"nodes": 4}

    def test_best_fit(self):
        """Each job goes where it leaves least. Slurm alone puts each on an idle node."""
        slurm = self.slurm
        n1, n2, n3, n4 = slurm.nodes
        for node, taken in zip(slurm.nodes, (0.1, 0.5, 0.3, 0.7)):
            self.accept(round(taken * 1_000_000 / MARGIN, 3), 1_000_000, "-w", node, budget="unlimited")
        # Left: 0.9, 0.5, 0.7, 0.3. 0.6 fits n1 and n3, n3 is tighter (0.1 left); 0.4 fits n1 and n2, n2 is tighter (0.1); 0.25 fits n1 and n4, n4 is tighter
        # (0.05); 0.08 fits n1 (0.9), n2 (0.1) and n3 (0.1), of which two are alike; 0.8 then fits n1 only.
        chosen = [slurm.nodes_of(self.placed(share))[0] for share in (0.6, 0.4, 0.25, 0.08, 0.8)]
        self.assertEqual((chosen[:3], chosen[4]), ([n3, n2, n4], n1))
        self.assertIn(chosen[3], (n2, n3))
        self.clear()
        # Four small ones go to one node, and leave the others whole for a large one. Slurm would have used all four.
        self.assertEqual({slurm.nodes_of(self.placed(0.2))[0] for _ in range(4)}, {n1})
        self.running(self.accept(950_000, 1_000_000, budget="unlimited"))
        self.clear()
        plain = [slurm.submit() for _ in range(4)]
        self.assertEqual({self.running(job)["NodeList"] for job in plain}, set(slurm.nodes))

    def placed(self, share):
        job = self.accept(round(share * 1_000_000 / MARGIN, 3), 1_000_000, budget="unlimited")
        self.running(job)
        return job

    def test_what_is_free(self):
        """Neither more nor less than what is left of a node is committed."""
        one, two = self.slurm.nodes[:2]
        self.running(self.slurm.submit(*promises.terms(0.4, one)))
        promises.expect_free(self, self.slurm, {one: 0.6, two: 1.0})

    def test_what_has_not_changed_is_not_told_again(self):
        """A poll of a queue in which nothing happens is three short answers to slurmctld. What happens then is seen as ever."""
        slurm = self.slurm
        node = slurm.nodes[0]
        self.addCleanup(slurm.must, "scontrol", "setdebug", "info")
        slurm.must("scontrol", "setdebug", "debug3")

        def quiet():
            began = len(slurm.log())
            for what in ("jobs", "nodes", "partitions", "conf"):
                slurm.wait(f"no news of {what}", lambda what=what: re.search(rf"_slurm_rpc_dump_{what}\b.*no change", slurm.log()[began:]))

        quiet()
        job = slurm.submit(*promises.terms(0.4, node))
        self.booked(job)
        self.running(job)
        quiet()
        promises.expect_free(self, slurm, {node: 0.6})
        slurm.must("scancel", job)
        slurm.must("scontrol", "update", f"NodeName={slurm.nodes[1]}", "State=DRAIN", "Reason=test")
        slurm.wait("its end in the book", lambda: job not in slurm.booked())
        quiet()
        promises.expect_free(self, slurm, {node: 1.0})
        self.refused(slurm.sbatch(*promises.terms(0.1, slurm.nodes[1])), "refused (")
        slurm.must("scontrol", "update", f"NodeName={slurm.nodes[1]}", "State=RESUME")

    def test_nodes_that_the_user_names(self):
        """--nodelist, --exclude, --constraint."""
        slurm = self.slurm
        n1, n2, n3, n4 = slurm.nodes
        self.assertEqual(self.running(self.accept(1, "2d", "-w", n3))["NodeList"], n3)
        self.assertEqual(self.running(self.accept(1, "2d", "-x", f"{n1},{n3}"))["NodeList"] in (n2, n4), True)
        both = self.accept(1, "2d", "-w", f"{n2},{n4}")
        self.assertEqual(sorted(self.running(both) and slurm.nodes_of(both)), [n2, n4])
        for kind in ("availablefeatures", "activefeatures"):
            slurm.must("scontrol", "update", f"nodename={n2},{n4}", f"{kind}=big,fast")
        try:
            self.assertIn(self.running(self.eventually("-C", "big").out)["NodeList"], (n2, n4))
            self.assertEqual(self.running(self.accept(1, "2d", "-C", "big&fast", "-x", n2))["NodeList"], n4)
            self.refused(self.ask(1, 100, "-C", "big&slow"), "refused (no-node): none of the nodes of partition main has big and slow")
            self.refused(self.ask(1, 100, "-C", "big|fast"), "can only name features that all its nodes have")
        finally:
            for kind in ("activefeatures", "availablefeatures"):
                slurm.must("scontrol", "update", f"nodename={n2},{n4}", f"{kind}=")
        self.refused(self.ask(1, 100, "-w", "nowhere"), "none of the nodes of partition main is one of nowhere")
        self.refused(self.ask(1, 100, "-x", ",".join(slurm.nodes)), "is left by --exclude=")
        # Fewer nodes than are named would not be what was asked for: they are not offered.
        for node in (n1, n2):
            self.accept(90, 100, "-w", node)
        text = self.refused(self.ask(50, 100, "-w", f"{n1},{n3}"), "refused (nodes): only 1 of 2 nodes would fit now")
        self.assertNotIn("-n 1", text)

    def eventually(self, *options, accepted=True):
        """A change of the nodes is known with the next poll. sbatch's answer."""
        def asked():
            self.poll()
            time.sleep(0.3)
            answer = self.slurm.sbatch(*self.terms_of(1, "2d"), *options)
            return answer if (answer.rc == 0) == accepted else None
        return self.slurm.wait(f"{options} {'accepted' if accepted else 'refused'}", asked)

    def test_an_urgent_job_is_refused_rather_than_an_accepted_one_made_late(self):
        node = self.slurm.nodes[1]
        first = self.accept(60, 100, "-w", node)
        self.running(first)
        before = self.commitment(first)
        # It alone would need the whole processor, and would pay for it.
        self.refused(self.ask(10, 10.6, "-w", node, budget=1e6), "libra: refused (share)", node)
        self.assertEqual(self.commitment(first), before)
        self.assertEqual(self.slurm.state(first), "RUNNING")
        self.running(self.accept(10, 10.6))  # elsewhere

    def test_a_node_that_is_drained(self):
        """It gets no new job; the one on it goes on."""
        slurm, node = self.slurm, self.slurm.nodes[2]
        job = self.accept(10, 1000, "-w", node)
        self.running(job)
        slurm.must("scontrol", "update", f"nodename={node}", "state=drain", "reason=test")
        try:
            self.assertIn("refused (no-node)", self.eventually("-w", node, accepted=False).err)
            self.assertNotEqual(self.running(self.accept(1, 100))["NodeList"], node)
            self.assertEqual(slurm.state(job), "RUNNING")
        finally:
            slurm.must("scontrol", "update", f"nodename={node}", "state=resume")
        self.eventually("-w", node)


class Large(SiteCase):
    """Two nodes of four processors and 1,000 MiB, of which memory is handed out too."""

    site = {"nodes": 2, "cpus": 4, "settings": {"SelectTypeParameters": "CR_CPU_Memory", "DefMemPerCPU": 1}}

    def test_processors_of_a_node(self):
        """-n and -c within a node, --ntasks-per-node and -N over two; each is pinned, capped, and what is committed is its share of all of them."""
        slurm = self.slurm
        n1, n2 = slurm.nodes
        for options, nodes, processors in ((["-n4"], [n1], 4), (["-c2"], [n1], 2), (["-n2", "-c2"], [n1], 4), (["-N2", "-n4"], [n1, n2], 2), (["-N2", "--ntasks-per-node=3"], [n1, n2], 3),
                                           (["-n8"], [n1, n2], 4), (["-n2", "--ntasks-per-node=1", "-c4"], [n1, n2], 4)):
            with self.subTest(options):
                job = self.accept(100, 1000, *options)
                self.started(job)
                self.assertEqual(slurm.nodes_of(job), nodes)
                self.assertEqual((self.commitment(job)["processors"], self.share(job)), (str(processors), 0.105))
                self.assertAlmostEqual(self.quota(job, n1), 0.105 * processors, delta=0.05 * processors)
                self.clear()
        self.refused(self.ask(10, 100, "-c5"), "refused (no-node): none of the nodes of partition main has 5 processors")
        self.refused(self.ask(10, 100, "-N2", "-n3"), "3 tasks cannot be spread evenly over 2 nodes")
        self.refused(self.ask(10, 100, "--mincpus=3"), "--mincpus")

    def test_tasks_run_where_they_were_planned(self):
        slurm = self.slurm
        done = slurm.srun(*self.terms_of(10, 100), "-n8", "-l", "sh", "-c", "echo $SLURMD_NODENAME")
        self.assertEqual(done.rc, 0, done.err)
        self.assertEqual(sorted(line.split()[1] for line in done.out.splitlines()), [slurm.nodes[0]] * 4 + [slurm.nodes[1]] * 4)

    def test_memory(self):
        """A node's memory is committed as well."""
        there = ("-w", self.slurm.nodes[0])
        self.running(self.accept(1, 100, *there, "--mem=600"))
        self.refused(self.ask(1, 100, *there, "--mem=600"), "refused (memory): needs 600 MiB of memory; ", "has 400 MiB free")
        self.refused(self.ask(1, 100, "--mem=20G"), "refused (memory)")
        self.refused(self.ask(1, 100, *there, "-n2", "--mem-per-cpu=300"), "refused (memory)")
        self.running(self.accept(1, 100, *there, "-n2", "--mem-per-cpu=150"))
        self.running(self.accept(1, 100, "--mem=600"))


if __name__ == "__main__":
    unittest.main()
