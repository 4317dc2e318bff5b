//! A job's story: how it ended, what its user may learn for the next one, what became of its price, what it ran.

use super::{facts, note};
use crate::account::Payment;
use crate::address::InAddress;
use crate::advice::Advice;
use crate::system::job::{Detail, JobSummary, Outcome};
use crate::system::story::Used;
use crate::told::Told;
use libra_plots::markup::Escaped;
use libra_units::{credits, duration};
use maud::{Markup, html};

/// The most of a script that is shown, in bytes.
const MOST: usize = 64 << 10;

/// How a job has ended, in a sentence; nothing while it has not.
pub fn end(job: &JobSummary) -> Markup {
    let Some(outcome) = job.outcome else {
        return Markup::default();
    };
    let how = match outcome {
        Outcome::Finished => "It finished",
        Outcome::Failed => "It failed",
        Outcome::Stopped => "It was stopped",
        Outcome::Cancelled => "It was cancelled",
        Outcome::Unknown => "It has ended, and nobody knows how",
    };
    let ending = job.ending.as_str();
    let ending = match ending.split_whitespace().next() {
        None => String::new(),
        Some("exit") => format!(" with {ending}"),
        Some("ended") => format!(": it was {ending}"),
        Some(_) => format!(": {ending}"),
    };
    let when = match (job.elapsed, job.deadline) {
        (Some(took), Some(deadline)) => {
            let apart = duration::show((deadline - took).abs());
            let side = if took <= deadline { "before" } else { "after" };
            format!(
                ", {} after its submission, {apart} {side} its deadline",
                duration::show(took)
            )
        }
        (Some(took), None) => format!(", {} after its submission", duration::show(took)),
        _ => String::new(),
    };
    // What stands behind a colon is a part of its own.
    let when = if ending.contains(':') {
        when.replacen(", ", "; ", 1)
    } else {
        when
    };
    html! { p.said { (how) (Escaped(ending)) (when) "." } }
}

/// What the user may learn of it for the next one.
pub fn advice(detail: &Detail, told: &Told) -> Markup {
    let job = &detail.job;
    let (Some(advice), Some(estimate)) = (told.advice, job.estimate) else {
        return Markup::default();
    };
    let again = |proposed: f64| {
        html! {
            @if detail.ours {
                a.button href={ "submit?again=" (InAddress(&job.key)) "&estimate=" (duration::exact(proposed)) } {
                    "Submit again with an estimate of " (duration::show(proposed))
                }
            }
        }
    };
    let is_bound = matches!(told.story.used, Some(Used::AtMost(_)));
    html! {
        section {
            h2 { "The estimate" }
            @match advice {
                Advice::TooLong { times, jobs, most, proposed } => {
                    p {
                        "Your estimate was " (too_long(times, is_bound)) ": of " (duration::show(estimate)) " it needed "
                        @if is_bound { "no more than " } (shown(estimate / times)) "."
                        @if jobs > 1 { " The most that one of your " (jobs) " jobs of this name needed is " (shown(most)) "." }
                        @match (told.price, job.price) {
                            (Some(price), Some(paid)) => { " With " (duration::show(proposed)) " it would cost " (credits(price)) " credits now; this one's price was " (credits(paid)) "." },
                            (Some(price), None) => { " With " (duration::show(proposed)) " it would cost " (credits(price)) " credits now." },
                            (None, _) => { " " (duration::show(proposed)) " would have been enough, a tenth more than it needed." },
                        }
                    }
                    (again(proposed))
                },
                Advice::TooShort { proposed } => {
                    p {
                        "Your estimate was too short: it needed more than " (duration::show(estimate)) ". What is beyond the estimate is nobody's promise; "
                        (duration::show(proposed)) " would have been enough."
                    }
                    (again(proposed))
                },
            }
        }
    }
}

/// `2.1 times too long`; beyond reason the number says nothing.
fn too_long(times: f64, is_bound: bool) -> String {
    let least = if is_bound { "at least " } else { "" };
    match times {
        times if times < 10.0 => format!("{least}{times:.1} times too long"),
        times if times < 100.0 => format!("{least}{times:.0} times too long"),
        _ => "more than 100 times too long".to_string(),
    }
}

/// A duration that is not 0.
fn shown(seconds: f64) -> String {
    match seconds < 0.1 {
        true => "less than 0.1 s".to_string(),
        false => duration::show(seconds),
    }
}

/// What became of its price.
pub fn payment(told: &Told) -> Markup {
    let payment = match &told.payment {
        Ok(None) => return Markup::default(),
        Ok(Some(payment)) => payment,
        Err(error) => {
            return html! { section { h2 { "What it cost" } p.soft { "This is not known here: " (Escaped(error.to_string())) } } };
        }
    };
    let Payment {
        held,
        charged,
        released,
        compensated,
        is_settled,
        ..
    } = payment;
    let mut rows = vec![("Held at its acceptance".to_string(), credits(*held))];
    if *is_settled {
        rows.push(("Charged".to_string(), credits(*charged)));
        rows.push(("Given back".to_string(), credits(*released)));
        if *compensated > 0.0 {
            rows.push(("Paid out for its delay".to_string(), credits(*compensated)));
        }
        rows.push(("Why".to_string(), payment.note.clone()));
    }
    rows.push(("Account".to_string(), payment.account.clone()));
    rows.retain(|(_, value)| !value.is_empty());
    html! {
        section {
            h2 { "What it cost" }
            (facts(&rows))
            @if !is_settled { p.soft { "It is settled when the job has ended." } }
        }
    }
}

