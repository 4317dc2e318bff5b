//! This host is asked.

use super::{Answered, Question, hold};
use crate::args::Args;
use crate::{Failure, show, terms};
use libra_batch::quote::{Quote, held_text};
use libra_batch::verdict::{Fault, Verdict};
use libra_config::{System, site};
use libra_core::decision::class::Class;
use libra_core::decision::class_defaults::ClassLine;
use libra_core::decision::job::{Request, Shape};
use libra_core::decision::refusal::Category;
use libra_host::Host;
use libra_system::clock;
use libra_units::credits;
use libra_wording::errors::{class_by, class_key};
use libra_wording::terms::PartialTerms;

/// The request that options and script make, what gave it its class, and whether they say a budget; else it is unlimited.
fn request(
    question: &Question<'_>,
    host: &Host,
    notes: &mut Vec<String>,
) -> Result<(Request, Option<ClassLine>, bool), Failure> {
    let (mut beside, mut shape) = (PartialTerms::default(), Shape::default());
    if let (Some(script), true) = (question.script, question.kind != System::Local) {
        let largest = host.machine().spec.processors.ceil().max(1.0) as u32;
        let asked = script
            .asked(question.kind, largest, clock::unix_time(), &terms::deadline)
            .map_err(Failure::Usage)?;
        (beside, shape) = (asked.terms, asked.shape);
        notes.extend(asked.notes);
    }
    let args = &question.quote.terms;
    let has_budget = terms::given(args)?.or(beside).budget.is_some();
    // A quote is held for a budget, with which its job comes.
    if question.quote.hold.is_none() {
        beside.budget.get_or_insert(f64::INFINITY);
    }
    let site = libra_rules::class_defaults(host.config());
    let (request, class_line) = terms::request_beside(args, beside, shape, &site)?;
    // What needs none is taken without.
    let has_budget = has_budget || request.terms.class == Class::BestEffort;
    Ok((request, class_line, has_budget))
}

/// Gives a quote of this host back.
pub fn drop_quote(number: &str, args: &Args) -> Result<(), Failure> {
    Ok(Host::open(site::load(args.config.as_deref())?)?.drop_quote(number)?)
}

/// Asks it.
pub fn ask(
    question: &Question<'_>,
    args: &Args,
    notes: &mut Vec<String>,
) -> Result<Answered, Failure> {
    if question.quote.gpus.is_some() {
        return Err(Failure::Usage(
            "jobs of this host are given no GPUs: leave out --gpus, or ask a batch system (--system)".to_string(),
        ));
    }
    let host = Host::open(site::load(args.config.as_deref())?)?;
    let (request, class_line, has_budget) = request(question, &host, notes)?;
    let class_line = class_line.as_ref();
    let project = question.quote.project.as_deref();
    let mut quoted = host.quote_over_deadlines(&request, project, has_budget)?;
    let mut held = None;
    if let Some(seconds) = hold(question)? {
        (quoted.verdict, held) = host.hold_quote(&request, project, seconds)?;
    }
    let mut quote = Quote {
        price: quoted.price,
        needs: quoted.needs,
        curve: quoted.curve,
        class_line: class_line.map(class_key),
        ..Quote::of(&request)
    };
    let mut more = vec![("unenforced", host.unenforced().into())];
    let mut warnings = Vec::new();
    match quoted.verdict {
        Verdict::Accepted(offer) | Verdict::WithBudget { offer, .. } => {
            quote.accepted = true;
            quote.price = offer.price;
            quote.share = Some(offer.share);
            quote.node = Some(host.machine().name.clone());
            let words = show::terms(&host, &quoted.judged, &offer);
            quote.conditional = show::is_conditional(&host, &quoted.judged);
            quote.text = format!("{}: {words}", show::verdict(&host, &quoted.judged));
            if let Some(line) = class_line {
                quote.text += &format!("\n{}", class_by(request.terms.class, line));
            }
            quote.say_needs(&|budget| format!("budget={}", credits(budget)));
            if let Some(held) = &held {
                let use_it = format!("libra run --quote {}", held.number);
                let line = held_text(held, clock::unix_time(), &use_it);
                quote.text += &format!("\n{line}");
            }
            quote.held = held;
            more.push(("loadfree", offer.loadfree.into()));
            if let Some(reason) = host.unenforced() {
                warnings.push(format!(
                    "warning: its share would NOT be enforced: {reason}"
                ));
            }
        }
        not => {
            let manner = show::OnHost::of(&request, class_line);
            manner.say(|manner| quote.not_taken(&not, manner));
            if let Verdict::NotJudged(Fault::Accounts { problem, .. }) = &not {
                // Whose accounts these are need not let everybody read them.
                let reason = format!(
                    "it costs {} credits; whether your account covers it is not known here, so 'libra run' refuses it ({problem})",
                    credits(quoted.price)
                );
                quote.text = format!("refused ({}): {reason}", Category::Fault.word());
                quote.reason = Some(reason);
            }
        }
    }
    Ok(Answered {
        quote,
        more,
        warnings,
    })
}
