//! The user's jobs as `qstat -xml` has them. Pure, but for the asking whether a path is a directory.

use libra_core::commitment::Commitment;
use libra_xml::{Element, XmlError, parse};
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

/// The variable of a job's context with what is committed to it, behind its number.
const CONTEXT: &str = "libra";

/// The bit of a job's type that arrays have.
const ARRAY: u32 = 128;

/// A job of the list, an array with all its tasks.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Listed {
    /// Its name.
    pub name: String,
    /// Letters of the state of that part of it which is furthest: `r`, `qw`, `hqw`, `Eqw`.
    pub letters: String,
    /// Hosts on which it runs.
    pub hosts: BTreeSet<String>,
    /// Queues in which it runs.
    pub queues: BTreeSet<String>,
    /// Tasks of an array that have begun.
    pub begun: usize,
    /// Tasks of an array that have not, as qstat has them: `4-9:1`.
    pub waiting: String,
}

impl Listed {
    /// Its state in a word.
    pub fn state(&self) -> &'static str {
        let has = |letters: &str| self.letters.contains(|c| letters.contains(c));
        match () {
            () if has("d") => "ending",
            () if has("E") => "error",
            () if has("q") && has("h") => "held",
            () if has("qw") => "waits",
            () if has("sST") => "suspended",
            () if has("t") => "starting",
            () => "running",
        }
    }

    /// It has processes, or had some.
    pub fn has_begun(&self) -> bool {
        !self.letters.contains(['q', 'w'])
    }
}

/// Reads `qstat -xml -u USER`, by numbers.
///
/// # Errors
/// It is not what qstat writes.
pub fn list(text: &str) -> Result<BTreeMap<u32, Listed>, XmlError> {
    let root = parse(text)?;
    let mut jobs: BTreeMap<u32, Listed> = BTreeMap::new();
    for element in root.below("job_list") {
        let Some(number) = element.number_of("JB_job_number") else {
            continue;
        };
        let job = jobs.entry(number).or_default();
        let letters = element.text_of("state");
        let begun = !letters.contains(['q', 'w']);
        // Of an array that has begun its tasks in the queue say less.
        if job.letters.is_empty() || begun && !job.has_begun() {
            job.letters = letters.to_string();
        }
        job.name = element.text_of("JB_name").to_string();
        if let Some((queue, host)) = element.text_of("queue_name").split_once('@') {
            job.queues.insert(queue.to_string());
            job.hosts.insert(host.to_string());
        }
        if let Some(tasks) = element.child("tasks") {
            match begun {
                true => job.begun += 1,
                false if job.waiting.is_empty() => job.waiting.clone_from(&tasks.text),
                false => job.waiting += &format!(",{}", tasks.text),
            }
        }
    }
    Ok(jobs)
}

/// What the list does not say of a job. It does not change, but for `messages`.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Details {
    /// When it was submitted, Unix time.
    pub submitted: f64,
    /// Its name.
    pub name: String,
    /// Its directory; None: the home.
    pub directory: Option<PathBuf>,
    /// `-o`, as it was given.
    pub output: Option<String>,
    /// Where it may run.
    pub queues: Vec<String>,
    /// How many tasks it is, and the number of the first; None for a job that is no array.
    pub tasks: Option<(usize, u32)>,
    /// What is committed to it.
    pub commitment: Option<Commitment>,
    /// Why it is in an error.
    pub messages: Vec<String>,
}

/// Reads `qstat -xml -j …`, by numbers. One that is gone is not among them.
///
/// # Errors
/// It is not what qstat writes.
pub fn details(text: &str) -> Result<BTreeMap<u32, Details>, XmlError> {
    let root = parse(text)?;
    let elements = root.all("djob_info").flat_map(|info| info.all("element"));
    let read = |element: &Element| {
        let number = element.number_of("JB_job_number")?;
        Some((number, details_of(number, element)))
    };
    Ok(elements.filter_map(read).collect())
}

