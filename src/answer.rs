//! Jobs and nodes from C, decisions to C.

use super::fault::Fault;
use super::header as c;
use super::pointers::{OutArray, OutStruct, TextBuffer};
use libra_core::decision::class::Class;
use libra_core::decision::counter_offer::CounterOffer;
use libra_core::decision::job::{DeadlineType, OutOfRange, Request, Shape, Terms};
use libra_core::decision::node::NodeSpec;
use libra_core::decision::placement::Placement;
use libra_core::decision::refusal::{Reason, Refusal};
use libra_core::decision::share::DeadlineStatus;
use libra_wording::refusal as wording;
use std::ffi::c_int;
use std::fmt::Write;

/// A field that is 0 or 1.
pub(super) fn flag(field: &'static str, value: i32) -> Result<bool, OutOfRange> {
    match value {
        0 => Ok(false),
        1 => Ok(true),
        _ => Err(OutOfRange {
            field,
            value: f64::from(value),
            expected: "0 or 1",
        }),
    }
}

pub(super) fn reserved(field: u32) -> Result<(), Fault> {
    if field == 0 {
        Ok(())
    } else {
        Err(Fault::new(
            c::LIBRA_E_RESERVED,
            "a reserved field is not 0; begin with the LIBRA_..._INIT of the structure",
        ))
    }
}

/// The terms of a job, checked.
pub(super) fn terms(job: &c::libra_job) -> Result<Terms, Fault> {
    let deadline_type = match u32::try_from(job.deadline_type) {
        Ok(c::LIBRA_DEADLINE_HARD) => DeadlineType::Hard,
        Ok(c::LIBRA_DEADLINE_SOFT) => DeadlineType::Soft,
        _ => {
            return Err(OutOfRange {
                field: "deadline_type",
                value: f64::from(job.deadline_type),
                expected: "LIBRA_DEADLINE_HARD or LIBRA_DEADLINE_SOFT",
            }
            .into());
        }
    };
    let terms = Terms {
        estimate: job.estimate,
        deadline: job.deadline,
        budget: job.budget,
        deadline_type,
        penalty_rate: job.penalty_rate,
        class: Class::Deadline,
    };
    terms.check()?;
    Ok(terms)
}

/// A job, checked.
pub(super) fn request(job: &c::libra_job) -> Result<Request, Fault> {
    let shape = Shape {
        chunks: job.chunks,
        processors_per_chunk: job.processors_per_chunk,
        memory_per_chunk: job.memory_per_chunk,
        scatter: flag("scatter", job.scatter)?,
        ..Shape::default()
    };
    shape.check()?;
    Ok(Request {
        terms: terms(job)?,
        shape,
    })
}

/// `LIBRA_STATUS_*`.
pub(super) fn deadline_status(status: DeadlineStatus) -> i32 {
    let code = match status {
        DeadlineStatus::OnTrack => c::LIBRA_STATUS_ON_TRACK,
        DeadlineStatus::AtRisk => c::LIBRA_STATUS_AT_RISK,
        DeadlineStatus::Overrun => c::LIBRA_STATUS_OVERRUN,
        DeadlineStatus::Late => c::LIBRA_STATUS_LATE,
    };
    code as i32
}

/// What a node is, and whether it takes new jobs; checked.
#[inline(always)]
pub(super) fn node(node: &c::libra_node) -> Result<(NodeSpec, bool), Fault> {
    let spec = NodeSpec {
        processors: node.processors,
        rating: node.rating,
        memory: node.memory,
    };
    spec.check()?;
    reserved(node.reserved)?;
    Ok((spec, flag("available", node.available)?))
}

/// The caller's `libra_decision`: checked before anything is decided, written when it is.
pub(super) struct Answer {
    place: OutStruct<c::libra_decision>,
    blank: c::libra_decision,
    placements: OutArray<c::libra_placement>,
    text: TextBuffer,
}

impl Answer {
    /// # Safety
    /// `decision` is NULL, misaligned, or readable and writable for its size, and so are its buffers
    /// for their capacities, while this lives.
    pub unsafe fn open(decision: *mut c::libra_decision) -> Result<Answer, Fault> {
        // SAFETY: the caller's promise.
        let (place, given) = unsafe { OutStruct::open(decision) }?;
        // SAFETY: the caller's promise about the buffers.
        let placements = unsafe { OutArray::open(given.placements, given.placement_capacity) }?;
        // SAFETY: the same.
        let text = unsafe { TextBuffer::open("decision->text", given.text, given.text_capacity) }?;
        let blank = c::libra_decision {
            placement_count: 0,
            text_length: 0,
            reason: c::LIBRA_REASON_NONE as i32,
            within_budget: 0,
            token: 0,
            price: f64::NAN,
            node: usize::MAX,
            share: f64::NAN,
            loadfree: f64::NAN,
            needed: f64::NAN,
            available: f64::NAN,
            evidence_node: usize::MAX,
            counter_deadline: f64::NAN,
            counter_deadline_price: f64::NAN,
            counter_budget: f64::NAN,
            counter_shape_price: f64::NAN,
            counter_chunks: 0,
            counter_processors: 0,
            ..given
        };
        Ok(Answer {
            place,
            blank,
            placements,
            text,
        })
    }

