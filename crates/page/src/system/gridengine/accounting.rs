//! How a job has ended, as `qacct -j` prints it. Pure, but for the zone of this host: Grid Engine forgets a job with its end, its accounting
//! file does not.

use super::super::ending;
use super::super::records::End;
use libra_system::clock::local_time;
use std::collections::BTreeMap;

/// Exit statuses of what was ended by SIGKILL and SIGTERM.
const KILLED: [i64; 2] = [137, 143];

/// What went back into the queue has not ended (sge_status(5)).
const TAKEN_BACK: [u32; 2] = [24, 25];

/// Job numbers begin again at the last one: a record is a job's if both know about the same time of submission, in seconds.
pub const CLOCKS: f64 = 300.0;

/// A record: a job, a task of an array, or a time that it was taken back into the queue.
#[derive(Debug, Clone, PartialEq, Default)]
struct Record<'a>(BTreeMap<&'a str, &'a str>);

impl<'a> Record<'a> {
    fn text(&self, key: &str) -> &'a str {
        self.0.get(key).copied().unwrap_or_default()
    }

    /// The number that a value begins with: `100 : assumedly after job`, `4.797KB`.
    fn number(&self, key: &str) -> Option<f64> {
        let text = self.text(key);
        let end = text.find(|c: char| !(c.is_ascii_digit() || c == '.'));
        text[..end.unwrap_or(text.len())].parse().ok()
    }

    fn time(&self, key: &str) -> Option<f64> {
        local_time(self.text(key))
    }

    fn failed(&self) -> u32 {
        self.number("failed").unwrap_or(0.0) as u32
    }

    /// How it has ended: a state as pages have it, and in words. By the same rules as what is charged for it.
    fn how(&self) -> (&'static str, String) {
        let exit = self.number("exit_status").unwrap_or(0.0) as i64;
        let measured = ["ru_wallclock", "ru_maxrss"];
        let is_measured = measured.iter().any(|key| self.number(key) > Some(0.0));
        let itself = match exit {
            0 => "completed",
            _ => "failed",
        };
        match self.failed() {
            37 => ("failed", "ended by a limit of its own (h_rt, h_cpu or h_vmem)".to_string()),
            0 if is_measured => (itself, ending::exit_code(exit)),
            0 => ("cancelled", "deleted".to_string()),
            17 | 100 if KILLED.contains(&exit) => ("cancelled", "deleted, or ended by a limit".to_string()),
            12..=17 | 100 => (itself, ending::exit_code(exit)),
            26..=36 => (
                "failed",
                "never began: its files, its directory or what reads its script could not be opened".to_string(),
            ),
            failed => ("failed", format!("its host has failed (Grid Engine: {failed})")),
        }
    }
}

/// Records as qacct separates them.
fn records(text: &str) -> Vec<Record<'_>> {
    let mut records = Vec::new();
    for line in text.lines() {
        if line.starts_with("====") {
            records.push(Record::default());
        }
        let pair = line.split_once(' ');
        if let (Some(record), Some((key, value))) = (records.last_mut(), pair) {
            record.0.insert(key, value.trim());
        }
    }
    records
}

