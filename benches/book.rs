//! What the book costs, by nodes, jobs and policies: to admit, to refuse with all counter-offers, to follow jobs, and to admit beside a job that begins
//! later; and its memory.
//!
//! `cargo bench --bench book`; `-- large` leaves out all but the largest book, and `-- sizes` shows how it grows with the nodes, under the policies
//! that are sub-linear (drawn by the example `book_sizes` of libra-plots). The limit beside each is a scan over what a decision reads of all nodes, one
//! division for each: what a book without an index cannot go below.

mod common;

use common::{Random, nanoseconds, part, result, scan};
use libra_core::book::Book;
use libra_core::decision::admission::Admission;
use libra_core::decision::class::Class;
use libra_core::decision::job::{Request, Terms};
use libra_core::decision::node::NodeSpec;
use libra_core::decision::policy::{
    AnyPolicy, Libra, LibraAdaptive, LibraRisk, LibraSla, NodeChoice,
};
use libra_core::decision::share::ShareRule;

/// What a decision reads of a node, in bytes: its size and speed, what is committed there, memory.
const READ_OF_A_NODE: usize = 56;

/// How often what waits is looked at.
const POLLS: u32 = 51;

/// Jobs come so many a second of the book's time.
const RATE: f64 = 1_000.0;

fn admission(policy: AnyPolicy) -> Admission {
    Admission {
        policy,
        ..Admission::default()
    }
}

fn libra(node_choice: NodeChoice, share_rule: ShareRule) -> AnyPolicy {
    AnyPolicy::Libra(Libra {
        node_choice,
        share_rule,
    })
}

/// A job that needs a fifth of a processor in the mean, so that ten of them fill two of the three processors of a node.
fn job(random: &mut Random) -> Request {
    Request::single(Terms::hard(
        1e5 + 1e6 * random.next(),
        2e6 + 2e6 * random.next(),
        f64::INFINITY,
    ))
}

/// As [`job`], its work by two slots of one node.
fn several(random: &mut Random) -> Request {
    let mut request = job(random);
    request.terms.estimate /= 2.0;
    request.shape.processors_per_chunk = 2;
    request
}

/// A job of three slots that needs nearly the whole of three processors until the last of the others is to end: no node has them left, nor the time.
fn hurried(random: &mut Random) -> Request {
    let deadline = 4e6 + 1e5 * random.next();
    let mut request = Request::single(Terms::hard(deadline * 0.95, deadline, f64::INFINITY));
    request.shape.processors_per_chunk = 3;
    request
}

fn id(number: u64) -> String {
    format!("{number}.server")
}

/// Memory of this process, in bytes.
fn resident() -> f64 {
    let status = std::fs::read_to_string("/proc/self/statm").expect("every Linux has it");
    let pages = status.split(' ').nth(1).and_then(|n| n.parse::<f64>().ok());
    pages.expect("a number of pages") * 4096.0
}

/// A book of so many nodes, with as many jobs that run, placed by this policy; and its time.
fn filled(
    policy: AnyPolicy,
    (nodes, jobs): (usize, usize),
    random: &mut Random,
) -> (Book, Vec<u64>, f64) {
    let mut book = Book::new(admission(policy), 30.0);
    for number in 0..nodes {
        let spec = NodeSpec {
            processors: 3.0,
            rating: 1.0,
            memory: NodeSpec::MEMORY_UNLIMITED,
        };
        let name = format!("n{number}");
        book.set_node(&name, spec, true).expect("a plain node");
    }
    let before = resident();
    let (mut tokens, mut now) = (Vec::new(), 0.0);
    tokens.reserve_exact(jobs);
    for _ in 0..jobs {
        now += 1.0 / RATE;
        tokens.push(enter(&mut book, &job(random), now));
    }
    let bytes = (resident() - before) / jobs as f64 - 8.0;
    println!("{nodes} nodes, {jobs} jobs: {bytes:.0} bytes a job");
    (book, tokens, now)
}

