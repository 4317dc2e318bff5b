//! A batch system is asked, through its own command: the job is handed over with the word that it is only a question, which Libra
//! in the server answers and never queues.

use super::{Answered, Question, hold};
use crate::qsub::find;
use crate::{Failure, terms};
use libra_batch::quote::Quote;
use libra_batch::quote::line::{MARK, find_dropped};
use libra_batch::quote::parts::AnswerPart;
use libra_core::book::held_quote::Order;
use libra_core::decision::job::DeadlineType;
use libra_gridengine::commands::Cell;
use libra_slurm::array::PREFIX;
use libra_system::clock;
use libra_units::gpus::{self, Gpus};
use libra_units::{duration, memory};
use libra_wording::errors::no_order;
use libra_wording::terms::{CLASS, PartialTerms};
use std::path::PathBuf;
use std::process::{Command, Output, Stdio};

/// sbatch, where PATH names it.
pub fn sbatch() -> Option<PathBuf> {
    let path = std::env::var_os("PATH")?;
    (std::env::split_paths(&path).map(|directory| directory.join("sbatch")))
        .find(|program| nix::unistd::access(program, nix::unistd::AccessFlags::X_OK).is_ok())
}

/// Each term that was given, as a key and a value.
fn pairs(given: &PartialTerms) -> Vec<(&'static str, String)> {
    let budget = given.budget.map(|budget| match budget.is_finite() {
        true => budget.to_string(),
        false => "unlimited".to_string(),
    });
    let kind = given.deadline_type.map(|kind| match kind {
        DeadlineType::Hard => "hard".to_string(),
        DeadlineType::Soft => "soft".to_string(),
    });
    [
        ("estimate", given.estimate.map(|value| value.to_string())),
        ("deadline", given.deadline.map(|value| value.to_string())),
        ("budget", budget),
        ("deadline_type", kind),
        (
            "penalty_rate",
            given.penalty_rate.map(|value| value.to_string()),
        ),
        (CLASS, given.class.map(|class| class.word().to_string())),
    ]
    .into_iter()
    .filter_map(|(key, value)| Some((key, value?)))
    .collect()
}

/// Bytes of `--memory`, where it was given.
fn memory_of(question: &Question<'_>) -> Result<Option<u64>, Failure> {
    let text = question.quote.terms.memory.as_deref();
    text.map(|text| {
        memory::parse(text).map_err(|error| Failure::Usage(format!("--memory: {error}")))
    })
    .transpose()
}

/// What `--gpus` asks for, where it was given.
fn gpus_of(question: &Question<'_>) -> Result<Option<Gpus>, Failure> {
    let parsed = question.quote.gpus.as_deref().map(gpus::parse).transpose();
    parsed.map_err(|error| Failure::Usage(format!("--gpus: {error}")))
}

/// Asks slurmctld, through sbatch.
pub fn slurm(question: &Question<'_>) -> Result<Answered, Failure> {
    let sbatch = sbatch().ok_or_else(no_sbatch)?;
    let given = terms::given(&question.quote.terms)?;
    let mut command = Command::new(sbatch);
    // With a Slurm that knows nothing of quotes nothing is submitted either.
    command.arg("--test-only");
    command.arg(format!(
        "--{}={}",
        libra_slurm::QUOTE_OPTION,
        order(question)?
    ));
    for (key, value) in pairs(&beside_comment(question, given, &mut command)) {
        let option = libra_slurm::OPTIONS.iter().find(|(_, known)| *known == key);
        if let Some((option, _)) = option {
            command.arg(format!("--{option}={value}"));
        }
    }
    if let Some(project) = &question.quote.project {
        command.arg(format!("--account={project}"));
    }
    if let Some(processors) = terms::processors(&question.quote.terms)? {
        command.arg("--ntasks=1");
        command.arg(format!("--cpus-per-task={processors}"));
    }
    if let Some(bytes) = memory_of(question)? {
        command.arg(format!("--mem={}M", bytes.div_ceil(1 << 20)));
    }
    if let Some(gpus) = gpus_of(question)? {
        command.arg(format!("--gpus-per-node={gpus}"));
    }
    match &question.quote.script {
        Some(script) => command.arg(script).args(&question.quote.arguments),
        None => command.arg("--wrap=true"),
    };
    answered(&run(&mut command, "sbatch")?, "sbatch")
}

