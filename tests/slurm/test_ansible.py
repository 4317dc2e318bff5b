#!/usr/bin/env python3
"""The role of packaging/ansible on a real Slurm: played, played again, only looked at, with variables that are none, and the other way.

    tests/slurm/run test_ansible.py
"""

import pathlib
import sys
import tempfile
import unittest

sys.path[:0] = [str(pathlib.Path(__file__).resolve().parent), str(pathlib.Path(__file__).resolve().parents[1] / "batch")]

import playbook  # noqa: E402
from libra_site import program  # noqa: E402
from test_install import TERMS, Bare  # noqa: E402


@unittest.skipUnless(playbook.program(), "not run: there is no ansible-playbook")
class Role(unittest.TestCase):
    seconds = 3600  # one test is the whole of it
    measures = 0

    @classmethod
    def setUpClass(cls):
        cls.slurm = Bare(nodes=2, cpus=1, settings={"PrologFlags": "NoHold"})
        cls.slurm.__enter__()

    @classmethod
    def tearDownClass(cls):
        cls.slurm.__exit__(None, None, None)

    def play(self, *more, **variables):
        """The role for a cluster of one machine. What would restart daemons leaves a file: they are this test's children."""
        slurm = self.slurm
        given = {"libra_system": "slurm", "libra_packages": [], "libra_program": str(program()), "libra_config": str(slurm.rules), "libra_agent": False,
                 "libra_options": ["--plugins", f"{slurm.directory}/libra-plugins", "--state", f"{slurm.directory}/libra-state"],
                 "libra_environment": {"SLURM_CONF": str(slurm.conf)},
                 "libra_restart_control": ["touch", str(self.restarts / "control")], "libra_restart_node": ["touch", str(self.restarts / "node")],
                 "libra_settings": {"cgroup": {"root": slurm.cgroup_root}, "registry": {"directory": f"{slurm.directory}/registry"}, "node": {"reserve": "10%"}, "class": {"default": "deadline", "queues": {"gpu.q": "dedicated"}}}}
        return playbook.play(self.restarts, "all", given | variables, *more)

    def restarted(self):
        """Which daemons were to be restarted since the last time."""
        found = sorted(file.name for file in self.restarts.iterdir() if file.name in ("control", "node"))
        for name in found:
            (self.restarts / name).unlink()
        return found

    def test_a_cluster_is_set_up_and_left_as_it_was(self):
        slurm = self.slurm
        with tempfile.TemporaryDirectory() as made:
            self.restarts = pathlib.Path(made)
            before = slurm.files()

            # Nothing of it is believed that cannot be.
            for variables, says in (({"libra_system": "lsf"}, "value of libra_system must be one of: slurm, pbs"), ({"libra_options": {"a": 1}}, "libra_options"),
                                    ({"libra_settings": {"pricing": 5}}, "libra_settings.pricing: expected keys"),
                                    ({"libra_settings": {"class": {"queues": {"main": 5}}}}, "libra_settings.class: expected keys"),
                                    ({"libra_settings": {"pricing": {"rule": "by-luck"}}}, "by-luck"), ({"libra_program": "/nowhere/libra"}, "/nowhere/libra is not there")):
                played = self.play(**variables)
                self.assertNotEqual(played.rc, 0, played.text)
                self.assertIn(says, played.text)
                self.assertEqual((slurm.files(), self.restarted()), (before, []), variables)

            # What would be done is said, and not done.
            looked = self.play("--check", "--diff")
            self.assertEqual(looked.rc, 0, looked.text)
            self.assertIn("+jobSubmitPlugins = logging,libra   # keep", looked.text)
            self.assertGreater(looked.changed, 0, looked.text)
            self.assertEqual((slurm.files(), self.restarted()), (before, []))

            played = self.play()
            self.assertEqual(played.rc, 0, played.text)
            self.assertEqual(self.restarted(), ["control", "node"])
            rules = slurm.rules.read_text()
            self.assertIn('[node]\nreserve = "10%"\n', rules)
            self.assertIn('[pricing]\nrule = "by-share"\n', rules)
            installed = slurm.files()

            again = self.play()
            self.assertEqual((again.rc, again.changed, self.restarted()), (0, 0, []), again.text)
            looked = self.play("--check")
            self.assertEqual((looked.rc, looked.changed), (0, 0), looked.text)
            self.assertEqual(slurm.files(), installed)

            slurm.restart()
            slurm.restart_nodes()
            job = slurm.submit(*TERMS)
            slurm.wait_running(job)
            held = slurm.srun(*TERMS, "cat", "/proc/self/cgroup")
            self.assertRegex(held.out, rf":cpu:/{slurm.cgroup_root}/job-\d+\n", held.err + "\n".join(slurm.log(node)[-3000:] for node in slurm.nodes))

            # Not under a job's feet.
            played = self.play(libra_state="absent")
            self.assertNotEqual(played.rc, 0, played.text)
            self.assertIn(f"queued or running: {job}", played.text)
            slurm.must("scancel", job)
            slurm.wait_ended(job)
            looked = self.play("--check", libra_state="absent")
            self.assertEqual(looked.rc, 0, looked.text)
            self.assertGreater(looked.changed, 0, looked.text)
            self.assertEqual((slurm.files(), self.restarted()), (installed, []))
            played = self.play(libra_state="absent")
            self.assertEqual(played.rc, 0, played.text)
            self.assertEqual(self.restarted(), ["control", "node"])
            played = self.play(libra_state="absent")
            self.assertEqual((played.rc, played.changed, self.restarted()), (0, 0, []), played.text)
            # The configuration stays, as a package's does.
            rules = str(slurm.rules)
            self.assertEqual({name: file for name, file in slurm.files().items() if name != rules}, {name: file for name, file in before.items() if name != rules})
            slurm.restart()
            self.assertEqual(slurm.wait_ended(slurm.submit("--time=1", script="sleep 1\n"))["JobState"], "COMPLETED")


if __name__ == "__main__":
    unittest.main()
