//! A cell in one test: what is submitted, judged, recorded and read again.

use crate::admission::Admission;
use crate::context;
use crate::jsv::{Answer, Event, Parameters, Reader};
use crate::records::{self, Allocation, Environment, Records};
use crate::submission::Submission;
use libra_config::{Config, WithoutTerms};
use libra_core::book::OLDEST_RECORDS;
use std::collections::{BTreeSet, HashMap};

const NOW: f64 = 1_795_408_000.0;

/// As qhost 8.1.9 writes two hosts of two processors each, the second one with its queue in the state that is given.
fn hosts(state: &str, used: u32) -> Vec<records::Host> {
    let host = |name: &str, load: &str, state: &str| {
        format!(
            " <host name='{name}'>\n   <hostvalue name='num_proc'>2</hostvalue>\n   <hostvalue name='load_avg'>{load}</hostvalue>\n\
               <hostvalue name='mem_total'>23.5G</hostvalue>\n <queue name='main.q'>\n   <queuevalue qname='main.q' name='slots_used'>{used}</queuevalue>\n\
               <queuevalue qname='main.q' name='slots'>8</queuevalue>\n   <queuevalue qname='main.q' name='state_string'>{state}</queuevalue>\n </queue>\n </host>\n"
        )
    };
    let text = format!(
        "<?xml version='1.0'?>\n<qhost xmlns:xsd=\"http://x\">\n <host name='global'>\n   <hostvalue name='num_proc'>-</hostvalue>\n </host>\n{}{}</qhost>\n",
        host("n1", "0.5", ""),
        host("n2", "0.5", state),
    );
    records::hosts(&text).expect("as qhost writes it")
}

struct Cell {
    admission: Admission,
    records: Records,
    now: f64,
}

impl Cell {
    fn new(config: &Config) -> Cell {
        let mut cell = Cell {
            admission: Admission::new(config, NOW),
            records: Records {
                hosts: hosts("", 0),
                ..Records::default()
            },
            now: NOW,
        };
        let environment = |allocation| Environment {
            allocation,
            instances: BTreeSet::from(["main.q@n1".to_string(), "main.q@n2".to_string()]),
        };
        cell.admission.set_environments(HashMap::from([
            ("smp".to_string(), environment(Allocation::Anyhow)),
            ("pairs".to_string(), environment(Allocation::Each(2))),
        ]));
        cell.poll();
        cell
    }

    /// Reads its records, a while later.
    fn poll(&mut self) -> Vec<String> {
        self.now += 5.0;
        self.records.taken = self.now;
        self.admission.take(&self.records, self.now)
    }

    fn submit(&mut self, job: u32, lines: &[&str]) -> Answer {
        self.admission.answer(&submission(job, lines), self.now)
    }

    /// What was accepted is in the queue from now on, as qstat shows it.
    fn queue(&mut self, job: u32, answer: &Answer, tasks: Option<&str>, started: bool) {
        let state = if started { "r" } else { "qw" };
        let tasks = tasks.map_or_else(String::new, |tasks| format!("<tasks>{tasks}</tasks>"));
        let list = format!(
            "<job_info><queue_info><job_list state=\"x\"><JB_job_number>{job}</JB_job_number><state>{state}</state>{tasks}</job_list></queue_info></job_info>"
        );
        self.records
            .jobs
            .extend(records::list(&list).expect("as qstat writes it"));
        let context = context_of(answer);
        let detail = format!(
            "<detailed_job_info><djob_info><element><JB_job_number>{job}</JB_job_number><JB_uid>1001</JB_uid>\
             <JB_context><context_list><VA_variable>libra</VA_variable><VA_value>{context}</VA_value></context_list></JB_context>\
             <JB_ja_structure><task_id_range><RN_min>1</RN_min><RN_max>9</RN_max><RN_step>1</RN_step></task_id_range></JB_ja_structure>\
             </element></djob_info></detailed_job_info>"
        );
        self.records
            .details
            .extend(records::details(&detail).expect("as qstat writes it"));
    }

    fn committed(&self, host: &str) -> f64 {
        self.admission.book().committed(host).expect("a host")
    }
}

