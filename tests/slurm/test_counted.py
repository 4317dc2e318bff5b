#!/usr/bin/env python3
"""What jobs with terms have for themselves beside shares of processors: generic resources (GRES) and licences.

No GPU is needed: Slurm counts what gres.conf says, and these files are there on every machine.

Run as root: `python3 tests/slurm/test_counted.py`.
"""

import json
import pathlib
import shutil
import sys
import unittest

sys.path[:0] = [str(pathlib.Path(__file__).resolve().parent), str(pathlib.Path(__file__).resolve().parent.parent / "batch")]

import machine  # noqa: E402
from case import SiteCase  # noqa: E402
from libra_site import Site, program  # noqa: E402

MARK = "libra-quote: "
FILES = """Name=gpu Type=tesla File=/dev/null
Name=gpu Type=tesla File=/dev/zero
Name=gpu Type=plain File=/dev/full
Name=card Type=fast Count=2
"""


class WithGres(Site):
    """Each node has GPUs of two types, two cards of one and some tapes, the cluster has licences."""

    def tapes(self, count):
        self.plan["node_settings"] = {"Gres": f"gpu:tesla:2,gpu:plain:1,card:fast:2,tape:{count}"}
        machine.write_whole(self.directory / "etc/gres.conf", f"{FILES}Name=tape Count={count}\n")

    def before_start(self):
        super().before_start()
        self.tapes(4)


