//! What was admitted becomes a commitment, or leaves the book again.

use super::{Admitted, Book};
use crate::commitment::{Commitment, NodeCommitment};
use crate::decision::job::Request;

impl Book {
    /// The commitment to a job, or to the `count` jobs of an array. `payer`: the account, where somebody pays.
    pub fn commitment(
        &self,
        request: &Request,
        count: u32,
        admitted: &Admitted,
        payer: Option<&str>,
        now: f64,
    ) -> Commitment {
        Commitment {
            token: admitted.token,
            submitted: now,
            request: *request,
            price: admitted.price / f64::from(count),
            count,
            conditional: (admitted.places.iter()).any(|place| {
                request
                    .terms
                    .are_conditional(self.nodes[place.node].spec.rating)
            }),
            deferred: false,
            from_start: false,
            begin_within: None,
            starts_by: None,
            margin: Some(
                self.find_token(admitted.token)
                    .map_or(self.admission.admission.estimate_margin, |key| {
                        self.job(key).margin
                    }),
            ),
            payer: payer.map(str::to_string),
            places: (admitted.places.iter())
                .map(|place| NodeCommitment {
                    node: self.node_name(place.node).to_string(),
                    chunks: place.chunks,
                    share: place.share,
                })
                .collect(),
        }
    }

    /// Takes out what was admitted just now and is not committed after all.
    pub fn release(&mut self, admitted: &Admitted, count: u32, now: f64) {
        for token in admitted.token..admitted.token + u64::from(count) {
            // None is unknown: all of them were given just now.
            let _ = self.cancel_token(token, now);
        }
    }
}