    /// Checks that there is room for so many placements. The count is written where there is not.
    pub fn room_for(&self, count: usize) -> Result<(), Fault> {
        if !self.placements.too_small_for(count) {
            return Ok(());
        }
        self.place.write(c::libra_decision {
            placement_count: count,
            ..self.blank
        });
        Err(Fault::new(
            c::LIBRA_E_BUFFER,
            format!("the job uses {count} nodes, decision->placements has less room"),
        ))
    }

    /// Accepted, on these nodes, best first; [`Answer::room_for`] was asked.
    pub fn accept(
        &self,
        token: u64,
        price: f64,
        within_budget: bool,
        counter_budget: f64,
        places: &[Placement],
    ) -> c_int {
        let mut decision = c::libra_decision {
            placement_count: places.len(),
            within_budget: within_budget.into(),
            token,
            price,
            counter_budget,
            ..self.blank
        };
        if let Some(best) = places.first() {
            decision.node = best.node;
            decision.share = best.share;
            decision.loadfree = best.loadfree;
        }
        for (index, place) in places.iter().enumerate() {
            self.placements.write(
                index,
                c::libra_placement {
                    size: self.placements.stride(),
                    node: place.node,
                    share: place.share,
                    loadfree: place.loadfree,
                    chunks: place.chunks,
                    reserved: 0,
                },
            );
        }
        self.text.write("");
        self.place.write(decision);
        1
    }

    /// New terms accepted: no placement changes.
    pub fn accept_terms(&self, price: f64) -> c_int {
        self.accept(0, price, true, f64::NAN, &[])
    }

    /// Refused.
    pub fn refuse(
        &self,
        price: f64,
        within_budget: bool,
        refusal: &Refusal,
        name: impl Fn(usize) -> String,
    ) -> Result<c_int, Fault> {
        let mut decision = c::libra_decision {
            within_budget: within_budget.into(),
            price,
            ..self.blank
        };
        let (reason, needed, available, node) = evidence(&refusal.reason)?;
        decision.reason = reason as i32;
        decision.needed = needed;
        decision.available = available;
        decision.evidence_node = node;
        for offer in &refusal.counter_offers {
            match *offer {
                CounterOffer::Deadline { deadline, price } => {
                    decision.counter_deadline = deadline;
                    decision.counter_deadline_price = price;
                }
                CounterOffer::Budget { budget } => decision.counter_budget = budget,
                CounterOffer::Processors {
                    chunks,
                    processors_per_chunk,
                    price,
                    // Told by a rule in the header: the structure has no room for it.
                    estimate: _,
                } => {
                    decision.counter_chunks = chunks;
                    decision.counter_processors = processors_per_chunk;
                    decision.counter_shape_price = price;
                }
                // No function of this interface judges an array, or another class than deadlines.
                CounterOffer::Jobs { .. } | CounterOffer::Class { .. } => {}
            }
        }
        let text = sentence(refusal, name);
        decision.text_length = text.len();
        self.text.write(&text);
        self.place.write(decision);
        Ok(0)
    }
}

fn evidence(reason: &Reason) -> Result<(u32, f64, f64, usize), Fault> {
    const NONE: usize = usize::MAX;
    Ok(match *reason {
        // Callers check the values before they judge.
        Reason::Invalid(error) => return Err(error.into()),
        Reason::Budget { price, budget } => (c::LIBRA_REASON_BUDGET, price, budget, NONE),
        // No function of this interface asks accounts.
        Reason::Funds { budget, available } => (c::LIBRA_REASON_BUDGET, budget, available, NONE),
        Reason::Cover { price, available } => (c::LIBRA_REASON_BUDGET, price, available, NONE),
        Reason::Deadline { fastest, deadline } => {
            (c::LIBRA_REASON_DEADLINE, fastest, deadline, NONE)
        }
        Reason::Share { needed, free, node } => (c::LIBRA_REASON_SHARE, needed, free, node),
        // Bytes above 2^53 lose their last digits.
        Reason::Memory { needed, free, node } => {
            (c::LIBRA_REASON_MEMORY, needed as f64, free as f64, node)
        }
        // No function of this interface asks for any.
        Reason::Consumable { .. } => (c::LIBRA_REASON_NO_NODE, f64::NAN, f64::NAN, NONE),
        Reason::Chunks { asked, fit } => (
            c::LIBRA_REASON_CHUNKS,
            f64::from(asked),
            f64::from(fit),
            NONE,
        ),
        Reason::Time { needed, free, node } => (c::LIBRA_REASON_TIME, needed, free, node),
        Reason::Risk { delay, node } => (c::LIBRA_REASON_RISK, delay, 0.0, node),
        Reason::Return {
            with,
            without,
            node,
        } => (c::LIBRA_REASON_RETURN, with, without, node),
        Reason::NoNode => (c::LIBRA_REASON_NO_NODE, f64::NAN, f64::NAN, NONE),
    })
}

/// Reason and counter-offers for the user.
fn sentence(refusal: &Refusal, name: impl Fn(usize) -> String) -> String {
    let mut text = wording::reason(&refusal.reason.named(name));
    for (index, offer) in refusal.counter_offers.iter().enumerate() {
        let before = if index == 0 {
            "; would be accepted now: "
        } else {
            "; or "
        };
        // Writing to a String does not fail.
        let _ = write!(text, "{before}{}", wording::offer(offer));
    }
    text
}