fn submission(job: u32, lines: &[&str]) -> Submission {
    let mut reader = Reader::default();
    let mut take = |line: &str| reader.take(line, &mut || false);
    take("START");
    take(&format!("PARAM JOB_ID {job}"));
    take("PARAM USER ann");
    for line in lines {
        assert_eq!(take(&format!("PARAM {line}")), Event::Nothing);
    }
    match take("BEGIN") {
        Event::Judge(parameters) => Submission::new(&parameters),
        other => panic!("{other:?}"),
    }
}

fn corrected(answer: &Answer) -> Parameters {
    match answer {
        Answer::Correct(parameters) => (parameters.iter())
            .map(|(name, value)| (name.to_string(), value.clone()))
            .collect(),
        other => panic!("not accepted: {other:?}"),
    }
}

fn context_of(answer: &Answer) -> String {
    let all = corrected(answer)["ac"].clone();
    let own = all
        .split(',')
        .find_map(|variable| variable.strip_prefix("libra="));
    own.expect("what is committed").to_string()
}

fn rejected(answer: &Answer) -> &str {
    match answer {
        Answer::Reject(text) => text,
        other => panic!("not rejected: {other:?}"),
    }
}

const HALF: &str = "l_hard deadline=2:00:00,h_vmem=1G,budget=100000,estimate=1h";
const WHOLE: &str = "l_hard deadline=1:10:00,budget=100000,estimate=1h";

#[test]
fn an_accepted_job_is_pinned_and_carries_what_is_committed() {
    let mut cell = Cell::new(&Config::default());
    let answer = cell.submit(7, &[HALF, "ac a=b"]);
    let parameters = corrected(&answer);
    assert_eq!(parameters["l_hard"], "h_vmem=1G");
    assert_eq!(parameters["q_hard"], "main.q@n1");
    assert!(
        parameters["ac"]
            .contains(",libra_accepted=accepted: 52.5 % of a processor on n1; finished in"),
        "{parameters:?}"
    );
    assert!(parameters["ac"].ends_with(",a=b"), "{parameters:?}");
    let commitment = context::read(7, &context_of(&answer)).expect("its own");
    // Of what is left of two hours when Grid Engine has started it.
    let share = 3600.0 * 1.05 / (7200.0 - 4.0);
    assert!((commitment.share_on("n1") - share).abs() < 1e-9);
    assert!((cell.committed("n1") - share).abs() < 1e-9);
    // Its job is not in records of the same moment, and stays in the book all the same.
    cell.records.taken = cell.now + 0.5;
    assert_eq!(
        cell.admission.take(&cell.records, cell.now + 0.5),
        Vec::<String>::new()
    );
    assert!(cell.committed("n1") > 0.5);
    cell.queue(7, &answer, None, true);
    assert_eq!(cell.poll(), Vec::<String>::new());
    assert!(cell.committed("n1") > 0.5);
    cell.records.jobs.clear();
    assert_eq!(cell.poll(), ["gone: 7"]);
    assert!(cell.committed("n1").abs() < 1e-9);
}

#[test]
fn a_full_cell_says_what_it_would_accept_in_its_own_words() {
    let mut cell = Cell::new(&Config::default());
    for job in 0..4 {
        corrected(&cell.submit(job, &[WHOLE]));
    }
    let answer = cell.submit(9, &[WHOLE]);
    let text = rejected(&answer);
    assert!(text.starts_with("libra: refused (share): "), "{text}");
    assert!(
        text.contains("; accepted now would be: -l deadline="),
        "{text}"
    );
    let poor =
        Cell::new(&Config::default()).submit(10, &["l_hard deadline=9:00:00,budget=1,estimate=1h"]);
    assert!(rejected(&poor).contains("-l budget="), "{poor:?}");
}

#[test]
fn after_a_restart_the_records_are_the_book() {
    let mut cell = Cell::new(&Config::default());
    let one = cell.submit(7, &[HALF]);
    let array = cell.submit(8, &[HALF, "t_min 1", "t_max 3", "t_step 1"]);
    cell.queue(7, &one, None, true);
    cell.queue(8, &array, Some("1-3:1"), false);
    cell.poll();
    let before = [cell.committed("n1"), cell.committed("n2")];
    assert!(
        (before[0] + before[1] - 4.0 * 0.525).abs() < 0.02,
        "{before:?}"
    );
    let (records, now) = (cell.records.clone(), cell.now);
    let mut again = Cell::new(&Config::default());
    (again.records, again.now) = (records, now);
    again.poll();
    for (host, before) in ["n1", "n2"].into_iter().zip(before) {
        assert!((again.committed(host) - before).abs() < 0.01, "{host}");
    }
    // A task that has ended is gone, the others are not.
    again
        .records
        .jobs
        .get_mut(&8)
        .expect("the array")
        .waiting
        .remove(&2);
    assert_eq!(again.poll(), ["gone: 8.2"]);
}

