//! Which of an account's money pays: what expires first goes first.
//!
//! A deposit with a validity is a lot of its own; everything else is lot 0, which never expires. An overdraft is of
//! lot 0.

use libra_units::money::Money;

/// The lot of money that never expires.
pub const FOR_EVER: i64 = 0;

/// Free money of one lot.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Free {
    /// Which lot.
    pub lot: i64,
    /// What is left of it; negative only in lot 0.
    pub amount: Money,
    /// When it expires, Unix seconds; none: never.
    pub ends: Option<i64>,
}

/// How far lot 0 may go below zero.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Overdraft {
    /// By so much; 0 means not at all.
    To(Money),
    /// Without a limit.
    Unlimited,
}

/// What an account can still spend; None if that is unlimited.
pub fn available(free: &[Free], overdraft: Overdraft) -> Option<Money> {
    let sum: i128 = free.iter().map(|part| i128::from(part.amount.0)).sum();
    match overdraft {
        Overdraft::To(limit) => Some(Money::clamped((sum + i128::from(limit.0)).max(0))),
        Overdraft::Unlimited => None,
    }
}

/// Takes an amount out of the free money: how much of which lot. None if it is not there.
///
/// `free`: what is valid now, each lot once.
pub fn spend(free: &[Free], overdraft: Overdraft, amount: Money) -> Option<Vec<(i64, Money)>> {
    if available(free, overdraft).is_some_and(|available| available < amount) {
        return None;
    }
    let mut order: Vec<&Free> = free.iter().filter(|part| part.amount.0 > 0).collect();
    order.sort_by_key(|part| (part.ends.unwrap_or(i64::MAX), part.lot));
    let mut left = amount.0;
    let mut parts: Vec<(i64, Money)> = Vec::new();
    for part in order {
        let taken = part.amount.0.min(left);
        if taken > 0 {
            parts.push((part.lot, Money(taken)));
            left -= taken;
        }
    }
    if left > 0 {
        match parts.iter_mut().find(|(lot, _)| *lot == FOR_EVER) {
            Some((_, taken)) => taken.0 += left,
            None => parts.push((FOR_EVER, Money(left))),
        }
    }
    Some(parts)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn free(lot: i64, amount: i64, ends: Option<i64>) -> Free {
        Free {
            lot,
            amount: Money(amount),
            ends,
        }
    }

    #[test]
    fn what_expires_first_pays_first() {
        let lots = [
            free(0, 50, None),
            free(3, 10, Some(200)),
            free(2, 20, Some(100)),
        ];
        let none = Overdraft::To(Money::ZERO);
        assert_eq!(
            spend(&lots, none, Money(35)),
            Some(vec![(2, Money(20)), (3, Money(10)), (0, Money(5))])
        );
        assert_eq!(
            spend(&lots, none, Money(80)).map(|parts| parts.len()),
            Some(3)
        );
        assert_eq!(spend(&lots, none, Money(81)), None);
        assert_eq!(spend(&lots, none, Money::ZERO), Some(vec![]));
    }

    #[test]
    fn zero_means_zero_and_unlimited_is_a_word() {
        assert_eq!(spend(&[], Overdraft::To(Money::ZERO), Money(1)), None);
        assert_eq!(
            available(&[], Overdraft::To(Money::ZERO)),
            Some(Money::ZERO)
        );
        assert_eq!(available(&[], Overdraft::Unlimited), None);
        assert_eq!(
            spend(&[free(4, 5, Some(9))], Overdraft::Unlimited, Money(7)),
            Some(vec![(4, Money(5)), (0, Money(2))])
        );
    }

    #[test]
    fn an_overdraft_that_is_used_counts() {
        // 30 owed of 50 that may be, and 10 that expire: 30 are left.
        let lots = [free(0, -30, None), free(1, 10, Some(5))];
        let limit = Overdraft::To(Money(50));
        assert_eq!(available(&lots, limit), Some(Money(30)));
        assert_eq!(
            spend(&lots, limit, Money(30)),
            Some(vec![(1, Money(10)), (0, Money(20))])
        );
        assert_eq!(spend(&lots, limit, Money(31)), None);
    }
}