class Counted(SiteCase):
    """Two nodes of two processors, which their jobs share; what is counted they do not."""

    kind = WithGres
    site = {"nodes": 2, "cpus": 2, "settings": {"GresTypes": "gpu,card,tape", "Licenses": "matlab:4,ansys:2"}, "partitions": {"plain": {"OverSubscribe": "FORCE:20"}}}

    def has(self, job):
        """What Slurm says that a job has on its nodes, as soon as it runs: {"gpu:tesla": 2}, or {"tape": 1}; in all."""
        self.running(job)
        shown = self.slurm.must("scontrol", "-d", "-o", "show", "job", job)
        given = next(word for word in shown.split() if word.startswith("JOB_GRES=")).removeprefix("JOB_GRES=")
        pairs = [part.rsplit(":", 1) for part in given.split(",") if ":" in part]
        return {name: int(count) for name, count in pairs if count != "0"}

    def said(self, *options):
        """What is said to a question about such a job, which holds nothing."""
        return self.refused(self.ask(1, "2d", "--sla-quote=ask", *options), "libra")

    def quoted(self, gpus):
        """Whether `libra quote` says that a job with these would be accepted."""
        front = self.slurm.directory / "front"
        front.mkdir(mode=0o755, exist_ok=True)
        libra = shutil.copy(program(), front / "libra")
        terms = ["--estimate=1", "--deadline=2d", f"--gpus={gpus}", "--system=slurm"]
        answer = self.slurm.run(libra, "quote", "--json", *terms, user=self.slurm.users[0])
        self.assertIn(answer.rc, (0, 3), answer)
        return json.loads(answer.out)["verdict"] == "accepted"

    def freed(self, *options):
        def accepted():
            _, mark, answer = self.said(*options).partition(MARK)
            return mark and json.loads(answer.splitlines()[0])["accepted"]
        self.slurm.wait(f"{options} can be had", accepted)

    def taken(self, said, *options):
        """Wait until Libra has seen what others have, which then is its reason to refuse such a job."""
        self.slurm.wait(f"Libra knows: {said}", lambda: said in self.said(*options))

    def test_each_way_to_ask(self):
        """A job that is accepted has what it asks for, at once."""
        one, two = self.slurm.nodes
        for options, expected in (
            (["--gres=gpu:tesla:1,tape:2", "-w", one], {"gpu:tesla": 1, "tape": 2}),
            (["--gpus=plain:1", "-w", one], {"gpu:plain": 1}),
            (["--gpus-per-node=tesla:1", "-w", one], {"gpu:tesla": 1}),
            (["--gpus-per-task=tesla:1", "-n", "2", "-w", two], {"gpu:tesla": 2}),
            (["--gres=card", "-w", two], {"card:fast": 1}),
        ):
            self.assertEqual(self.has(self.accept(1, "2d", *options)), expected, options)
        # Of alike parts each has as many.
        job = self.accept(1, "2d", "-N", "2", "--gres=tape:1", "--ntasks=2")
        self.assertEqual(self.has(job), {"tape": 2})

    def test_in_all_is_the_same_on_each_node(self):
        job = self.accept(1, "2d", "-N", "2", "--gpus=tesla:2")
        self.assertEqual(self.has(job), {"gpu:tesla": 2})
        self.assertRegex(self.slurm.job(job)["TresPerNode"], r"gpu:tesla[:=]1$")
        self.assertNotIn("TresPerJob", self.slurm.job(job))
        self.refused(self.ask(1, "2d", "-N", "2", "--gpus=tesla:3"), "3 gpu cannot be spread evenly over 2 nodes", "--gpus-per-node")

    def test_what_a_job_has_nobody_else_has(self):
        """Processors are shared, GPUs are not; an end gives them back, a restart of slurmctld does not."""
        slurm = self.slurm
        one, two = slurm.nodes
        first, second = (self.accept(1, "2d", "--gres=gpu:tesla:2") for _ in range(2))
        self.assertEqual({self.running(job)["NodeList"] for job in (first, second)}, {one, two})
        said = "needs 1 gpu:tesla; the best node, "
        self.refused(self.ask(1, "2d", "--gres=gpu:tesla:1"), "refused (resource)", said, "has 0 free")
        self.assertIn(said, self.ask(1, "2d", "--gres=gpu:tesla:1", "--test-only").err)
        self.assertIn(said, self.said("--gres=gpu:tesla:1"))
        self.assertEqual([self.quoted(gpus) for gpus in ("tesla:1", "plain:1", "2")], [False, True, False])
        self.assertEqual(self.has(self.accept(1, "2d", "--gres=gpu:plain:1")), {"gpu:plain": 1})
        self.booked(first)
        slurm.stop_controller()
        before = slurm.log().count(" jobs with terms")
        slurm.start_controller()
        slurm.wait_judging(times=before + 1)
        self.refused(self.ask(1, "2d", "--gres=gpu:tesla:1"), "refused (resource)", said)
        slurm.scancel(first)
        self.freed("--gres=gpu:tesla:2")
        self.assertEqual(self.has(self.accept(1, "2d", "--gres=gpu:tesla:2")), {"gpu:tesla": 2})

    def test_tasks_of_an_array_have_each_their_own(self):
        self.refused(self.ask(1, "2d", "--array=1-5", "--gres=gpu:tesla:1"), "refused (jobs)")
        array = self.accept(1, "2d", "--array=1-4", "--gres=gpu:tesla:1")
        for task in range(1, 5):
            self.running(f"{array}_{task}")
        self.refused(self.ask(1, "2d", "--gres=gpu:tesla:1"), "refused (resource)")

    def test_jobs_without_terms_count(self):
        """Whichever partition they came by, and by the type that Slurm has given them."""
        slurm = self.slurm
        one = slurm.nodes[0]
        plain = slurm.submit("-p", "plain", "-w", one, "--gres=gpu:3")
        self.assertEqual(self.has(plain), {"gpu:tesla": 2, "gpu:plain": 1})
        for kind in ("tesla", "plain"):
            self.taken(f"needs 1 gpu:{kind}; the best node, {one}, has 0 free", "-w", one, f"--gres=gpu:{kind}:1")
        slurm.scancel(plain)
        self.freed("-w", one, "--gres=gpu:tesla:2")
        # One that goes on to several nodes has on each what it has there.
        plain = slurm.submit("-N", "2", "--gpus=plain:2", "--gres=card:1")
        self.running(plain)
        self.taken("needs 2 card", "--gres=card:2")

    def test_licences(self):
        slurm = self.slurm
        first = self.accept(1, "2d", "--licenses=matlab:3,ansys")
        self.assertEqual(self.running(first)["Licenses"], "matlab:3,ansys")
        self.refused(self.ask(1, "2d", "-L", "matlab:2"), "refused (resource)", "needs 2 matlab; the cluster has 1 free")
        plain = slurm.submit("-L", "matlab:1")
        self.running(plain)
        self.taken("needs 1 matlab; the cluster has 0 free", "-L", "matlab")
        slurm.scancel(first)
        self.freed("-L", "matlab:3")
        self.refused(self.ask(1, "2d", "--array=1-2", "-L", "matlab:2"), "needs 4 matlab; the cluster has 3 free")
        array = self.accept(1, "2d", "--array=1-3", "-L", "matlab:1")
        for task in range(1, 4):
            self.running(f"{array}_{task}")

    def test_licences_of_a_reservation(self):
        slurm = self.slurm
        slurm.must("scontrol", "create", "reservation", "reservationname=kept", "starttime=now+7days", "duration=60", "licenses=matlab:3", "users=root", "flags=LICENSE_ONLY")
        try:
            self.taken("the cluster has 1 for jobs without a reservation", "-L", "matlab:2")
        finally:
            slurm.must("scontrol", "delete", "reservationname=kept")
        self.freed("-L", "matlab:4")

    def test_a_count_that_is_changed(self):
        slurm = self.slurm
        lacks = ("none of the nodes of partition main has 5 tape", "--gres=tape:5")
        self.taken(*lacks)
        slurm.tapes(6)
        try:
            slurm.reconfigure(Licenses="matlab:7,ansys:2")
            self.freed("--gres=tape:6")
            self.freed("-L", "matlab:7")
        finally:
            slurm.tapes(4)
            slurm.reconfigure(Licenses="matlab:4,ansys:2")
        self.taken(*lacks)

    def test_one_that_starts_later(self):
        """Its GPU is asked for when it may start."""
        job = self.accept(1, "2d", "--begin=now+3600", "--gres=gpu:plain:1")
        others = [self.accept(1, "2d", "--gres=gpu:plain:1") for _ in range(2)]
        self.change("update", f"jobid={job}", "starttime=now")
        self.slurm.wait("it is said what it waits for", lambda: "waits for room" in self.slurm.job(job).get("Comment", ""))
        self.slurm.scancel(others[0])
        self.assertEqual(self.has(job), {"gpu:plain": 1})

    def test_what_cannot_be_promised_is_refused_by_name(self):
        for options, said in (
            (["--gres=gpu:1"], "has gpu of one type alone"),
            (["--gres=gpu:tesla:3"], "none of the nodes of partition main has 3 gpu:tesla"),
            (["--gres=gpu:other:1"], "no node for jobs with a deadline has gpu:other"),
            (["--gpus=tesla:1", "--gpus-per-node=tesla:1"], "gpu is asked for twice"),
            (["--gpus=tesla:1", "--cpus-per-gpu=1"], "cannot ask for --cpus-per-gpu"),
            (["--gpus=tesla:1", "--mem-per-gpu=1"], "cannot ask for --mem-per-gpu"),
            (["--gpus=tesla:1", "--ntasks-per-gpu=1"], "cannot ask for --ntasks-per-gpu"),
            (["--gpus-per-socket=tesla:1", "--sockets-per-node=1"], "cannot ask for --gpus-per-socket"),
            (["--gres=gpu:tesla:1", "--gres-flags=enforce-binding"], "cannot ask for --gres-flags=enforce-binding"),
            (["--licenses=word"], "no licences word of its own"),
            (["--licenses=matlab:5"], "it asks for 5 licences matlab; the cluster has 4"),
            (["--licenses=matlab:1|ansys:1"], "names each of its licences once"),
        ):
            with self.subTest(options=options):
                self.refused(self.ask(1, "2d", *options), said)


if __name__ == "__main__":
    unittest.main()