#[test]
fn an_array_goes_to_one_host_or_is_refused() {
    let mut cell = Cell::new(&Config::default());
    let array = |last: &'static str| [HALF, "t_min 1", last, "t_step 1"];
    let answer = cell.submit(7, &array("t_max 3"));
    assert_eq!(corrected(&answer)["q_hard"], "main.q@n1");
    let answer = cell.submit(8, &array("t_max 3"));
    assert_eq!(corrected(&answer)["q_hard"], "main.q@n2");
    let refused = cell.submit(9, &array("t_max 2"));
    assert!(rejected(&refused).contains("refused ("), "{refused:?}");
}

#[test]
fn slots_go_on_one_host_or_as_many_as_the_environment_says() {
    let mut cell = Cell::new(&Config::default());
    let parallel = |cell: &mut Cell, job, name, slots| {
        let (name, min, max) = (
            format!("pe_name {name}"),
            format!("pe_min {slots}"),
            format!("pe_max {slots}"),
        );
        cell.submit(
            job,
            &[
                "l_hard deadline=8:00:00,budget=1000000,estimate=1h",
                &name,
                &min,
                &max,
            ],
        )
    };
    assert_eq!(
        corrected(&parallel(&mut cell, 1, "smp", 2))["q_hard"],
        "main.q@n1"
    );
    assert_eq!(
        corrected(&parallel(&mut cell, 2, "pairs", 4))["q_hard"],
        "main.q@n1,main.q@n2"
    );
    assert!(rejected(&parallel(&mut cell, 3, "pairs", 3)).contains("multiple of 2"));
    assert!(rejected(&parallel(&mut cell, 4, "other", 2)).contains("'other' is not known"));
    let wide = parallel(&mut cell, 5, "smp", 4);
    assert!(rejected(&wide).contains("has 4 processors"), "{wide:?}");
    let range = cell.submit(6, &[HALF, "pe_name smp", "pe_min 1", "pe_max 2"]);
    assert!(rejected(&range).contains("not for a range"), "{range:?}");
}

#[test]
fn what_could_wait_or_is_not_known_is_refused() {
    let mut cell = Cell::new(&Config::default());
    for (line, said) in [
        ("h u", "libra gridengine install"),
        ("a 204612312359.00", "libra gridengine install"),
        ("a soon", "-a: 'soon'"),
        ("hold_jid 3", "libra gridengine install"),
        ("hold_jid_ad 3", "one by one"),
        ("l_soft deadline=1h", "soft request"),
        ("ar 3", "reservation"),
        ("masterq main.q", "-masterq"),
        ("tc 2", "-tc"),
        ("q_hard other.q", "queues"),
        ("q_hard main.q@@group", "-q main.q@@group"),
        ("t_min 0", "-t"),
    ] {
        let answer = cell.submit(7, &[HALF, line]);
        assert!(rejected(&answer).contains(said), "{line}: {answer:?}");
    }
    for (requests, said) in [
        ("mem_free=1G,", "-l mem_free=1G"),
        ("hostname=n3,", "is called n3"),
        ("deadline=soon,", "'soon'"),
    ] {
        let line = format!(
            "l_hard {requests}budget=1000000,estimate=1h,{}",
            if requests.starts_with('d') {
                ""
            } else {
                "deadline=2h"
            }
        );
        let answer = cell.submit(7, &[&line]);
        assert!(rejected(&answer).contains(said), "{line}: {answer:?}");
    }
    let answer = cell.submit(
        7,
        &["l_hard hostname=*2,h_rt=1:00:00,deadline=2h,budget=1000000"],
    );
    assert_eq!(corrected(&answer)["q_hard"], "main.q@n2");
}

