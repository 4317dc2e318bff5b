//! The same cluster with nothing promised: what jobs are judged by that may not start yet.

use super::{Admitted, Book, NodeRecord, Offer, SNAPSHOT_VERSION, Snapshot};

impl Book {
    /// The same nodes with nothing on them, and the same rules. `latency`: seconds that pass before a job could begin there, see
    /// [`Book::set_start_latency`].
    ///
    /// What it refuses can never be had on these nodes; what it accepts can, if nobody else is in the way then. Indices of nodes are the same.
    pub fn idle(&self, latency: f64) -> Book {
        self.with_nothing(latency, self.node_records())
    }

    /// The same with all nodes, those that take no jobs now too: what it refuses cannot be had on any day.
    pub fn idle_and_whole(&self, latency: f64) -> Book {
        let mut nodes = self.node_records();
        for node in &mut nodes {
            node.available = true;
        }
        self.with_nothing(latency, nodes)
    }

    fn with_nothing(&self, latency: f64, nodes: Vec<NodeRecord>) -> Book {
        let mut book = Book::new(self.admission, self.provisional);
        book.set_start_latency(latency);
        let nodes = Snapshot {
            version: SNAPSHOT_VERSION,
            now: self.now,
            nodes,
            jobs: Vec::new(),
            consumables: self.stock.has(),
        };
        let untaken = book.rebuild(&nodes);
        debug_assert!(untaken.is_ok_and(|untaken| untaken.is_empty()));
        book
    }

    /// What was offered gets a token, or one for each of `count` jobs, and nothing of the nodes.
    pub fn named_offer(&mut self, offer: Offer, count: u32) -> Admitted {
        let token = self.next_token;
        self.next_token += u64::from(count);
        Admitted {
            token,
            price: offer.price,
            places: offer.places,
        }
    }

    /// Its nodes, as they are now.
    pub(super) fn node_records(&self) -> Vec<NodeRecord> {
        (self.nodes.iter().zip(&self.details))
            .map(|(node, details)| NodeRecord {
                name: details.name.clone(),
                processors: node.spec.processors,
                rating: node.spec.rating,
                memory: (node.spec.memory != super::NodeSpec::MEMORY_UNLIMITED)
                    .then_some(node.spec.memory),
                consumables: details.stock.has(),
                available: node.available,
                committed: node.committed,
            })
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::decision::admission::Admission;
    use crate::decision::consumable::{Amounts, Consumable, Scope, Unit};
    use crate::decision::job::{Request, Terms};
    use crate::decision::node::NodeSpec;

    const NODE: NodeSpec = NodeSpec {
        processors: 1.0,
        rating: 1.0,
        memory: NodeSpec::MEMORY_UNLIMITED,
    };

    fn request(estimate: f64, deadline: f64) -> Request {
        Request::single(Terms::hard(estimate, deadline, 1000.0))
    }

    fn full() -> Book {
        let mut book = Book::new(Admission::default(), 30.0);
        book.set_node("n1", NODE, true).expect("ours");
        book.set_node("n2", NODE, false).expect("ours");
        book.admit(&request(90.0, 100.0), 1000.0).expect("room");
        book
    }

    #[test]
    fn nothing_is_promised_there_and_a_closed_node_stays_closed() {
        let book = full();
        let idle = book.idle(0.0);
        assert!(book.quote(&request(50.0, 100.0), None, None).is_err());
        let offer = idle.quote(&request(50.0, 100.0), None, None).expect("room");
        assert_eq!(idle.node_name(offer.places[0].node), "n1");
        let two = idle.quote(&request(90.0, 100.0), Some(2), None);
        assert!(two.is_err(), "{two:?}");
        assert_eq!(idle.job_count(), 0);
        let whole = book.idle_and_whole(0.0);
        assert!(whole.quote(&request(90.0, 100.0), Some(2), None).is_ok());
    }

    #[test]
    fn what_begins_later_needs_more_and_its_offers_count_from_its_submission() {
        let idle = full().idle(60.0);
        let offer = idle.quote(&request(20.0, 100.0), None, None).expect("room");
        assert!((offer.places[0].share - 0.5).abs() < 1e-9, "{offer:?}");
        let text = format!("{:?}", idle.quote(&request(50.0, 100.0), None, None));
        assert!(text.contains("fastest: 110.0, deadline: 100.0"), "{text}");
    }

    #[test]
    fn what_is_counted_is_all_there_again() {
        let gpus = Consumable::new("ngpus", Unit::Whole, Scope::Node).expect("a name");
        let mut book = Book::new(Admission::default(), 30.0);
        let mut nodes = full().node_records();
        nodes[0].consumables = vec![(gpus, 1)];
        assert!(book.set_nodes(&nodes).is_empty());
        let mut one = request(10.0, 100.0);
        one.shape.consumables = Amounts::of(&[(gpus, 1)]).expect("one");
        book.admit(&one, 1000.0).expect("room");
        assert!(book.quote(&one, None, None).is_err());
        assert!(book.idle(0.0).quote(&one, None, None).is_ok());
    }

    #[test]
    fn tokens_are_never_given_twice() {
        let mut book = full();
        let offer = book
            .idle(0.0)
            .quote(&request(1.0, 100.0), None, None)
            .expect("room");
        let first = book.named_offer(offer, 3).token;
        let next = book.admit(&request(1.0, 100.0), 1000.0).expect("room");
        assert_eq!(next.token, first + 3);
    }
}
