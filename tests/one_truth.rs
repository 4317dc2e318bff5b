//! What a quote says, the submission of the same terms in the same second is answered: over random accounts, budgets, jobs and load,
//! inside PBS, inside Slurm and on one host. And whoever takes an offer as it is written is accepted.
//!
//! LIBRA_TRUTH_CASES sets the number of cases of all three together; the seeds are fixed. On the host the clock is the real one: what
//! stands at an edge may have passed it before it is submitted, and is counted.

#[path = "program.rs"]
mod program;

use libra_accounts::budget_gate::BudgetGate;
use libra_batch::quote::Quote;
use libra_batch::verdict::Verdict;
use libra_batch::words::{self, Manner, Written};
use libra_config::{Config, OnFault};
use libra_core::commitment::Commitment;
use libra_core::decision::job::{Request, Shape, Terms};
use libra_core::decision::refusal::Category;
use libra_host::Host;
use libra_pbs::server::Server;
use libra_slurm::array::JobCommitment;
use libra_slurm::controller::{Answer, Controller};
use libra_slurm::records::{Node, Partition, Records};
use libra_slurm::submission::Submission;
use libra_units::credits;
use serde_json::{Value, json};
use std::path::PathBuf;
use std::process::Command;

const NOW: f64 = 1_790_000_000.0;

/// On the host, where the clock is the real one, estimates are hours: what a question and its submission take changes little.
const HOUR: f64 = 3600.0;

/// Parts of ten thousand cases.
fn cases(part: usize) -> usize {
    let all = std::env::var("LIBRA_TRUTH_CASES").ok();
    let all: usize = all.and_then(|text| text.parse().ok()).unwrap_or(10_000);
    (all * part / 10).max(1)
}

/// What a question is answered, as a submission is told of it.
fn signed(quote: &Quote) -> String {
    let lines: Vec<String> = quote.text.lines().map(str::to_string).collect();
    words::signed(&lines)
}

/// A generator of Marsaglia's; the same numbers everywhere.
struct Dice(u64);

impl Dice {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    fn below(&mut self, end: usize) -> usize {
        (self.next() >> 11) as usize % end
    }

    fn of<T: Copy>(&mut self, choices: &[T]) -> T {
        choices[self.below(choices.len())]
    }

    /// Between two numbers, in their logarithm, to three figures.
    fn between(&mut self, least: f64, most: f64) -> f64 {
        let part = (self.next() >> 11) as f64 / (1u64 << 53) as f64;
        let value = least * (most / least).powf(part);
        format!("{value:.2e}").parse().expect("a number")
    }
}

/// A site with accounts: users `u0` to `u11`, from a poor one to a rich one, one without an account.
struct Site {
    directory: tempfile::TempDir,
}

const USERS: usize = 12;

impl Site {
    fn new() -> Site {
        let site = Site::poor();
        for user in 0..USERS {
            site.account(&["create", &format!("user:u{user}")]);
            let amount = format!("{:.2}", 0.7 * 2.9f64.powi(user as i32));
            site.account(&["deposit", &format!("user:u{user}"), &amount]);
        }
        site
    }

    /// Only who runs this test has an account, with nothing on it.
    fn poor() -> Site {
        let site = Site {
            directory: tempfile::tempdir().expect("a directory"),
        };
        std::fs::write(site.path("libra.toml"), site.text("")).expect("a configuration");
        let me = me();
        site.account(&["init", "--owner", &me]);
        site.account(&["create", &format!("user:{me}")]);
        site
    }

    fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    fn text(&self, more: &str) -> String {
        format!(
            "[accounts]\nmode = \"on\"\nledger = \"{}\"\nlive = \"{}\"\n[slurm]\nstart-delay = \"1s\"\n{more}",
            self.path("accounts/ledger.sqlite").display(),
            self.path("live").display(),
        )
    }

    fn config(&self, more: &str) -> Config {
        Config::from_toml(&self.text(more)).expect("our own text")
    }