/// A list, details and values of hosts, as qmaster has them of a job that waits.
fn waits(cell: &mut Cell, job: u32, answer: &Answer, state: &str, begin: f64) {
    cell.queue(job, answer, None, false);
    let listed = cell.records.jobs.get_mut(&job).expect("it is queued");
    listed.held = match state.contains('h') {
        true => listed.waiting.clone(),
        false => Default::default(),
    };
    let asked = records::Asked {
        owner: "ann".to_string(),
        begin,
        ..records::Asked::default()
    };
    cell.records.details.get_mut(&job).expect("known").asked = Some(Box::new(asked));
}

#[test]
fn who_is_held_after_its_acceptance_holds_nothing_until_it_is_released() {
    let mut cell = Cell::new(&Config::default());
    let answer = cell.submit(7, &[WHOLE]);
    let committed = context::read(7, &context_of(&answer)).expect("ours");
    let host = committed.places[0].node.clone();
    let full = cell.committed(&host);
    assert!(full > 0.0);
    let take = |cell: &mut Cell, held: bool, started: bool| {
        cell.now += 10.0;
        cell.queue(7, &answer, None, started);
        let listed = cell.records.jobs.get_mut(&7).expect("it is queued");
        if held {
            listed.held = listed.waiting.clone();
        }
        cell.records.taken = cell.now;
        let now = cell.now;
        cell.admission.take(&cell.records, now)
    };
    take(&mut cell, false, false);
    assert!(cell.committed(&host) >= full - 1e-9);
    let log = take(&mut cell, true, false);
    assert!(
        log[0].starts_with("job 7 is held: its share is free"),
        "{log:?}"
    );
    assert_eq!(cell.committed(&host), 0.0);
    assert_eq!(take(&mut cell, true, false), [""; 0], "once");
    // A book that is made anew does not have it either.
    assert_eq!(cell.records.snapshot(&|all| all).0.jobs, []);
    take(&mut cell, false, false);
    assert!(cell.committed(&host) > 0.0);
    // The same of one that ran and was taken back.
    take(&mut cell, false, true);
    take(&mut cell, true, false);
    assert_eq!(cell.committed(&host), 0.0);
    take(&mut cell, false, true);
    assert!(cell.committed(&host) > 0.0);
}

#[test]
fn what_may_not_start_yet_holds_nothing_until_it_may() {
    let mut cell = Cell::new(&Config::default());
    cell.admission.set_can_defer(true);
    let answer = cell.submit(7, &[HALF, "h u", "ac open='"]);
    let parameters = corrected(&answer);
    assert_eq!(parameters["l_hard"], "libra_start=*+7:*,h_vmem=1G");
    assert_eq!(parameters["q_hard"], "");
    let context = &parameters["ac"];
    assert!(
        context.starts_with("libra=7:v=1:") && context.ends_with(",open='"),
        "{context}"
    );
    assert_eq!(context.matches(['\'', '"']).count(), 1, "{context}");
    // Nobody is refused for its sake.
    for job in 1..5 {
        corrected(&cell.submit(job, &[WHOLE]));
    }
    cell.admission.take_accepted();
    waits(&mut cell, 7, &answer, "hqw", 0.0);
    let mut ends = crate::ends::Ends::default();
    let ask = |cell: &mut Cell, ends: &crate::ends::Ends| {
        let now = cell.now;
        cell.admission.ask_deferred(&cell.records, ends, now)
    };
    assert_eq!(ask(&mut cell, &ends).log, [""; 0], "it is held");
    let later = cell.now + 60.0;
    waits(&mut cell, 7, &answer, "qw", later);
    cell.records.taken = cell.now;
    assert_eq!(ask(&mut cell, &ends).log, [""; 0], "it is to begin later");
    waits(&mut cell, 7, &answer, "qw", 0.0);
    let round = ask(&mut cell, &ends);
    assert!(
        round.log[0].contains("may start, and waits for room"),
        "{round:?}"
    );
    assert_eq!(ask(&mut cell, &ends).log, [""; 0], "it is said once");
    cell.now += 60.0;
    cell.poll();
    let round = ask(&mut cell, &ends);
    assert_eq!(round.starts.len(), 1, "{round:?}");
    let [(_, watched)] = &cell.admission.take_accepted()[..] else {
        panic!("not written down");
    };
    let confirmed = watched.commitment.clone();
    assert!(!confirmed.deferred && confirmed.request.terms.deadline < 7200.0);
    let host = confirmed.places[0].node.clone();
    assert!((cell.committed(&host) - confirmed.share_on(&host)).abs() < 1e-9);
    // Before its host says so it is not asked for again, and afterwards it is on record.
    ends.watch(7, watched.clone());
    assert!(ask(&mut cell, &ends).starts.is_empty());
    let of_host = cell.records.hosts.iter_mut().find(|one| one.name == host);
    of_host.expect("a host").starts = round.starts[&host].clone();
    assert_eq!(cell.records.commitment(7), Some(confirmed.clone()));
    let (records, now) = (cell.records.clone(), cell.now);
    let mut again = Cell::new(&Config::default());
    (again.records, again.now) = (records, now);
    again.poll();
    assert!((again.committed(&host) - confirmed.share_on(&host)).abs() < 1e-6);
}