fn details_of(number: u32, element: &Element) -> Details {
    let path = |name: &str| {
        let paths = element.child(name)?.below("PN_path");
        Some(paths.first()?.text.clone()).filter(|path| !path.is_empty())
    };
    let committed = |variable: &&Element| variable.text_of("VA_variable") == CONTEXT;
    let context = element
        .child("JB_context")
        .map(|all| all.below("context_list"));
    let commitment = (context.into_iter().flatten().find(committed))
        // The number tells it from one that was copied.
        .and_then(|variable| {
            let (of, line) = variable.text_of("VA_value").split_once(':')?;
            (of.parse() == Ok(number)).then(|| Commitment::parse(line).ok())?
        });
    let range = element
        .child("JB_ja_structure")
        .and_then(|all| all.child("task_id_range"));
    let of_range = |name: &str| {
        range
            .and_then(|range| range.number_of::<u32>(name))
            .unwrap_or(1)
    };
    let (first, last) = (of_range("RN_min"), of_range("RN_max"));
    let count = last.saturating_sub(first) / of_range("RN_step").max(1) + 1;
    let is_array = element.number_of("JB_type").unwrap_or(0u32) & ARRAY != 0;
    let texts = |name: &str, within: &str| {
        let all = element.child(within).map(|all| all.below(name));
        all.into_iter()
            .flatten()
            .map(|one| one.text.clone())
            .collect::<Vec<_>>()
    };
    let mut messages = texts("QIM_message", "JB_ja_tasks");
    messages.dedup();
    Details {
        submitted: element.number_of("JB_submission_time").unwrap_or(0.0),
        name: element.text_of("JB_job_name").to_string(),
        directory: Some(PathBuf::from(element.text_of("JB_cwd"))).filter(|path| path.is_absolute()),
        output: path("JB_stdout_path_list"),
        queues: texts("QR_name", "JB_hard_queue_list"),
        tasks: is_array.then_some((count as usize, first)),
        commitment,
        messages,
    }
}

