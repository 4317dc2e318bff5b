//! Payments where accounts are not built in: there are none, so nothing of this can be called once it is open.

use super::{OpenHold, Payer, Settled};
use crate::AccountsError;
use crate::settlement::End;
use libra_config::{AccountsMode, Config};
use libra_core::commitment::Commitment;
use std::collections::HashSet;

/// No accounts. What each function would do stands at the accounts' own.
#[derive(Debug)]
pub enum Payments {}

#[allow(missing_docs, clippy::missing_errors_doc)]
impl Payments {
    /// Nothing to open.
    ///
    /// # Errors
    /// Where the site's configuration has accounts.
    pub fn open(
        config: &Config,
        _: &'static str,
        _: bool,
    ) -> Result<Option<Payments>, AccountsError> {
        match config.accounts.mode {
            AccountsMode::Off => Ok(None),
            AccountsMode::On => Err(AccountsError::LeftOut),
        }
    }

    pub fn tell_apart(&mut self, _: &str) {
        match *self {}
    }

    pub fn users(&self) -> Result<Vec<String>, AccountsError> {
        match *self {}
    }

    pub fn flush(&self) -> Result<(), AccountsError> {
        match *self {}
    }

    pub fn is_stale(&self) -> bool {
        match *self {}
    }

    pub fn refresh(&mut self) -> Result<(), AccountsError> {
        match *self {}
    }

    pub fn key(&self, _: &Commitment) -> String {
        match *self {}
    }

    pub fn key_again(&self, _: &Commitment, _: u32, _: u32) -> String {
        match *self {}
    }

    pub fn is_settled(&self, _: &Commitment, _: u32) -> Result<bool, AccountsError> {
        match *self {}
    }

    pub fn open_holds(&self) -> Result<Vec<OpenHold>, AccountsError> {
        match *self {}
    }

    pub fn held(&self) -> Result<(u64, f64), AccountsError> {
        match *self {}
    }

    pub fn payer(&self, _: &str, _: Option<&str>, _: f64) -> Result<Payer, AccountsError> {
        match *self {}
    }

    pub fn hold(&mut self, _: &Payer, _: &Commitment, _: f64) -> Result<(), AccountsError> {
        match *self {}
    }

    pub fn hold_instead(
        &mut self,
        _: &Payer,
        _: &Commitment,
        _: &Commitment,
        _: f64,
    ) -> Result<(), AccountsError> {
        match *self {}
    }

    pub fn named(&mut self, _: &Commitment, _: &str) -> Result<(), AccountsError> {
        match *self {}
    }

    pub fn named_again(
        &mut self,
        _: &Commitment,
        _: u32,
        _: u32,
        _: &str,
    ) -> Result<(), AccountsError> {
        match *self {}
    }

    pub fn cover_again(
        &mut self,
        _: &Commitment,
        _: u32,
        _: u32,
        _: f64,
    ) -> Result<bool, AccountsError> {
        match *self {}
    }

    pub fn ended(
        &mut self,
        _: &Commitment,
        _: u32,
        _: &End,
        _: f64,
    ) -> Result<Option<Settled>, AccountsError> {
        match *self {}
    }

    pub fn ended_again(
        &mut self,
        _: &Commitment,
        _: u32,
        _: u32,
        _: &End,
        _: f64,
    ) -> Result<Option<Settled>, AccountsError> {
        match *self {}
    }

    pub fn never_began(&mut self, _: &Commitment, _: f64) -> Result<(), AccountsError> {
        match *self {}
    }

    pub fn release_all(&mut self, _: &str, _: f64) -> Result<(u64, f64), AccountsError> {
        match *self {}
    }

    pub fn reconcile<'a>(
        &mut self,
        _: impl Iterator<Item = &'a Commitment>,
        _: HashSet<String>,
        _: f64,
        _: f64,
    ) -> Result<Vec<String>, AccountsError> {
        match *self {}
    }
}

#[cfg(test)]
mod tests {
    use crate::budget_gate::{BudgetGate, Denied};
    use libra_config::{AccountsMode, Config, OnFault};

    #[test]
    fn without_accounts_nobody_pays() {
        let gate = BudgetGate::open(&Config::default(), "run", OnFault::Refuse, false);
        assert!(!gate.is_on());
        assert_eq!(gate.payer("ann", None, 10.0, 0.0), Ok(None));
    }

    /// A site that asks for accounts is told so, and no job of it runs for nothing.
    #[test]
    fn a_configuration_with_accounts_is_a_fault() {
        let mut config = Config::default();
        config.accounts.mode = AccountsMode::On;
        let gate = BudgetGate::open(&config, "run", OnFault::Refuse, false);
        match gate.payer("ann", None, 10.0, 0.0) {
            Err(Denied::Fault(problem)) => {
                assert!(problem.contains("built without accounts"), "{problem}");
                assert!(problem.contains("accounts.mode"), "{problem}");
            }
            other => panic!("{other:?}"),
        }
    }
}