#[test]
fn what_cannot_be_kept_any_more_is_given_back_once() {
    let mut cell = Cell::new(&Config::default());
    cell.admission.set_can_defer(true);
    let answer = cell.submit(7, &[HALF, "hold_jid 3"]);
    let mut ends = crate::ends::Ends::default();
    for (job, watched) in cell.admission.take_accepted() {
        ends.watch(job, watched);
    }
    cell.now += 4000.0;
    waits(&mut cell, 7, &answer, "qw", 0.0);
    cell.records.taken = cell.now;
    let now = cell.now;
    let round = cell.admission.ask_deferred(&cell.records, &ends, now);
    assert_eq!(round.given_back, [7]);
    ends.give_back(7);
    let round = cell.admission.ask_deferred(&cell.records, &ends, now);
    assert!(
        round.given_back.is_empty() && round.log.is_empty(),
        "{round:?}"
    );
    // It is forgotten with the job.
    let mut counts = libra_metrics::Counts::EMPTY;
    assert!(
        ends.round(&cell.records, Vec::new(), 0.0, &mut counts)
            .is_empty()
    );
    cell.records.jobs.clear();
    assert!(
        ends.round(&cell.records, Vec::new(), 0.0, &mut counts)
            .is_empty()
    );
    assert!(ends.jobs().is_empty());
}

#[test]
fn a_time_to_begin_is_read_as_qmaster_writes_it() {
    // December, counted from 0.
    let later = submission(7, &[HALF, "a 204511312359.00"]);
    let deferred = later.deferred(NOW).expect("it is to wait");
    assert!(deferred.earliest > 18.0 * 365.0 * 86400.0);
    assert_eq!(
        submission(7, &[HALF, "a 202001010000.00"]).deferred(NOW),
        None
    );
    assert!(
        submission(7, &[HALF, "a 204600010000.00"])
            .deferred(NOW)
            .is_some()
    );
}

#[test]
fn hosts_out_of_service_and_full_queues_take_nothing() {
    let mut cell = Cell::new(&Config::default());
    cell.records.hosts = hosts("auE", 0);
    cell.poll();
    for job in 1..3 {
        assert_eq!(
            corrected(&cell.submit(job, &[WHOLE]))["q_hard"],
            "main.q@n1"
        );
    }
    assert!(rejected(&cell.submit(3, &[WHOLE])).starts_with("libra: refused (share)"));
    cell.records.hosts = hosts("a", 8);
    cell.poll();
    assert!(rejected(&cell.submit(4, &[WHOLE])).contains("free slots"));
}

#[test]
fn nobody_brings_a_commitment_along() {
    let mut cell = Cell::new(&Config::default());
    let answer = cell.submit(7, &[HALF]);
    let claim = format!("ac libra={}", context_of(&answer));
    let around = [
        "ac  libra=1",
        "ac libra =1",
        "ac \tlibra\t=1",
        "ac x=1,\u{1}libra=2",
        "ac 'libra'",
    ];
    let around = around.iter().map(|line| vec![*line]);
    for lines in [vec![claim.as_str()], vec![HALF, &claim], vec!["ac libra"]]
        .into_iter()
        .chain(around)
    {
        let refused = cell.submit(8, &lines);
        assert!(rejected(&refused).contains("Libra's own"), "{refused:?}");
    }
    // A copy, as qresub makes it, or one from before.
    cell.queue(7, &answer, None, true);
    cell.poll();
    let before = cell.committed("n1");
    cell.queue(8, &answer, None, true);
    assert_eq!(
        cell.poll(),
        ["not taken: job 8: its context is that of job 7"]
    );
    assert!((cell.committed("n1") - before).abs() < 0.01);
    assert_eq!(cell.poll(), Vec::<String>::new(), "it is said once");
}