/// How a job has ended that was submitted at about that time: all its tasks as one, as bad as the worst. None if nothing of it
/// is there yet, or not of so many `tasks`.
pub fn end_of(text: &str, submitted: f64, tasks: usize) -> Option<End> {
    let is_its = |record: &Record<'_>| {
        let queued = record.time("qsub_time");
        queued.is_some_and(|queued| (queued - submitted).abs() <= CLOCKS)
    };
    let all = records(text);
    let mut last: BTreeMap<&str, &Record<'_>> = BTreeMap::new();
    for record in all.iter().filter(|record| is_its(record)) {
        if TAKEN_BACK.contains(&record.failed()) {
            continue;
        }
        let before = last.entry(record.text("taskid")).or_insert(record);
        // Of one with parts on several hosts the last is that of the job itself.
        if record.time("end_time") >= before.time("end_time") {
            *before = record;
        }
    }
    if last.len() < tasks.max(1) {
        return None;
    }
    let rank = |state: &str| {
        ["completed", "cancelled", "failed"]
            .iter()
            .position(|s| *s == state)
    };
    let worst = last.values().max_by_key(|record| rank(record.how().0))?;
    let (state, said) = worst.how();
    let mut nodes: Vec<&str> = last
        .values()
        .map(|record| record.text("hostname"))
        .collect();
    nodes.sort_unstable();
    nodes.dedup();
    let ends = last.values().filter_map(|record| record.time("end_time"));
    Some(End {
        at: ends.reduce(f64::max),
        state: state.to_string(),
        ending: match (tasks, worst.text("taskid")) {
            (2.., task) if state != "completed" => format!("task {task}: {said}"),
            _ => said,
        },
        node: nodes.join(" "),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record(task: &str, failed: &str, exit: &str, ended: &str, maxrss: &str) -> String {
        format!(
            "==============================================================\nqname        main.q              \nhostname     g1                  \njobnumber    4                   \n\
             taskid       {task}                   \nqsub_time    Mon Nov  9 18:35:52 2026\nstart_time   Mon Nov  9 18:35:52 2026\nend_time     {ended}\nfailed       {failed}    \n\
             exit_status  {exit}                   \nru_wallclock 0s\nru_maxrss    {maxrss}\ncategory     -q main.q@g1\n"
        )
    }

    fn end(text: &str, tasks: usize) -> Option<End> {
        end_of(
            text,
            local_time("Mon Nov  9 18:35:50 2026").expect("a time"),
            tasks,
        )
    }

    const ENDED: &str = "Mon Nov  9 18:36:02 2026";

    #[test]
    fn a_record_says_how_a_job_ended() {
        for (failed, exit, maxrss, state, said) in [
            ("0", "0", "4.797KB", "completed", "exit code 0"),
            ("0", "3", "4.797KB", "failed", "exit code 3"),
            (
                "100 : assumedly after job",
                "137",
                "1.0KB",
                "cancelled",
                "deleted, or ended by a limit",
            ),
            (
                "100 : assumedly after job",
                "139",
                "1.0KB",
                "failed",
                "exit code 139: a program was ended by SIGSEGV: it used memory that it does not have",
            ),
            (
                "37  : qmaster enforced",
                "0",
                "1.0KB",
                "failed",
                "ended by a limit of its own (h_rt, h_cpu or h_vmem)",
            ),
            (
                "26  : opening input/output file",
                "0",
                "0.000B",
                "failed",
                "never began: its files, its directory or what reads its script could not be opened",
            ),
            ("0", "0", "0.000B", "cancelled", "deleted"),
            (
                "21  : in recognizing job",
                "0",
                "0.000B",
                "failed",
                "its host has failed (Grid Engine: 21)",
            ),
        ] {
            let end = end(&record("undefined", failed, exit, ENDED, maxrss), 1).expect("it ended");
            assert_eq!((end.state.as_str(), end.ending.as_str()), (state, said));
            assert_eq!(end.node, "g1");
            assert_eq!(end.at, local_time(ENDED));
        }
    }

    #[test]
    fn what_was_taken_back_or_is_another_jobs_is_no_end() {
        let back = record("undefined", "25  : rescheduling", "99", ENDED, "1.0KB");
        assert_eq!(end(&back, 1), None);
        let again = format!(
            "{back}{}",
            record("undefined", "0", "0", "Mon Nov  9 18:37:00 2026", "1.0KB")
        );
        assert_eq!(
            end(&again, 1).map(|end| end.state),
            Some("completed".to_string())
        );
        assert_eq!(
            end_of(&again, 0.0, 1),
            None,
            "of a job of that number from long ago"
        );
        for nothing in [
            "",
            "error: job id 4711 not found\n",
            "====\n",
            "====\nfailed\nqsub_time x\n",
        ] {
            assert_eq!(end(nothing, 1), None);
        }
    }

    #[test]
    fn an_array_has_ended_with_all_its_tasks_and_is_as_bad_as_the_worst() {
        let one = record("1", "0", "0", ENDED, "1.0KB");
        assert_eq!(end(&one, 2), None);
        let both = format!(
            "{one}{}",
            record("3", "0", "7", "Mon Nov  9 18:40:02 2026", "1.0KB")
        );
        let end = end(&both, 2).expect("both");
        assert_eq!(
            (end.state.as_str(), end.ending.as_str()),
            ("failed", "task 3: exit code 7")
        );
        assert_eq!(end.at, local_time("Mon Nov  9 18:40:02 2026"));
    }
}