    fn account(&self, words: &[&str]) {
        let mut command = Command::new(env!("CARGO_BIN_EXE_libra"));
        command.arg("--config").arg(self.path("libra.toml"));
        let output = command.arg("account").args(words).output().expect("libra");
        assert!(output.status.success(), "{words:?}: {output:?}");
    }
}

fn me() -> String {
    let output = Command::new("id").arg("-un").output().expect("id");
    String::from_utf8_lossy(&output.stdout).trim().to_string()
}

const RULES: [&str; 4] = [
    "[admission]\npolicy = \"libra\"\n",
    "[admission]\npolicy = \"libra-sla\"\n",
    "[admission]\npolicy = \"libra-risk\"\n",
    "[admission]\npolicy = \"libra-adaptive\"\n",
];

/// What a site says of jobs that name no class; in the last two by queue or partition.
const CLASSES: [&str; 5] = [
    "",
    "[class]\ndefault = \"dedicated\"\n",
    "[class]\nseveral = \"dedicated\"\ndedicated-price = 1.5\n",
    "[class]\nseveral = \"dedicated\"\n[class.queues]\nmain = \"deadline\"\nshort = \"immediate\"\n",
    "[class]\nseveral = \"immediate\"\n[class.queues]\nshort = \"dedicated\"\n",
];

/// Sites of every rule, first without a word on classes; and whether they have classes by queue.
fn sites() -> Vec<(String, bool)> {
    let of = |(index, rules): (usize, &&str)| {
        [0, 1 + index].map(|classes| (format!("{rules}{}", CLASSES[classes]), classes > 2))
    };
    RULES.iter().enumerate().flat_map(of).collect()
}

/// Terms that lie around what a user has and what it costs.
struct Drawn {
    user: usize,
    estimate: f64,
    deadline: f64,
    /// None: none is given.
    budget: Option<f64>,
}

/// `unit`: seconds, as which estimates are drawn.
fn draw(dice: &mut Dice, gate: &mut BudgetGate, slots: f64, unit: f64, now: f64) -> Drawn {
    let user = dice.below(USERS + 1);
    let estimate = dice.between(1.0, 1000.0) * unit;
    let deadline = (estimate * dice.between(0.8, 20.0) * 100.0).round() / 100.0;
    let price = (estimate + estimate / deadline) * slots;
    let available = (gate
        .payer(&format!("u{user}"), None, 0.0, now)
        .ok()
        .flatten())
    .and_then(|payer| payer.available)
    .map_or(price, |available| available.credits());
    let around = dice.of(&[0.5, 0.9, 0.99, 0.999_999, 1.0, 1.000_001, 1.01, 1.5, 10.0]);
    let cents = |value: f64| (value * 100.0).ceil() / 100.0;
    let budget = match dice.below(6) {
        0 => f64::INFINITY,
        1 => available,
        2 => cents(available * around),
        _ => cents(price * around),
    };
    Drawn {
        user,
        estimate,
        deadline,
        budget: (dice.below(12) > 0).then_some(budget.max(0.0)),
    }
}

/// As it is typed.
fn written(budget: f64) -> String {
    match budget.is_finite() {
        true => format!("{budget}"),
        false => credits(budget),
    }
}

/// How often each kind of answer came: a test that sees one kind alone tells nothing.
#[derive(Default, Debug)]
struct Seen {
    accepted: usize,
    funds: usize,
    nodes: usize,
    offers: usize,
    unasked: usize,
}

impl Seen {
    fn note(&mut self, quote: &Quote) {
        self.offers += quote.offers.len();
        self.unasked += usize::from(quote.needs.is_some());
        match (quote.accepted, quote.category) {
            (true, _) => self.accepted += 1,
            (false, Some(Category::Funds)) => self.funds += 1,
            (false, _) => self.nodes += 1,
        }
    }

    fn is_mixed(&self, cases: usize) {
        println!("{cases} cases: {self:?}");
        let least = cases / 50;
        assert!(self.accepted > least && self.funds > least && self.nodes > least);
        assert!(self.offers > least && self.unasked > 0);
    }
}

