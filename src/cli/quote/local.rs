//! This host is asked.

use super::{Answered, Question, hold};
use crate::cli::args::{Args, System};
use crate::cli::{Failure, load_config, show, terms};
use libra::decision::counter_offer::CounterOffer;
use libra::decision::job::{Request, Shape};
use libra::host::{Host, clock};
use libra::quote::{Quote, kept_text};
use libra::text::terms::PartialTerms;

/// The request that options and script make.
pub fn request(
    question: &Question<'_>,
    host: &Host,
    notes: &mut Vec<String>,
) -> Result<Request, Failure> {
    let (mut given, mut shape) = (PartialTerms::default(), Shape::default());
    if let (Some(script), true) = (question.script, question.kind != System::Local) {
        let largest = host.machine().spec.processors.ceil().max(1.0) as u32;
        let asked = script
            .asked(question.kind, largest, clock::unix_time(), &terms::deadline)
            .map_err(Failure::Usage)?;
        (given, shape) = (asked.terms, asked.shape);
        notes.extend(asked.notes);
    }
    terms::request_beside(&question.quote.terms, given, shape)
}

/// Gives a quote of this host back.
pub fn drop_quote(number: &str, args: &Args) -> Result<(), Failure> {
    Ok(Host::open(load_config(args)?)?.drop_quote(number)?)
}

/// Asks it.
pub fn ask(
    question: &Question<'_>,
    args: &Args,
    notes: &mut Vec<String>,
) -> Result<Answered, Failure> {
    let host = Host::open(load_config(args)?)?;
    let request = request(question, &host, notes)?;
    let (mut verdict, curve) = host.quote_over_deadlines(&request)?;
    let mut kept = None;
    if let Some(seconds) = hold(question)? {
        (verdict, kept) = host.keep_quote(&request, seconds)?;
    }
    let terms = &request.terms;
    let asked = curve.iter().find(|point| point.deadline == terms.deadline);
    let mut quote = Quote {
        price: asked.map_or(0.0, |point| point.judged.price),
        estimate: terms.estimate,
        deadline: terms.deadline,
        budget: terms.budget.is_finite().then_some(terms.budget),
        slots: request.shape.slots(),
        curve,
        ..Quote::default()
    };
    let mut more = vec![("unenforced", host.unenforced().into())];
    let mut warnings = Vec::new();
    match verdict {
        Ok(offer) => {
            quote.accepted = true;
            quote.price = offer.price;
            quote.share = Some(offer.share);
            quote.node = Some(host.machine().name.clone());
            quote.text = format!("accepted: {}", show::terms(&host, &request, &offer));
            if let Some(kept) = &kept {
                let use_it = format!("libra run --quote {}", kept.number);
                let line = kept_text(kept, clock::unix_time(), &use_it);
                quote.text += &format!("\n{line}");
            }
            quote.kept = kept;
            more.push(("loadfree", offer.loadfree.into()));
            if let Some(reason) = host.unenforced() {
                warnings.push(format!(
                    "warning: its share would NOT be enforced: {reason}"
                ));
            }
        }
        Err(refusal) => {
            let name = |_| host.machine().name.clone();
            quote.refused(&refusal, &name, &|offer: &CounterOffer| {
                Some(offer.to_string())
            });
            quote.text = show::refusal(&host, &refusal).join("\n");
        }
    }
    Ok(Answered {
        quote,
        more,
        warnings,
    })
}