/// Terms in a script's comment cannot be given as options as well: then all of them are given so, in place of the comment.
fn beside_comment(
    question: &Question<'_>,
    given: PartialTerms,
    command: &mut Command,
) -> PartialTerms {
    let now = clock::unix_time();
    let script = (question.script).filter(|_| given != PartialTerms::default());
    // What cannot be read in it is for sbatch to say.
    let submission = script.and_then(|script| script.submission(now, &terms::deadline).ok());
    let in_comment = |comment: &String| comment.trim().starts_with(PREFIX);
    match submission {
        Some(submission) if submission.comment.as_ref().is_some_and(in_comment) => {
            command.arg("--comment=quote");
            given.or(submission.given(now).unwrap_or_default())
        }
        _ => given,
    }
}

/// Asks pbs_server, through the front end for qsub.
pub fn pbs(question: &Question<'_>) -> Result<Answered, Failure> {
    if !question.quote.arguments.is_empty() {
        return Err(Failure::Usage(
            "PBS passes no arguments to a script; leave them out".to_string(),
        ));
    }
    let plain = order(question)?;
    let asked = format!("parts:{plain}");
    let mut output = pbs_question(question, &asked)?;
    // A server of an older Libra takes it for the number of a quote.
    if String::from_utf8_lossy(&output.stderr).contains(&format!("'{asked}'")) {
        output = pbs_question(question, &plain)?;
    }
    let Some(first) = AnswerPart::find(&String::from_utf8_lossy(&output.stderr)) else {
        return answered(&output, "qsub");
    };
    let (key, is_held) = (first.key.clone(), first.held);
    let whole = joined(first, |number, key| {
        let output = pbs_question(question, &format!("part:{number}:{key}"))?;
        Ok(String::from_utf8_lossy(&output.stderr).into_owned())
    });
    match whole.and_then(|whole| found(&whole, "qsub")) {
        Err(failure) if is_held => Err(with_held(&failure, &key)),
        // In one line instead: with fewer points, and from a server that has been started anew meanwhile, too.
        Err(_) => answered(&pbs_question(question, &plain)?, "qsub"),
        found => found,
    }
}

/// Whatever goes wrong, what is held is known.
fn with_held(failure: &Failure, key: &str) -> Failure {
    Failure::Usage(format!(
        "{failure}; quote {key} is held: use it, or give it back with 'libra quote --drop {key} --system pbs'"
    ))
}

/// An answer that comes in parts. `ask`: what qsub says to the question about another one.
fn joined(
    first: AnswerPart,
    ask: impl Fn(usize, &str) -> Result<String, Failure>,
) -> Result<String, Failure> {
    let AnswerPart { parts, key, .. } = first;
    let mut whole = first.text;
    for number in 2..=parts {
        let said = ask(number, &key)?;
        let part = AnswerPart::find(&said).filter(|part| part.number == number && part.key == key);
        let Some(part) = part else {
            let why = no_answer(&said, "qsub");
            return Err(match why {
                Failure::Usage(why) => Failure::Usage(format!(
                    "part {number} of {parts} of the answer did not come: {why}"
                )),
                other => other,
            });
        };
        whole.push_str(&part.text);
    }
    Ok(whole)
}

/// The submission of a question to pbs_server, with this order.
fn pbs_question(question: &Question<'_>, order: &str) -> Result<Output, Failure> {
    let given = terms::given(&question.quote.terms)?;
    let mut command = qsub(order)?;
    let list: Vec<String> = (pairs(&given).iter())
        .map(|(key, value)| format!("{key}={value}"))
        .collect();
    if !list.is_empty() {
        command.arg("-W").arg(list.join(","));
    }
    if let Some(project) = &question.quote.project {
        command.arg("-P").arg(project);
    }
    let memory = memory_of(question)?;
    let processors = terms::processors(&question.quote.terms)?;
    let gpus = gpus_of(question)?;
    if processors.is_some() || memory.is_some() || gpus.is_some() {
        let processors = processors.unwrap_or(1);
        let memory = memory.map_or_else(String::new, |bytes| format!(":mem={bytes}b"));
        let gpus = match gpus {
            None => String::new(),
            Some(Gpus { kind: None, count }) => format!(":ngpus={count}"),
            Some(Gpus {
                kind: Some(kind), ..
            }) => {
                return Err(Failure::Usage(format!(
                    "PBS counts GPUs without their types: write --gpus with a number alone, or what this site has for '{kind}' into the script's '-l select'"
                )));
            }
        };
        command.arg("-l");
        command.arg(format!("select=1:ncpus={processors}{memory}{gpus}"));
    }
    match &question.quote.script {
        Some(script) => command.arg(script),
        None => command.args(["--", "/bin/true"]),
    };
    let output = run(&mut command, "qsub")?;
    not_queued(&output)?;
    Ok(output)
}

fn order(question: &Question<'_>) -> Result<String, Failure> {
    Ok(match hold(question)? {
        Some(seconds) => format!("hold:{}", duration::exact(seconds)),
        None => "ask".to_string(),
    })
}