impl Details {
    /// Where its output is, of an array that of its first task, by the rules of qsub(1). `user`: its owner. None if that depends on the host.
    pub fn output(&self, number: u32, user: &str, home: &Path) -> Option<PathBuf> {
        let task = self.tasks.map(|(_, first)| first);
        let mut text = self.output.clone().unwrap_or_default();
        let task_word = task.map_or_else(|| "undefined".to_string(), |task| task.to_string());
        for (name, value) in [
            ("$HOME", home.display().to_string()),
            ("$USER", user.to_string()),
            ("$JOB_ID", number.to_string()),
            ("$JOB_NAME", self.name.clone()),
            ("$TASK_ID", task_word),
        ] {
            text = text.replace(name, &value);
        }
        if text.contains("$HOSTNAME") {
            return None;
        }
        let given = self.directory.as_deref().unwrap_or(home).join(text);
        if self.output.is_some() && !given.is_dir() {
            return Some(given);
        }
        let of_task = task.map_or_else(String::new, |task| format!(".{task}"));
        Some(given.join(format!("{}.o{number}{of_task}", self.name)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn job(number: u32, state: &str, queue: &str, tasks: &str) -> String {
        let tasks = match tasks {
            "" => String::new(),
            tasks => format!("<tasks>{tasks}</tasks>"),
        };
        format!(
            "<job_list state=\"x\"><JB_job_number>{number}</JB_job_number><JB_name>a &lt;b</JB_name><state>{state}</state><queue_name>{queue}</queue_name><slots>1</slots>{tasks}</job_list>"
        )
    }

    fn listed(jobs: &[String]) -> BTreeMap<u32, Listed> {
        let text = format!(
            "<?xml version='1.0'?>\n<job_info><queue_info>{}</queue_info></job_info>",
            jobs.concat()
        );
        list(&text).expect("as qstat writes it")
    }

    #[test]
    fn an_array_is_one_job() {
        let all = listed(&[
            job(4, "r", "main.q@g1", "1"),
            job(4, "r", "main.q@g2", "3"),
            job(4, "hqw", "", "5-9:2"),
            job(5, "qw", "", ""),
        ]);
        let array = &all[&4];
        assert_eq!(
            (array.state(), array.begun, array.waiting.as_str()),
            ("running", 2, "5-9:2")
        );
        assert_eq!(
            array.hosts.iter().cloned().collect::<Vec<_>>(),
            ["g1", "g2"]
        );
        assert!(array.has_begun() && !all[&5].has_begun());
        assert_eq!(all[&5].name, "a <b");
        let state = |letters: &str| listed(&[job(1, letters, "", "")])[&1].state();
        let states = ["r", "t", "qw", "hqw", "Eqw", "dr", "s", "Rr", "Rq"].map(state);
        let words = [
            "running",
            "starting",
            "waits",
            "held",
            "error",
            "ending",
            "suspended",
            "running",
            "waits",
        ];
        assert_eq!(states, words);
        assert_eq!(listed(&[]), BTreeMap::new());
        list("no XML").expect_err("it is none");
    }

    const LINE: &str = "v=1:token=17:submitted=1700000000.25:estimate=10:deadline=20:budget=15:type=hard:penalty=0:price=10.5:chunks=1:processors=1:memory=0:scatter=0:count=2:at=g1*2*0.525";

    fn details_text(kind: u32, number: u32, output: &str) -> String {
        format!(
            "<detailed_job_info><djob_info><element><JB_job_number>7</JB_job_number><JB_submission_time>1700000000</JB_submission_time><JB_job_name>x</JB_job_name>{output}\
             <JB_ja_tasks><ulong_sublist><JAT_message_list><element><QIM_message>can&apos;t chdir</QIM_message></element></JAT_message_list></ulong_sublist></JB_ja_tasks>\
             <JB_hard_queue_list><destin_ident_list><QR_name>main.q@g1</QR_name></destin_ident_list></JB_hard_queue_list>\
             <JB_context><context_list><VA_variable>mine</VA_variable></context_list><context_list><VA_variable>libra</VA_variable><VA_value>{number}:{LINE}</VA_value></context_list></JB_context>\
             <JB_cwd>/data</JB_cwd><JB_ja_structure><task_id_range><RN_min>2</RN_min><RN_max>5</RN_max><RN_step>2</RN_step></task_id_range></JB_ja_structure><JB_type>{kind}</JB_type></element></djob_info></detailed_job_info>"
        )
    }

    fn read(kind: u32, number: u32, output: &str) -> Details {
        let mut all = details(&details_text(kind, number, output)).expect("as qstat writes it");
        all.remove(&7).expect("it is there")
    }

    #[test]
    fn details_are_read_and_no_commitment_of_others() {
        let array = read(128, 7, "");
        assert_eq!((array.tasks, array.submitted), (Some((2, 2)), 1.7e9));
        assert_eq!(array.commitment.map(|commitment| commitment.count), Some(2));
        assert_eq!(
            (array.messages, array.queues),
            (
                vec!["can't chdir".to_string()],
                vec!["main.q@g1".to_string()]
            )
        );
        assert_eq!(read(0, 8, "").commitment, None);
        let gone =
            "<?xml version='1.0'?>\n<unknown_jobs >\n <ST_name>4711</ST_name>\n</unknown_jobs>\n";
        assert_eq!(details(gone).expect("none"), BTreeMap::new());
    }

    #[test]
    fn output_is_where_qsub_says() {
        let of = |kind: u32, path: &str| {
            let given = format!(
                "<JB_stdout_path_list><path_list><PN_path>{path}</PN_path></path_list></JB_stdout_path_list>"
            );
            let output = read(kind, 7, if path.is_empty() { "" } else { &given }).output(
                7,
                "ann",
                Path::new("/home/ann"),
            );
            output
                .map(|path| path.display().to_string())
                .unwrap_or_default()
        };
        assert_eq!(of(0, ""), "/data/x.o7");
        assert_eq!(of(128, ""), "/data/x.o7.2");
        assert_eq!(of(0, "log"), "/data/log");
        assert_eq!(
            of(128, "$HOME/$JOB_NAME-$JOB_ID.$TASK_ID"),
            "/home/ann/x-7.2"
        );
        assert_eq!(of(0, "/tmp"), "/tmp/x.o7");
        assert_eq!(of(0, "/tmp/$HOSTNAME"), "");
    }
}