/// The price of all jobs of an array is that of each of them, but for the last digit.
fn assert_same(quoted: f64, commitment: &Commitment) {
    let price = commitment.price * f64::from(commitment.count);
    assert!((quoted - price).abs() <= 1e-12 * price, "{quoted} {price}");
}

/// What is before the price.
fn values(text: &str) -> impl Iterator<Item = &str> {
    text.split(" (").next().unwrap_or_default().split(' ')
}

fn pbs_server(config: &Config) -> Server {
    let mut server = Server::new(config);
    let node = |name: &str, share: &str, memory: &str| json!({"name": name, "share": share, "up": true, "mem": memory, "resources": {"arch": "linux", "name": name}});
    let nodes = [
        node("n1", "1", "1gb"),
        node("n2", "2", "4gb"),
        node("n3", "4", "2gb"),
    ];
    let records = json!({"event": "records", "now": NOW, "nodes": nodes, "jobs": []});
    server.answer(&records).expect("records");
    server.take_accounts(BudgetGate::open(config, "pbs", OnFault::Refuse, false));
    server
}

fn pbs_asked(server: &mut Server, job: &Value, now: f64) -> Quote {
    let mut job = job.clone();
    job["quote"] = "ask".into();
    let event = json!({"event": "queuejob", "now": now, "job": job});
    let answer = server.answer(&event).expect("an answer");
    let text = answer["text"].as_str().expect("a refusal");
    Quote::find(text).unwrap_or_else(|| panic!("no quote: {text}"))
}

/// A job with an offer of PBS, as it is written.
fn pbs_taken(job: &Value, text: &str) -> Option<Value> {
    let mut taken = job.clone();
    if let Some(rest) = text.strip_prefix("an array of ") {
        let count: u32 = rest.split(' ').next()?.parse().ok()?;
        taken["array"] = format!("1-{count}").into();
        return Some(taken);
    }
    let pairs = values(text).flat_map(|word| word.split(','));
    for pair in pairs.filter(|word| word.len() > 2) {
        let (key, value) = pair.split_once('=')?;
        match key {
            "select" | "ncpus" => taken[key] = value.into(),
            key => taken["terms"][key] = value.into(),
        }
    }
    Some(taken)
}

#[test]
fn inside_pbs() {
    let site = Site::new();
    let mut dice = Dice(0x9e37_79b9_7f4a_7c15);
    let (mut seen, cases) = (Seen::default(), cases(4));
    let sites = sites();
    for (round, (rules, _)) in sites.iter().enumerate() {
        let config = site.config(rules);
        let mut server = pbs_server(&config);
        let mut now = NOW;
        for case in 0..cases / sites.len() {
            // What was admitted and never got an id is gone after a while.
            now += dice.of(&[0.0, 1.0, 10.0, 40.0]);
            let (chunks, each) = (dice.of(&[1, 1, 1, 2, 5]), dice.of(&[1, 1, 2, 3, 64]));
            let array = dice.of(&[1, 1, 1, 3]);
            let slots = f64::from(chunks * each * array);
            let drawn = draw(&mut dice, server.gate(), slots, 1.0, now);
            let mut job = json!({"user": format!("u{}", drawn.user), "checked": [], "terms": {
                "estimate": drawn.estimate.to_string(), "deadline": drawn.deadline.to_string()}});
            let more = dice.of(&["", ":mem=300mb", ":mem=2gb", ":arch=linux", ":arch=mips"]);
            job["select"] = format!("{chunks}:ncpus={each}{more}").into();
            if array > 1 {
                job["array"] = format!("1-{array}").into();
            }
            job["queue"] = dice.of(&["", "main", "short"]).into();
            if dice.below(4) == 0 {
                job["place"] = dice.of(&["scatter", "pack"]).into();
            }
            if let Some(budget) = drawn.budget {
                job["terms"]["budget"] = written(budget).into();
            }
            let quote = pbs_asked(&mut server, &job, now);
            seen.note(&quote);
            for offer in &quote.offers {
                let taken = pbs_taken(&job, &offer.text).expect("our own words");
                let asked = pbs_asked(&mut server, &taken, now);
                assert!(
                    asked.accepted,
                    "{round} {case}: {job} {}: {asked:?}",
                    offer.text
                );
            }
            if drawn.budget.is_none() {
                job["terms"]["budget"] = written(quote.needs.unwrap_or(f64::INFINITY)).into();
            }
            let event = json!({"event": "queuejob", "now": now, "job": job});
            let answer = server.answer(&event).expect("an answer");
            let accepted = answer["verdict"] == "accept";
            assert_eq!(
                quote.accepted, accepted,
                "{round} {case}: {job} {quote:?} {answer}"
            );
            if !accepted {
                let text = answer["text"].as_str().unwrap_or_default();
                assert_eq!(signed(&quote), text, "{round} {case}: {job}");
                let category = quote.category.map(Category::word);
                assert_eq!(answer["category"].as_str(), category);
                continue;
            }
            let line = answer["resources"]["libra_terms"].as_str();
            let commitment = Commitment::parse(line.expect("a line")).expect("ours");
            assert_same(quote.price, &commitment);
            if dice.below(4) > 0 {
                server.gate().never_began(&commitment, now);
            }
        }
    }
    seen.is_mixed(cases);
}

