"""Classes of service in a cell with Libra: whole processors, given now and held from start to end, or refused."""

import json
import unittest

from case import CellCase

HOUR = 3600
# More than two seconds of work, and nothing after them.
WORKED = "python3 -c 'import time\nwhile time.process_time() < 3: pass'\nexec sleep 1000\n"
PRICES = "[class]\ndedicated-price = 2.0\nimmediate-price = 3.0\n"


class Classes(CellCase):
    site = {"rules": PRICES}

    def whole(self, terms, *more, **options):
        """A job of one processor on the first host; qsub's answer."""
        return self.cell.qsub("-l", f"h=g1,budget=1000000,{terms}", *more, **options)

    def taken(self, answer):
        """The number of a job that was accepted."""
        self.assertEqual(answer.rc, 0, answer)
        return answer.out.strip()

    def shown(self, job):
        """The job in `libra gridengine status`."""
        [found] = [one for one in json.loads(self.cell.status())["jobs"] if one["id"] == job]
        return found

    def quota(self, job):
        quota, period = (int((self.cell.group("g1", job) / f"cpu.cfs_{what}_us").read_text()) for what in ("quota", "period"))
        return quota / period if quota > 0 else float("inf")

    def test_whole_processors_are_held_while_the_job_gets_on(self):
        """With its estimate used and hours until its deadline a job with a share would need next to nothing: this one keeps its processor."""
        job = self.taken(self.whole("estimate=2,deadline=2h,class=dedicated", script=WORKED))
        self.cell.wait_running(job)
        self.assertEqual((self.places(job), self.commitment(job)["class"]), ({"g1": 1.0}, "dedicated"))
        self.cell.wait("it has used its estimate", lambda: self.processes(job, "g1") and self.used(job, "g1") > 2.5)
        self.assertGreaterEqual(self.quota(job), 1.0)
        # What is left to others is all but one processor, and not half of that one.
        self.refused(self.whole(f"estimate={HOUR},class=immediate", "-pe", "smp", self.cell.slots("g1")), "refused (share)")
        found = self.shown(job)
        self.assertEqual((found["class"], found["share"]), ("dedicated", 1.0))

    def test_less_than_a_whole_processor_is_free(self):
        """Refused at once, with what would be taken instead; and that is taken."""
        # All but a part of a processor, and then what is left of it: 0.7875 of each with the margin.
        slots = self.cell.slots("g1")
        self.taken(self.whole("estimate=3h,deadline=4h", "-pe", "smp", slots))
        terms = f"estimate={HOUR // 4},deadline=4h"
        self.refused(self.whole(f"{terms},class=dedicated", "-pe", "smp", slots), "refused (share)", "-l class=deadline (costs ")
        self.taken(self.whole(f"{terms},class=deadline", "-pe", "smp", slots))
        self.assertNotIn("class=deadline", self.refused(self.whole(f"estimate={HOUR},class=immediate", "-pe", "smp", slots), "refused (share)"))

    def test_an_immediate_job_needs_no_deadline(self):
        job = self.taken(self.whole(f"estimate={HOUR},class=immediate"))
        self.cell.wait_running(job)
        self.cell.wait("it is in the book", lambda: any(one["id"] == job for one in json.loads(self.cell.status())["jobs"]))
        found = self.shown(job)
        self.assertEqual((found["class"], found["deadline"], found["left_seconds"]), ("immediate", None, None))

    def test_bad_input(self):
        """Each is told what is wrong with it, and is not queued."""
        terms = f"estimate={HOUR},deadline=4h"
        for more, options, said in [
            (f"{terms},class=dedicated,quote=hold:5m", [], "a quote cannot be held for class=dedicated"),
            ("deadline=4h,class=dedicated", [], "estimate is missing; class=dedicated needs it"),
            (f"estimate={HOUR},class=dedicated", [], "deadline is missing; class=dedicated needs it"),
            (f"estimate={HOUR},class=immediate,penalty_rate=1", [], "class=immediate promises no deadline here"),
            ("class=best-effort", [], "class=best-effort: in a batch system a job without terms is promised nothing"),
            (f"{terms},class=urgent", [], "'urgent' is no class of service"),
            (f"{terms},class=immediate", ["-h"], "starts at once"),
            ("estimate=4h,deadline=1h,class=immediate", [], "refused (deadline)"),
        ]:
            with self.subTest(more, options=options):
                self.refused(self.whole(more, *options), said)


class OfTheSite(CellCase):
    """What is not offered, and the classes of jobs that name none."""

    site = {"rules": f"{PRICES}immediate = false\nseveral = 'dedicated'\n"}

    def quote(self, *asked):
        found = self.cell.qsub("-l", "quote=ask", *asked)
        said = found.out + found.err
        return json.loads(said[said.index("{"):said.rindex("}") + 1])

    def of_class(self, sla_class, line, *options):
        """A quote and a submission say that it is of this class, by this line."""
        asked = ["-l", f"h=g1,budget=1000000,estimate={HOUR},deadline=4h", *options]
        quote = self.quote(*asked)
        self.assertEqual((quote["accepted"], quote["class"], quote["class_line"]), (True, sla_class, line))
        answer = self.cell.qsub(*asked)
        self.assertEqual(answer.rc, 0, answer)
        job = answer.out.strip()
        self.assertEqual(self.commitment(job).get("class", "deadline"), sla_class)
        self.cell.run("qdel", job)
        self.cell.wait("all of the host can be had again", lambda: self.is_free("g1"))

    def test_jobs_that_name_no_class(self):
        """By the slots, and rather by the queue."""
        two, queue = ["-pe", "smp", 2], self.cell.must("qconf", "-sql").split()[0]
        self.of_class("deadline", None)
        self.of_class("dedicated", "class.several", *two)
        self.refused(self.cell.qsub("-l", f"h=g1,budget=1000000,estimate={HOUR}", *two), "deadline is missing; class=dedicated needs it",
                     "class=dedicated by class.several of the site's configuration, as it names none")
        self.cell.add_rules(f"[class.queues]\n'{queue}' = 'deadline'\n")
        # A verifier that was asked before goes on until qmaster has seen that its script is another one.
        self.cell.wait("the line is known", lambda: "class.queues" in str(self.quote("-l", f"h=g1,budget=1,estimate={HOUR},deadline=4h")["class_line"]))
        self.of_class("deadline", f'class.queues."{queue}"', *two, "-q", queue)

    def test_it_is_refused_by_name(self):
        self.refused(self.cell.qsub("-l", f"budget=1000000,estimate={HOUR},class=immediate"), "class=immediate is not offered here (section [class]")


if __name__ == "__main__":
    unittest.main()