/// The order that gives a quote back.
fn drop_order(number: &str) -> Result<String, Failure> {
    let order = format!("drop:{number}");
    match Order::parse(&order) {
        Ok(_) => Ok(order),
        Err(error) => Err(Failure::Usage(format!("--drop: {}", no_order(&error)))),
    }
}

/// Gives a quote of the Slurm cluster back.
pub fn slurm_drop(number: &str) -> Result<(), Failure> {
    let mut command = Command::new(sbatch().ok_or_else(no_sbatch)?);
    command.arg("--test-only");
    command.arg(format!(
        "--{}={}",
        libra_slurm::QUOTE_OPTION,
        drop_order(number)?
    ));
    dropped(&run(command.arg("--wrap=true"), "sbatch")?, "sbatch")
}

/// Gives a quote of the PBS server back.
pub fn pbs_drop(number: &str) -> Result<(), Failure> {
    let mut command = qsub(&drop_order(number)?)?;
    let output = run(command.args(["--", "/bin/true"]), "qsub")?;
    not_queued(&output)?;
    dropped(&output, "qsub")
}

fn dropped(output: &Output, name: &str) -> Result<(), Failure> {
    let said = String::from_utf8_lossy(&output.stderr);
    match find_dropped(&said) {
        Some(_) => Ok(()),
        None => Err(no_answer(&said, name)),
    }
}

/// Grid Engine's own qsub, where there is a cell.
pub fn gridengine_qsub() -> Result<PathBuf, Failure> {
    let cell = Cell::new(&|name| std::env::var(name).ok());
    let common = cell.common();
    if !common.join("act_qmaster").is_file() {
        return Err(Failure::Usage(format!(
            "there is no cell of Grid Engine in {}; set SGE_ROOT and SGE_CELL, or --system local asks this host",
            common.display()
        )));
    }
    (cell.program("qsub")).map_err(|error| Failure::Usage(error.to_string()))
}

/// A question to qmaster's verifier.
fn gridengine_question(order: &str, terms: &[(&str, String)]) -> Result<Command, Failure> {
    let cell = Cell::new(&|name| std::env::var(name).ok());
    let mut command = Command::new(gridengine_qsub()?);
    // Debian's own cell is meant where nothing is set, and qsub itself knows of none.
    command
        .env("SGE_ROOT", &cell.root)
        .env("SGE_CELL", &cell.name);
    let mut requests = vec![format!("{}={order}", libra_gridengine::QUOTE)];
    requests.extend(terms.iter().map(|(key, value)| format!("{key}={value}")));
    command.arg("-terse").arg("-l").arg(requests.join(","));
    Ok(command)
}

/// Asks qmaster, through its qsub.
pub fn gridengine(question: &Question<'_>) -> Result<Answered, Failure> {
    let given = terms::given(&question.quote.terms)?;
    if memory_of(question)?.is_some() {
        return Err(Failure::Usage(
            "Grid Engine's jobs get no memory of their own by terms; leave out --memory"
                .to_string(),
        ));
    }
    if question.quote.gpus.is_some() {
        return Err(Failure::Usage(
            "Grid Engine knows no GPUs of its own: leave out --gpus, and write the site's request into the script's '#$ -l'"
                .to_string(),
        ));
    }
    if terms::processors(&question.quote.terms)?.is_some_and(|processors| processors > 1) {
        return Err(Failure::Usage(
            "Grid Engine's jobs ask for processors by a parallel environment: leave out --processors, and write '#$ -pe NAME NUMBER' into the script"
                .to_string(),
        ));
    }
    let mut command = gridengine_question(&order(question)?, &pairs(&given))?;
    if let Some(project) = &question.quote.project {
        command.arg("-P").arg(project);
    }
    match &question.quote.script {
        Some(script) => command.arg(script).args(&question.quote.arguments),
        None => command.args(["-b", "y", "/bin/true"]),
    };
    let output = run(&mut command, "qsub")?;
    gridengine_not_queued(&output)?;
    answered(&output, "qsub")
}

/// Gives a quote of the cell back.
pub fn gridengine_drop(number: &str) -> Result<(), Failure> {
    let mut command = gridengine_question(&drop_order(number)?, &[])?;
    let output = run(command.args(["-b", "y", "/bin/true"]), "qsub")?;
    gridengine_not_queued(&output)?;
    dropped(&output, "qsub")
}

/// Where the request is known and nobody looked at it, there is a job now.
fn gridengine_not_queued(output: &Output) -> Result<(), Failure> {
    if !output.status.success() {
        return Ok(());
    }
    let job = String::from_utf8_lossy(&output.stdout).trim().to_string();
    Err(Failure::Usage(format!(
        "qmaster has queued the question as job {job}: Libra's verifier is switched off or of an older version; delete it with 'qdel {job}', and ask the administrators for 'libra gridengine check'"
    )))
}