fn slurm_controller(config: &Config) -> Controller {
    let node = |name: &str, processors| Node {
        name: name.to_string(),
        processors,
        memory: 4096,
        up: true,
        unknown: false,
        answers: true,
        up_since: 0.0,
        features: Vec::new(),
        gres: Vec::new(),
    };
    let partition = |name: &str, nodes: &[&str], longest| Partition {
        name: name.to_string(),
        nodes: nodes.iter().map(|node| (*node).to_string()).collect(),
        shared: true,
        jobs_per_processor: 4,
        longest,
        default: name == "main",
        up: true,
        one_user: false,
        default_memory: None,
    };
    let records = Records {
        taken: NOW,
        jobs: Vec::new(),
        nodes: vec![node("n1", 1), node("n2", 2), node("n3", 4)],
        partitions: vec![
            partition("main", &["n1", "n2", "n3"], None),
            partition("short", &["n1"], Some(20)),
        ],
        ..Records::default()
    };
    let mut controller = Controller::new(config, NOW);
    controller.poll(&records, NOW).expect("a poll");
    controller.take_accounts(BudgetGate::open(config, "slurm", OnFault::Refuse, false));
    let users = (0..=USERS).map(|user| (user as u32, Some(format!("u{user}"))));
    controller.take_users(users);
    controller
}

fn slurm_asked(controller: &mut Controller, job: &Submission, now: f64) -> Quote {
    let mut job = job.clone();
    (job.options).push(("sla-quote".to_string(), "ask".to_string()));
    match controller.submit(&job, now) {
        Answer::Answered(line) => Quote::find(&line).unwrap_or_else(|| panic!("no quote: {line}")),
        other => panic!("{other:?}"),
    }
}

fn option(job: &mut Submission, name: &str, value: &str) {
    job.options.retain(|(known, _)| known != name);
    job.options.push((name.to_string(), value.to_string()));
}

fn slurm_taken(job: &Submission, text: &str) -> Option<Submission> {
    let mut taken = job.clone();
    if let Some(rest) = text.strip_prefix("an array of ") {
        let count: u32 = rest.split(' ').next()?.parse().ok()?;
        taken.array = Some(format!("1-{count}"));
        return Some(taken);
    }
    let mut words = values(text);
    while let Some(word) = words.next() {
        match word {
            "-N" => taken.least_nodes = words.next()?.parse().ok(),
            "-n" => taken.tasks = words.next()?.parse().ok(),
            "-c" => taken.processors_per_task = words.next()?.parse().ok(),
            long => {
                let (name, value) = long.strip_prefix("--")?.split_once('=')?;
                option(&mut taken, name, value);
            }
        }
    }
    Some(taken)
}

