//! Which host admits with a ledger in a database. A file is of one host; a database several can reach, and each has a live state of its own.
//!
//! Who admits has a lease: a row that says of which generation, and until when by the server's clock. It is renewed twice a second, and
//! who has it counts on it until [`LEASE`] after the *sending* of the last renewal that was acknowledged, by the host's own clock, less a
//! margin. So it ends here before it does there. Whoever takes over makes a new generation first: from then on the older one is renewed
//! no more. It has the lease itself only when the older one has run out by the server's clock.
//!
//! That a lease has run out is no reason to take it: its host may have lost the database for a while, and have movements that are not in it yet. So only who
//! has to admit takes another host's ([`Claim`]).
//!
//! Nothing here is about who admits in the batch system. Of two that both think so one has the lease, mostly the one that began last, and never both:
//! who has had a live state takes the lease back when it has run out, and does not keep another host from renewing it.

use super::super::AccountsError;
use super::super::crash::point;
use super::database::LedgerDatabase;
use std::time::Duration;

/// How long a lease is.
pub(in super::super) const LEASE: Duration = Duration::from_secs(10);

/// So much less is counted on: clocks of two hosts do not go equally fast.
const MARGIN: Duration = Duration::from_secs(1);

/// How long it is counted on, from the sending of what renewed it.
pub(in super::super) const COUNTED: Duration = LEASE.saturating_sub(MARGIN);

/// A claim is for so long, until the live state is made and renews it: making one of a large ledger takes minutes. Who takes over waits no longer than for
/// a lease all the same.
const MAKING: Duration = Duration::from_secs(900);

/// So long after it has run out it is kept for who waits to take it over, and tries again every few seconds.
const KEPT: Duration = Duration::from_secs(30);

/// The server's clock, Unix milliseconds.
macro_rules! now {
    () => {
        "(extract(epoch FROM clock_timestamp()) * 1000)::bigint"
    };
}

/// Nothing happens where another generation or another holder has it, or the ledger is another one or older than what the live state knows.
const RENEW: &str = concat!(
    "UPDATE lease SET until = ",
    now!(),
    " + ?1, holder = ?2, host = ?3 WHERE generation = ?4 AND (holder = ?2 OR until <= ",
    now!(),
    ")
     AND EXISTS (SELECT 1 FROM meta WHERE key = 'identity' AND value = ?5)
     AND COALESCE((SELECT value FROM meta WHERE key = 'written'), 0) >= ?6 RETURNING generation"
);

const WHOSE: &str = concat!(
    "SELECT holder, host, next, until - ",
    now!(),
    " FROM lease FOR UPDATE"
);

const GENERATION: &str =
    "UPDATE meta SET value = value + 1 WHERE key = 'generation' RETURNING value";
const CLAIM: &str = concat!(
    "UPDATE lease SET generation = ?1, until = ",
    now!(),
    " + ?2, holder = ?3, host = ?4, next = ''"
);
/// Nobody has it any more. It is not waited for longer than a lease is, should the server's clock have been set back.
const END: &str = concat!(
    "UPDATE lease SET generation = ?1, holder = '', next = ?3, until = LEAST(until, ",
    now!(),
    " + ?2)"
);

/// Which lease is taken, where there has been one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Claim {
    /// This host's own alone: for who only asks.
    Own,
    /// Another host's too, when it has run out: where a person wants this host to have the accounts, or where another host took them from who admits here.
    Expired,
    /// Another host's too; where it runs it is renewed no more, and had when it has run out: for who begins to admit here.
    Over,
}

/// Who has a live state: all processes that share it are one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in super::super) struct Holder {
    /// The same for all of them, and for nobody else: boot, file system and directory of the live state.
    pub id: String,
    /// For people.
    pub host: String,
}

fn millis(time: Duration) -> i64 {
    i64::try_from(time.as_millis()).unwrap_or(i64::MAX)
}

impl LedgerDatabase {
    /// Renews the lease of a live state. Returns false if it is not to be had: another live state was made since, or this is not its ledger
    /// as it should be. `known`: up to this entry everything was written down.
    pub fn renew(
        &self,
        (identity, generation): (i64, i64),
        known: i64,
        holder: &Holder,
    ) -> Result<bool, AccountsError> {
        let mut renewed = false;
        let parameters = [
            millis(LEASE).into(),
            holder.id.as_str().into(),
            holder.host.as_str().into(),
            generation.into(),
            identity.into(),
            known.into(),
        ];
        self.each(RENEW, &parameters, &mut |_| {
            renewed = true;
            Ok(())
        })?;
        Ok(renewed)
    }

    /// Makes a new generation, with the lease, and returns its number. Else another host's is left alone, but for [`Claim::Over`].
    ///
    /// # Errors
    /// [`AccountsError::Leased`] where the lease is another host's. For [`Claim::Over`] it is renewed no more then, so this can be tried again.
    pub fn next_generation(&self, holder: &Holder, claim: Claim) -> Result<i64, AccountsError> {
        let claimed = self.exclusively(|| {
            let mut found = (String::new(), String::new(), String::new(), 0);
            self.each(WHOSE, &[], &mut |row| {
                found = (row.text(0)?, row.text(1)?, row.text(2)?, row.integer(3)?);
                Ok(())
            })?;
            let (of, host, next, left) = found;
            let is_ours = of == holder.id;
            // After a boot, or in another directory. Without a holder somebody else is taking over, or has not come for it.
            let was_ours = host == holder.host && (!of.is_empty() || left <= -millis(KEPT));
            let is_kept = !next.is_empty() && next != holder.id && left > -millis(KEPT);
            let may_have = match claim {
                Claim::Own => is_ours || left <= 0 && (was_ours || host.is_empty()),
                Claim::Expired => is_ours || left <= 0 && !is_kept,
                Claim::Over => is_ours || left <= 0,
            };
            let leased = || AccountsError::Leased {
                database: self.string().to_string(),
                host: host.clone(),
                seconds: match u64::try_from(left) {
                    Ok(left) => Duration::from_millis(left).min(MAKING).as_secs() + 1,
                    Err(_) => 0,
                },
            };
            if !may_have && claim != Claim::Over {
                return Ok(Err(leased()));
            }
            let mut generation = 0;
            self.each(GENERATION, &[], &mut |row| {
                generation = row.integer(0)?;
                Ok(())
            })?;
            let none = &mut |_: &_| Ok(());
            if may_have {
                let parameters = [
                    generation.into(),
                    millis(MAKING).into(),
                    holder.id.as_str().into(),
                    holder.host.as_str().into(),
                ];
                self.each(CLAIM, &parameters, none)?;
                return Ok(Ok(generation));
            }
            let parameters = [
                generation.into(),
                millis(LEASE).into(),
                holder.id.as_str().into(),
            ];
            self.each(END, &parameters, none)?;
            Ok(Err(leased()))
        })?;
        point("live: after the claim");
        claimed
    }
}