fn enter(book: &mut Book, request: &Request, now: f64) -> u64 {
    let token = book.admit(request, now).expect("there is room").token;
    let id = id(token);
    book.bind(token, &id, now).expect("a new id");
    book.started(&id, now).expect("known");
    token
}

/// Nothing is left of a job that is accepted.
fn ask_and_forget(book: &mut Book, request: &Request, fits: bool, now: f64) -> f64 {
    let (time, admitted) = nanoseconds(|| book.admit(request, now));
    assert_eq!(admitted.is_ok(), fits, "{request:?}");
    if let Ok(admitted) = admitted {
        let token = admitted.token;
        book.cancel_token(token, now).expect("just admitted");
    }
    time
}

/// Somebody begins later on one of the nodes.
fn plan(book: &mut Book, now: f64) -> u64 {
    let mut request = Request::single(Terms::hard(1e4, 1e8, f64::INFINITY));
    request.terms.class = Class::Dedicated;
    request.shape.processors_per_chunk = 3;
    book.advance(now);
    let planned = book.plan(&request, None).expect("the others end before");
    book.promise(&request, &planned).token
}

/// The median, and of a hundred the last but one.
fn parts(name: &str, times: &mut [f64], limit: Option<f64>) {
    for (part_name, of_all) in [("p50", 0.5), ("p99", 0.99)] {
        result(&format!("{name}/{part_name}"), part(times, of_all), limit);
    }
}