#[test]
fn inside_slurm() {
    let site = Site::new();
    let mut dice = Dice(0xd1b5_4a32_d192_ed03);
    let (mut seen, cases) = (Seen::default(), cases(4));
    let sites = sites();
    for (round, (rules, by_queue)) in sites.iter().enumerate() {
        let config = site.config(rules);
        let mut controller = slurm_controller(&config);
        let mut gate = BudgetGate::open(&config, "slurm", OnFault::Refuse, false);
        let mut now = NOW;
        for case in 0..cases / sites.len() {
            now += dice.of(&[0.0, 1.0, 10.0, 40.0]);
            let (tasks, each) = (dice.of(&[1, 1, 2, 4, 64]), dice.of(&[1, 1, 2, 3]));
            let array = dice.of(&[1, 1, 1, 3]);
            let slots = f64::from(tasks * each * array);
            let drawn = draw(&mut dice, &mut gate, slots, 1.0, now);
            let text = |text: &str| Some(text.to_string());
            let mut job = Submission {
                user: drawn.user as u32,
                tasks: Some(tasks),
                processors_per_task: Some(each),
                partition: dice
                    .of(&[None, None, Some("short"), Some("short,main")])
                    .and_then(text),
                array: (array > 1).then(|| format!("1-{array}")),
                ..Submission::default()
            };
            option(&mut job, "estimate", &drawn.estimate.to_string());
            option(&mut job, "sla-deadline", &drawn.deadline.to_string());
            if let Some(budget) = drawn.budget {
                option(&mut job, "budget", &written(budget));
            }
            // Who may go to partitions of different classes has to name one.
            if *by_queue && job.partition.as_deref() == Some("short,main") {
                option(&mut job, "sla-class", "dedicated");
            }
            let quote = slurm_asked(&mut controller, &job, now);
            seen.note(&quote);
            for offer in &quote.offers {
                let taken = slurm_taken(&job, &offer.text).expect("our own words");
                let asked = slurm_asked(&mut controller, &taken, now);
                // A longest time of a partition is no matter of its nodes.
                let known = asked.category == Some(Category::Partition);
                assert!(
                    asked.accepted || known,
                    "{round} {case}: {job:?} {}: {asked:?}",
                    offer.text
                );
            }
            if drawn.budget.is_none() {
                option(
                    &mut job,
                    "budget",
                    &written(quote.needs.unwrap_or(f64::INFINITY)),
                );
            }
            match controller.submit(&job, now) {
                Answer::Accept(accepted) => {
                    assert!(quote.accepted, "{round} {case}: {job:?} {quote:?}");
                    let commitment = JobCommitment::parse(&accepted.admin_comment).expect("ours");
                    let commitment = commitment.expect("ours").commitment;
                    assert_same(quote.price, &commitment);
                    if dice.below(4) > 0 {
                        gate.never_began(&commitment, now);
                    }
                }
                Answer::Refuse(not) => {
                    let text = not.text;
                    assert!(!quote.accepted, "{round} {case}: {job:?} {quote:?} {text}");
                    assert_eq!(signed(&quote), text, "{round} {case}: {job:?}");
                    assert_eq!(quote.category, not.verdict.category());
                }
                other => panic!("{other:?}"),
            }
        }
    }
    seen.is_mixed(cases);
}