/// The front end for qsub, with a question.
fn qsub(order: &str) -> Result<Command, Failure> {
    find::real(&find::Surroundings::of_this_process()).map_err(Failure::Usage)?;
    let myself = std::env::current_exe().map_err(|error| {
        Failure::Usage(format!(
            "this program cannot be found to be called: {error}"
        ))
    })?;
    let mut command = Command::new(myself);
    command.args(["qsub", "-l"]);
    command.arg(format!("{}={order}", libra_pbs::QUOTE));
    Ok(command)
}

/// Where the resource is known and nobody looked at it, there is a job now.
fn not_queued(output: &Output) -> Result<(), Failure> {
    if !output.status.success() {
        return Ok(());
    }
    let job = String::from_utf8_lossy(&output.stdout).trim().to_string();
    Err(Failure::Usage(format!(
        "PBS has queued the question as job {job}: Libra's hooks are switched off or of an older version; delete it with 'qdel {job}', and ask the administrators for 'libra pbs check'"
    )))
}

fn no_sbatch() -> Failure {
    Failure::Usage("there is no sbatch in PATH; --system local asks this host".to_string())
}

fn run(command: &mut Command, name: &str) -> Result<Output, Failure> {
    (command.stdin(Stdio::null()).output())
        .map_err(|error| Failure::Usage(format!("{name} cannot be called: {error}")))
}

/// The answer in what the command has printed, or what it said instead.
fn answered(output: &Output, name: &str) -> Result<Answered, Failure> {
    found(&String::from_utf8_lossy(&output.stderr), name)
}

fn found(said: &str, name: &str) -> Result<Answered, Failure> {
    match Quote::find(said) {
        Some(quote) => Ok(Answered {
            quote,
            more: Vec::new(),
            warnings: Vec::new(),
        }),
        None if said.contains(MARK) => Err(Failure::Usage(format!(
            "{name} has cut the answer short, or it is of another version of Libra: {}",
            said.chars().take(200).collect::<String>()
        ))),
        None => Err(no_answer(said, name)),
    }
}

fn no_answer(said: &str, name: &str) -> Failure {
    let lines: Vec<&str> = (said.lines().map(str::trim))
        .filter(|line| !line.is_empty())
        .collect();
    // What Libra itself has to say needs no explanation.
    let why = match lines.iter().any(|line| line.contains("libra: ")) {
        true => "",
        false => {
            "; perhaps Libra, with quotes, is not in this cluster, or no server answers; --system local asks this host"
        }
    };
    let said = match lines.is_empty() {
        true => "it said nothing".to_string(),
        false => lines.join("; "),
    };
    Failure::Usage(format!("{name} gave no quote: {said}{why}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_in_parts_is_joined_and_what_is_held_is_said() {
        use libra_batch::quote::parts::StoredAnswers;
        let mut kept = StoredAnswers::default();
        let number = "1nb2f5c-e3p1whfwb3bxw4dp";
        let text = "0123456789".repeat(300);
        let line = kept.keep(&text, 1000, "ann", Some(number), (0.0, 1));
        let first = || AnswerPart::find(&line).expect("a part");
        let kept = std::cell::RefCell::new(kept);
        let ask = |number: usize, key: &str| {
            let part = kept.borrow_mut().part(key, number, "ann", 0.0);
            Ok(format!("qsub: {}\n", part.expect("it is kept")))
        };
        assert_eq!(joined(first(), ask).ok().as_deref(), Some(text.as_str()));
        for said in [
            String::new(),
            "qsub: libra: there is no part 2".to_string(),
            // Another one than was asked for.
            line.clone(),
        ] {
            let Err(Failure::Usage(why)) = joined(first(), |_, _| Ok(said.clone())) else {
                panic!("{said}");
            };
            assert!(
                why.contains("part 2 of 4 of the answer did not come"),
                "{why}"
            );
            let said = with_held(&Failure::Usage(why), number).to_string();
            assert!(
                said.contains(&format!("; quote {number} is held")),
                "{said}"
            );
        }
    }

    #[test]
    fn terms_are_handed_over_as_they_were_given() {
        let given = PartialTerms {
            deadline: Some(90.5),
            budget: Some(f64::INFINITY),
            deadline_type: Some(DeadlineType::Soft),
            ..PartialTerms::default()
        };
        let expected = [
            ("deadline", "90.5"),
            ("budget", "unlimited"),
            ("deadline_type", "soft"),
        ];
        let expected = expected.map(|(key, value)| (key, value.to_string()));
        assert_eq!(pairs(&given), expected);
    }
}
