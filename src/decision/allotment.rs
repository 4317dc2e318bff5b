//! What each job of a node is given when the needs exceed the node.
//!
//! Admission keeps the sum of the shares within the capacity, but needs grow afterwards: a job that
//! waited for a disk needs more than it was sold, one that is late could use a whole processor. What
//! was sold to the others comes first: nobody's misfortune breaks another's promise.

/// One job's claim on a node, in processors over all its slots there.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Claim {
    /// What it needs from now on.
    pub need: f64,
    /// What it was sold.
    pub sold: f64,
}

/// Gives each claim its part of `capacity` processors.
///
/// All needs where they fit. Otherwise everyone gets its need up to what it was sold, and those
/// who need more share what is left in proportion to what they lack. Where even that does not fit
/// (the node has shrunk), all are scaled down together. A claim never gets more than it needs.
pub fn allot(claims: &[Claim], capacity: f64) -> Vec<f64> {
    let needs: f64 = claims.iter().map(|claim| claim.need).sum();
    if needs <= capacity * (1.0 + super::TOLERANCE) {
        return claims.iter().map(|claim| claim.need).collect();
    }
    let base = |claim: &Claim| claim.need.min(claim.sold);
    let bases: f64 = claims.iter().map(base).sum();
    if bases >= capacity {
        let scale = if bases > 0.0 { capacity / bases } else { 0.0 };
        return claims.iter().map(|claim| base(claim) * scale).collect();
    }
    let part = (capacity - bases) / (needs - bases);
    claims
        .iter()
        .map(|claim| base(claim) + (claim.need - base(claim)) * part)
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn claim(need: f64, sold: f64) -> Claim {
        Claim { need, sold }
    }

    #[test]
    fn needs_that_fit_are_met() {
        let claims = [claim(0.5, 0.3), claim(0.4, 0.4)];
        assert_eq!(allot(&claims, 1.0), [0.5, 0.4]);
    }

    #[test]
    fn a_late_job_takes_only_what_was_not_sold_to_others() {
        let claims = [claim(1.0, 0.3), claim(0.6, 0.6)];
        let given = allot(&claims, 1.0);
        assert!((given[0] - 0.4).abs() < 1e-12 && (given[1] - 0.6).abs() < 1e-12);
    }

    #[test]
    fn two_that_lack_share_what_is_left_by_what_they_lack() {
        let claims = [claim(1.0, 0.2), claim(0.6, 0.2), claim(0.2, 0.2)];
        let given = allot(&claims, 1.0);
        assert!((given.iter().sum::<f64>() - 1.0).abs() < 1e-12);
        assert!((given[0] - 0.2) / (given[1] - 0.2) > 1.99);
        assert_eq!(given[2], 0.2);
    }

    #[test]
    fn a_node_that_has_shrunk_scales_all_down() {
        let given = allot(&[claim(0.8, 0.8), claim(0.8, 0.8)], 1.0);
        assert_eq!(given, [0.5, 0.5]);
    }
}