/// What it ran, and with which environment.
pub fn script(told: &Told) -> Markup {
    let story = &told.story;
    html! {
        section {
            h2 { "What it runs" }
            @match &story.script {
                None => (note("Nobody has its script any more, or it was given none: it was not submitted by this page.")),
                Some(script) => (text(script)),
            }
            @if !story.environment.is_empty() {
                details {
                    summary { "Environment, " (story.environment.len()) @if story.environment.len() == 1 { " variable" } @else { " variables" } }
                    dl.variables {
                        @for (name, value) in &story.environment {
                            div { dt { code { (Escaped(name)) } } dd { code { (Escaped(value)) } } }
                        }
                    }
                }
            }
            p.soft {
                @match (story.is_whole, story.environment.is_empty()) {
                    (true, _) => { "These are what the batch system knows of its environment." },
                    (_, false) => "Besides, it has the environment of who submitted it.",
                    (_, true) => "It has the environment of who submitted it.",
                }
            }
        }
    }
}

fn text(script: &str) -> Markup {
    let mut end = script.len().min(MOST);
    while !script.is_char_boundary(end) {
        end -= 1;
    }
    let lines = script.lines().count();
    html! {
        details {
            summary { "Script, " (lines) @if lines == 1 { " line" } @else { " lines" } }
            pre tabindex="0" role="region" aria-label="Script" {
                // A line break right behind the tag would be dropped.
                @if script.starts_with('\n') { "\n" }
                (Escaped(&script[..end]))
            }
            @if end < script.len() { p.soft { "The first 64 KiB of it." } }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::system::story::Story;

    fn told() -> Told {
        Told {
            story: Story::default(),
            payment: Ok(None),
            advice: None,
            price: None,
        }
    }

    fn words(markup: Markup) -> String {
        let text = markup.into_string();
        let parts = text
            .split('<')
            .map(|part| part.split_once('>').map_or(part, |(_, text)| text));
        parts.collect::<Vec<_>>().join("")
    }

    #[test]
    fn how_it_ended() {
        let with = |outcome, ending: &str, elapsed, deadline| {
            words(end(&JobSummary {
                outcome: Some(outcome),
                ending: ending.to_string(),
                elapsed,
                deadline,
                ..JobSummary::default()
            }))
        };
        assert_eq!(
            with(Outcome::Finished, "exit code 0", Some(21.0), Some(40.0)),
            "It finished with exit code 0, 21 s after its submission, 19 s before its deadline."
        );
        assert_eq!(
            with(Outcome::Failed, "exit code 2", Some(50.0), Some(40.0)),
            "It failed with exit code 2, 50 s after its submission, 10 s after its deadline."
        );
        assert_eq!(
            with(
                Outcome::Failed,
                "ended by signal 9, SIGKILL: killed",
                Some(5.0),
                None
            ),
            "It failed: it was ended by signal 9, SIGKILL: killed; 5 s after its submission."
        );
        assert_eq!(
            with(Outcome::Cancelled, "", None, None),
            "It was cancelled."
        );
        assert_eq!(words(end(&JobSummary::default())), "");
    }

    #[test]
    fn what_a_user_may_learn() {
        let detail = Detail {
            job: JobSummary {
                key: "1-k".into(),
                estimate: Some(42.0),
                price: Some(20.5),
                ..JobSummary::default()
            },
            ours: true,
            ..Detail::default()
        };
        let long = Some(Advice::TooLong {
            times: 2.1,
            jobs: 3,
            most: 20.0,
            proposed: 22.0,
        });
        let said = advice(
            &detail,
            &Told {
                advice: long,
                price: Some(10.4),
                ..told()
            },
        );
        assert!(
            said.0.contains("submit?again=1-k&amp;estimate=22"),
            "{}",
            said.0
        );
        let said = words(said);
        assert!(said.contains("Your estimate was 2.1 times too long: of 42 s it needed 20 s. The most that one of your 3 jobs of this name needed is 20 s. With 22 s it would cost 10.4 credits now; this one's price was 20.5."), "{said}");
        let bound = Story {
            used: Some(Used::AtMost(20.0)),
            ..Story::default()
        };
        let said = words(advice(
            &detail,
            &Told {
                advice: long,
                story: bound,
                ..told()
            },
        ));
        assert!(
            said.contains("at least 2.1 times too long: of 42 s it needed no more than 20 s.")
                && !said.contains("cost"),
            "{said}"
        );
        let short = Some(Advice::TooShort { proposed: 50.0 });
        assert!(
            words(advice(
                &detail,
                &Told {
                    advice: short,
                    ..told()
                }
            ))
            .contains("too short")
        );
        assert_eq!(words(advice(&detail, &told())), "");
    }

    #[test]
    fn what_became_of_its_price() {
        let paid = Payment {
            account: "user:ann".into(),
            held: 10.25,
            charged: 0.25,
            released: 10.0,
            is_settled: true,
            note: "cancelled".into(),
            compensated: 0.0,
        };
        let said = words(payment(&Told {
            payment: Ok(Some(paid.clone())),
            ..told()
        }));
        assert_eq!(
            said,
            "What it costHeld at its acceptance10.25Charged0.25Given back10WhycancelledAccountuser:ann"
        );
        let open = Payment {
            is_settled: false,
            ..paid
        };
        assert!(
            words(payment(&Told {
                payment: Ok(Some(open)),
                ..told()
            }))
            .contains("settled when")
        );
        assert_eq!(words(payment(&told())), "");
    }
}