#[test]
fn on_one_host() {
    let me = format!("user:{}", me());
    let mut dice = Dice(0x2545_f491_4f6c_dd1d);
    let (mut seen, cases) = (Seen::default(), cases(2));
    let mut sites = Vec::new();
    let mut gate = BudgetGate::off();
    let (mut host, mut drifted) = (None, 0);
    let mut loaded = false;
    for case in 0..cases {
        if case % 20 == 0 {
            // With another registry other accounts: holds of jobs that are in none are given back after a while, at any moment.
            sites.push(Site::poor());
            let site = &sites[sites.len() - 1];
            let more = format!(
                "{}[node]\nprocessors = {}\n[cgroup]\nversion = \"off\"\n[registry]\ndirectory = \"{}\"\n",
                dice.of(&RULES),
                dice.of(&[1, 2, 4]),
                site.path("registry").display(),
            );
            host = Some(Host::open(site.config(&more)).expect("a registry"));
            loaded = false;
            site.account(&[
                "deposit",
                &me,
                &format!("{}", (dice.between(1.0, 10_000.0) * HOUR).round()),
            ]);
            gate = BudgetGate::open(&site.config(""), "run", OnFault::Refuse, false);
        }
        let host = host.as_ref().expect("opened");
        let processors = dice.of(&[1, 1, 2, 3, 64]);
        let mut drawn = draw(&mut dice, &mut gate, f64::from(processors), HOUR, NOW);
        if drawn.user % 3 == 0 {
            // Of the user who runs this test.
            let payer = gate.payer(&me[5..], None, 0.0, NOW).expect("an account");
            let available = payer.and_then(|payer| payer.available).expect("a limit");
            drawn.budget =
                Some((available.credits() * dice.of(&[0.9, 1.0, 1.1]) * 100.0).floor() / 100.0);
        }
        let mut request = Request {
            terms: Terms::hard(
                drawn.estimate,
                drawn.deadline,
                drawn.budget.unwrap_or(f64::INFINITY),
            ),
            shape: Shape {
                processors_per_chunk: processors,
                ..Shape::default()
            },
        };
        let ask = |request: &Request, has_budget: bool| {
            host.quote_over_deadlines(request, None, has_budget)
                .expect("a host")
        };
        let quoted = ask(&request, drawn.budget.is_some());
        let mut quote = Quote {
            accepted: quoted.verdict.is_accepted(),
            needs: quoted.needs,
            ..Quote::of(&request)
        };
        if !quoted.verdict.is_accepted() {
            let manner = Manner {
                jobs: 1,
                pieces: None,
                class_line: None,
                write_offer: &|offer| Some(Written::as_list(offer)),
            };
            quote.not_taken(&quoted.verdict, &manner);
        }
        let offers = quoted
            .verdict
            .refusal()
            .map(|r| r.counter_offers.as_slice());
        // This clock goes on meanwhile, and who waits needs more with every second: then an offer may be too late.
        for offer in offers.unwrap_or_default().iter().filter(|_| !loaded) {
            let taken = ask(&offer.apply(&request), true);
            assert!(
                taken.verdict.is_accepted(),
                "{case}: {request:?} {offer:?}: {taken:?}"
            );
        }
        seen.note(&quote);
        let point = quoted
            .curve
            .iter()
            .find(|point| point.deadline == request.terms.deadline);
        assert_eq!(
            point.expect("the asked one").judged.refused.is_none(),
            quote.accepted,
            "{case}"
        );
        request.terms.budget = quoted.judged.terms.budget;
        match host.submit(&request, "true", None) {
            Ok(Verdict::Accepted(accepted)) => {
                loaded = true;
                let (Verdict::Accepted(terms) | Verdict::WithBudget { offer: terms, .. }) =
                    &quoted.verdict
                else {
                    panic!("{case}: {request:?} {:?}", quoted.verdict);
                };
                assert_eq!(accepted.terms.price, terms.price);
            }
            Ok(not) if quote.accepted => {
                let later = ask(&request, true);
                assert!(
                    loaded && !later.verdict.is_accepted(),
                    "{case}: {request:?} {not:?}"
                );
                drifted += 1;
            }
            Ok(not) => assert_eq!(quote.category, not.category(), "{case}"),
            Err(error) => panic!("{case}: {error}"),
        }
    }
    assert!(drifted <= cases / 50, "{drifted} of {cases}");
    seen.is_mixed(cases);
}

