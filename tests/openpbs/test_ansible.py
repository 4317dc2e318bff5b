#!/usr/bin/env python3
"""The role of packaging/ansible on a real OpenPBS: played, played again, only looked at, with variables that are none, and the other way.

    tests/openpbs/run test_ansible.py
"""

import pathlib
import shutil
import sys
import tempfile
import unittest

sys.path[:0] = [str(pathlib.Path(__file__).resolve().parent), str(pathlib.Path(__file__).resolve().parents[1] / "batch")]

import playbook  # noqa: E402
from cluster import Cluster  # noqa: E402
from test_install import LIBRA, LIBRARY, SUBNET, Site, same  # noqa: E402


@unittest.skipUnless(playbook.program(), "not run: there is no ansible-playbook")
class Role(unittest.TestCase):
    seconds = 3600  # one test is the whole of it
    measures = 0

    def play(self, *more, **variables):
        """The role for the server's host. Program and library lie as a package puts them."""
        site = self.site
        given = {"libra_system": "pbs", "libra_packages": [], "libra_program": str(self.prefix / "bin/libra"), "libra_config": str(site.config), "libra_agent": False,
                 "libra_options": ["--state", str(site.state)], "libra_install_options": ["--nodes", site.pbs.host_names[0]],
                 "libra_environment": {"PBS_CONF_FILE": str(site.pbs.conf)}}
        return playbook.play(self.prefix, "control", given | variables, *more)

    def test_a_server_is_set_up_and_left_as_it_was(self):
        with Cluster(hosts=2, processors=3, subnet=SUBNET) as pbs, tempfile.TemporaryDirectory() as made:
            self.prefix, self.site = pathlib.Path(made), Site(pbs)
            site = self.site
            self.addCleanup(site.remove_cgroups)
            self.prefix.chmod(0o755)
            for source, name in ((LIBRA, "bin/libra"), (LIBRARY, "lib/liblibra.so.0")):
                (self.prefix / name).parent.mkdir()
                shutil.copy(source, self.prefix / name)
            before = site.snapshot()

            played = self.play(libra_state="gone")
            self.assertNotEqual(played.rc, 0, played.text)
            self.assertIn("value of libra_state must be one of", played.text)
            played = self.play(libra_install_options=["--share", "many"])
            self.assertNotEqual(played.rc, 0, played.text)
            same(before, site.snapshot())

            looked = self.play("--check")
            self.assertEqual(looked.rc, 0, looked.text)
            self.assertIn("create resource", looked.text)
            self.assertGreater(looked.changed, 0, looked.text)
            same(before, site.snapshot())

            played = self.play()
            self.assertEqual(played.rc, 0, played.text)
            installed = site.snapshot()
            self.assertIn("libra_share", installed["print"])
            again = self.play()
            self.assertEqual((again.rc, again.changed), (0, 0), again.text)
            looked = self.play("--check")
            self.assertEqual((looked.rc, looked.changed), (0, 0), looked.text)
            same(installed, site.snapshot())

            looked = self.play("--check", libra_state="absent")
            self.assertEqual(looked.rc, 0, looked.text)
            self.assertGreater(looked.changed, 0, looked.text)
            same(installed, site.snapshot())
            played = self.play(libra_state="absent")
            self.assertEqual(played.rc, 0, played.text)
            same(before, site.snapshot())
            played = self.play(libra_state="absent")
            self.assertEqual((played.rc, played.changed), (0, 0), played.text)


if __name__ == "__main__":
    unittest.main()