fn policies() -> [(&'static str, AnyPolicy); 6] {
    [
        ("libra", libra(NodeChoice::BestFit, ShareRule::Exact)),
        (
            "libra-least-loaded",
            libra(NodeChoice::LeastLoaded, ShareRule::Exact),
        ),
        (
            "libra-integral",
            libra(NodeChoice::BestFit, ShareRule::Integral),
        ),
        ("libra-sla", AnyPolicy::LibraSla(LibraSla)),
        ("libra-risk", AnyPolicy::LibraRisk(LibraRisk::default())),
        (
            "libra-adaptive",
            AnyPolicy::LibraAdaptive(LibraAdaptive::default()),
        ),
    ]
}

/// Those that look at jobs take some hundred times as long where they ask all nodes.
fn is_slow(policy: &AnyPolicy) -> bool {
    !matches!(policy, AnyPolicy::Libra(_))
}

/// Jobs come, report, and end, as many as came; each of it measured.
fn life(
    name: &str,
    (nodes, jobs): (usize, usize),
    rounds: usize,
    policies: &[(&'static str, AnyPolicy)],
) {
    let mut random = Random(11);
    let best_fit = libra(NodeChoice::BestFit, ShareRule::Exact);
    let (mut book, mut tokens, mut now) = filled(best_fit, (nodes, jobs), &mut random);
    let limit = scan(nodes * READ_OF_A_NODE, READ_OF_A_NODE);
    for &(policy, chosen) in policies {
        book.set_admission(admission(chosen));
        let slow = is_slow(&chosen);
        let rounds = if slow { rounds / 100 } else { rounds };
        let mut times = [const { Vec::new() }; 5];
        for _ in 0..rounds {
            now += 1.0 / RATE;
            let request = job(&mut random);
            let (time, admitted) = nanoseconds(|| book.admit(&request, now));
            times[0].push(time);
            let Ok(admitted) = admitted else { continue };
            let id = id(admitted.token);
            let (time, _) = nanoseconds(|| {
                book.bind(admitted.token, &id, now).expect("a new id");
                book.started(&id, now).expect("known");
            });
            times[1].push(time);
            let at = random.below(tokens.len());
            let other = self::id(tokens[at]);
            let cput = 1e4 * random.next();
            let (time, _) = nanoseconds(|| book.progress(&other, None, cput, now));
            times[2].push(time);
            let other = self::id(std::mem::replace(&mut tokens[at], admitted.token));
            let (time, ended) = nanoseconds(|| book.ended(&other, now));
            ended.expect("known");
            times[3].push(time);
            // Its share fits nowhere, whatever runs there.
            let mut large = request;
            large.shape.processors_per_chunk = 1_000;
            if times[4].len() < if slow { 3 } else { rounds } {
                let (time, refused) = nanoseconds(|| book.admit(&large, now));
                refused.expect_err("too large for each node");
                times[4].push(time);
            }
        }
        let what = ["admit", "start", "progress", "end", "refuse"];
        for (what, times) in what.into_iter().zip(&mut times) {
            let limit = (what == "admit").then_some(limit);
            parts(&format!("{name}/{policy}/{what}"), times, limit);
        }
    }
    // As many as there is room for beside the others.
    let waiting = nodes.min(1_000);
    book.set_admission(Admission::default());
    for _ in 0..waiting {
        book.admit(&job(&mut random), now).expect("there is room");
    }
    let mut polls: Vec<f64> = (1..=POLLS)
        .map(|second| nanoseconds(|| book.refresh_waiting(now + f64::from(second))).0)
        .collect();
    result(
        &format!("{name}/libra/refresh-of-a-waiting-job"),
        part(&mut polls, 0.5) / waiting as f64,
        None,
    );
}

/// All nodes are equally full, as they never are where the fullest is chosen, and jobs are judged that more than one slot or another class make
/// dearer. What is accepted is gone again.
fn even(
    name: &str,
    (nodes, jobs): (usize, usize),
    rounds: usize,
    policies: &[(&'static str, AnyPolicy)],
) {
    let mut random = Random(12);
    let least_loaded = libra(NodeChoice::LeastLoaded, ShareRule::Exact);
    let (mut book, _, now) = filled(least_loaded, (nodes, jobs), &mut random);
    let limit = scan(nodes * READ_OF_A_NODE, READ_OF_A_NODE);
    for &(policy, chosen) in policies {
        book.set_admission(admission(chosen));
        let rounds = if is_slow(&chosen) {
            rounds / 10
        } else {
            rounds
        };
        let mut ask =
            |what: &str, book: &mut Book, fits, rounds, job: fn(&mut Random) -> Request| {
                let mut times: Vec<f64> = (0..rounds)
                    .map(|_| ask_and_forget(book, &job(&mut random), fits, now))
                    .collect();
                let limit = fits.then_some(limit);
                parts(&format!("{name}/{policy}/{what}"), &mut times, limit);
            };
        ask("admit-several", &mut book, true, rounds, several);
        ask(
            "refuse-hurried",
            &mut book,
            false,
            (rounds / 20).max(3),
            hurried,
        );
        let later = plan(&mut book, now);
        ask("admit-beside-a-planned", &mut book, true, rounds, job);
        book.cancel_token(later, now).expect("it was planned");
    }
}

/// How it grows with the nodes, ten jobs on each.
fn sizes() {
    let mut fast = policies().to_vec();
    fast.retain(|(_, policy)| !is_slow(policy));
    for nodes in [1_000, 3_000, 10_000, 30_000, 100_000] {
        let jobs = nodes * 10;
        life(
            &format!("book-{nodes}x{jobs}"),
            (nodes, jobs),
            10_000,
            &fast,
        );
    }
}

fn main() {
    // `cargo test --benches` runs this too, and wants no measurements.
    let measuring = std::env::args().any(|argument| argument == "--bench");
    let all = policies();
    if !measuring {
        life("book-100x1000", (100, 1_000), 200, &all);
        even("even-100x1000", (100, 1_000), 20, &all);
        return;
    }
    let is_wanted = |what: &str| std::env::args().any(|argument| argument == what);
    if is_wanted("sizes") {
        sizes();
        return;
    }
    if !is_wanted("large") {
        life("book-10000x100000", (10_000, 100_000), 10_000, &all);
        even("even-10000x100000", (10_000, 100_000), 1_000, &all);
    }
    life("book-100000x1000000", (100_000, 1_000_000), 10_000, &all);
    even("even-100000x1000000", (100_000, 1_000_000), 1_000, &all);
}