#[test]
fn jobs_without_terms_are_as_the_site_wants_them() {
    let mut config = Config::default();
    assert_eq!(
        Cell::new(&config).submit(7, &["l_hard h_rt=60"]),
        Answer::Accept
    );
    config.gridengine.without_terms = WithoutTerms::Refuse;
    assert!(rejected(&Cell::new(&config).submit(7, &[])).contains("need a deadline"));
}

#[test]
fn nothing_is_judged_without_records_and_by_old_ones() {
    let mut unread = Admission::new(&Config::default(), NOW);
    let asked = submission(7, &[HALF]);
    assert!(matches!(unread.answer(&asked, NOW), Answer::TryAgain(_)));
    let mut cell = Cell::new(&Config::default());
    cell.now += OLDEST_RECORDS + 1.0;
    assert!(matches!(cell.submit(7, &[HALF]), Answer::TryAgain(_)));
}

#[test]
fn a_question_is_answered_and_never_queued() {
    let mut cell = Cell::new(&Config::default());
    let answer = cell.submit(7, &["l_hard quote=ask,deadline=2h,estimate=1h"]);
    let quote = libra_batch::quote::Quote::find(rejected(&answer)).expect("an answer");
    assert!(quote.accepted || quote.budget.is_some(), "{quote:?}");
    assert_eq!(cell.admission.book().job_count(), 0);
}

/// A cell whose hosts have a queue of this name beside `main.q`.
fn with_queue(name: &str, config: &str) -> Cell {
    let config = format!("{config}[node]\nreserve = '0%'\n");
    let mut cell = Cell::new(&Config::from_toml(&config).expect("a configuration"));
    for host in &mut cell.records.hosts {
        let mut more = host.queues[0].clone();
        more.queue = name.to_string();
        host.queues.push(more);
    }
    cell.poll();
    cell
}

#[test]
fn a_job_that_names_no_class_has_that_of_its_queue_or_its_slots() {
    let lines = "[class]\nseveral = 'dedicated'\n[class.queues]\n'long.q' = 'immediate'\n";
    for (lines, options, class) in [
        (lines, &[][..], "deadline"),
        (lines, &["pe_name smp", "pe_min 2", "pe_max 2"], "dedicated"),
        (lines, &["q_hard long.q"], "immediate"),
        (lines, &["q_hard long*@n1"], "immediate"),
        (lines, &["q_hard main.q"], "deadline"),
        // Jobs with terms go to that queue alone.
        (
            "[class.queues]\n'long.q' = 'immediate'\n[gridengine]\nqueues = ['long.q']\n",
            &[],
            "immediate",
        ),
        (
            "[class.queues]\n'long.q' = 'dedicated'\n'main.q' = 'dedicated'\n",
            &["q_hard *.q"],
            "dedicated",
        ),
        ("[class]\ndefault = 'best-effort'\n", &[], "deadline"),
    ] {
        let mut cell = with_queue("long.q", lines);
        let mut all = vec![HALF];
        all.extend(options);
        let context = context_of(&cell.submit(7, &all));
        let written = context
            .split(':')
            .find_map(|pair| pair.strip_prefix("class="));
        assert_eq!(
            written.unwrap_or("deadline"),
            class,
            "{options:?} {context}"
        );
    }
}

#[test]
fn a_queue_has_to_be_named_where_several_have_other_classes() {
    let mut cell = with_queue("long.q", "[class.queues]\n'long.q' = 'dedicated'\n");
    let said = cell.submit(7, &[HALF, "q_hard *.q"]);
    let said = rejected(&said);
    assert!(
        said.contains(
            "it may go to long.q or to main.q and names no class: in long.q it has class=dedicated, in main.q class=deadline"
        ),
        "{said}"
    );
    let refused = cell.submit(
        7,
        &[
            "l_hard deadline=60,budget=100000,estimate=1h",
            "q_hard long.q",
        ],
    );
    assert!(
        rejected(&refused).contains("class=dedicated by class.queues.\"long.q\" of the site"),
        "{refused:?}"
    );
}