/// `libra WORDS` with the accounts of a site, on a node of one processor of which nothing is enforced; by another user, where one is
/// named.
fn libra(site: &Site, user: Option<u32>, words: &[&str]) -> (Option<i32>, String) {
    use std::os::unix::fs::PermissionsExt;
    use std::os::unix::process::CommandExt;
    // Where it was built not everybody may look.
    let program = site.path("libra");
    if !program.exists() {
        program::write(
            &program,
            &std::fs::read(env!("CARGO_BIN_EXE_libra")).expect("libra"),
        );
        let all = std::fs::Permissions::from_mode(0o1777);
        std::fs::set_permissions(site.directory.path(), all).expect("for everybody");
    }
    let config = site.path(&format!("{user:?}.toml"));
    let more = format!(
        "[node]\nprocessors = 1\n[admission]\nestimate-margin = \"0%\"\n[cgroup]\nversion = \"off\"\n[registry]\ndirectory = \"{}\"\n",
        site.path(&format!("registry-{user:?}")).display()
    );
    std::fs::write(&config, site.text(&more)).expect("a configuration");
    let mut command = Command::new(program);
    command
        .arg("--config")
        .arg(config)
        .args(words)
        .current_dir("/");
    if let Some(user) = user {
        command.uid(user).gid(user);
    }
    let output = command.output().expect("libra");
    let said = [output.stdout, output.stderr].concat();
    (
        output.status.code(),
        String::from_utf8_lossy(&said).into_owned(),
    )
}

#[test]
fn a_quote_on_a_host_asks_the_account_as_the_run_does() {
    let site = Site::new();
    site.account(&["deposit", &format!("user:{}", me()), "89.75"]);
    let run = |terms: &str| libra(&site, None, &["run", "-W", terms, "--", "true"]);
    let quote = |terms: &str| libra(&site, None, &["quote", "-W", terms]);
    let dear = "deadline=40,budget=500,estimate=10";
    for (code, said) in [quote(dear), run(dear)] {
        assert_eq!(code, Some(3), "{said}");
        assert!(
            said.contains("refused (funds): the budget is 500 credits; the account has 89.75"),
            "{said}"
        );
        assert!(
            said.contains("accepted now would be: budget=89.75"),
            "{said}"
        );
    }
    let unlimited = "deadline=400,budget=unlimited,estimate=100";
    for (code, said) in [quote(unlimited), run(unlimited)] {
        assert_eq!(code, Some(3), "{said}");
        assert!(
            said.contains("refused (funds): the job costs 100.25 credits; the account has 89.75"),
            "{said}"
        );
    }
    // A budget that no account covers is not offered.
    let (_, said) = quote("deadline=400,budget=80,estimate=100");
    assert!(
        said.contains("refused (budget)") && !said.contains("budget=100.25"),
        "{said}"
    );
    let (code, said) = quote("deadline=40,estimate=10");
    assert_eq!(code, Some(0), "{said}");
    assert!(
        said.contains("for 10.25 of 10.25 credits")
            && said.contains("no budget was given: this is the answer with budget=10.25"),
        "{said}"
    );
    let (code, said) = libra(
        &site,
        None,
        &["quote", "--hold", "1m", "-W", "deadline=40,estimate=10"],
    );
    assert!(
        code == Some(2) && said.contains("budget is missing"),
        "{said}"
    );
    let (code, said) = libra(&site, None, &["quote", "--hold", "1m", "-W", dear]);
    assert!(code == Some(3) && said.contains("funds"), "{said}");
    assert_eq!(run("deadline=40,budget=10.25,estimate=10").0, Some(0));
    // A project pays that has an account, and for its members alone.
    site.account(&["create", "project:atlas"]);
    let words = [
        "quote",
        "--project",
        "atlas",
        "-W",
        "deadline=40,budget=10.25,estimate=10",
    ];
    let (code, said) = libra(&site, None, &words);
    assert!(code == Some(3) && said.contains("atlas"), "{said}");
}

#[test]
fn who_may_not_read_the_accounts_is_never_told_that_it_would_be_accepted() {
    assert_eq!(me(), "root", "this test needs root, to be another user");
    let site = Site::new();
    let terms = "deadline=40,budget=500,estimate=10";
    let (code, said) = libra(&site, Some(65534), &["quote", "-W", terms]);
    assert_eq!(code, Some(3), "{said}");
    assert!(
        said.contains("it costs 10.25 credits; whether your account covers it is not known here"),
        "{said}"
    );
    let (code, said) = libra(&site, Some(65534), &["run", "-W", terms, "--", "true"]);
    assert!(
        code != Some(0) && said.contains("accounting unavailable"),
        "{said}"
    );
}
