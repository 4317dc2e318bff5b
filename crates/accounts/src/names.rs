//! Names of accounts.

use super::AccountsError;
use libra_units::cut;
use std::fmt;

/// Longest name behind the colon, in bytes.
const LONGEST: usize = 64;

/// Whose account it is.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum AccountName {
    /// One person's.
    User(String),
    /// Of several persons, its members.
    Project(String),
    /// The site's own: where deposits come from.
    Bank,
    /// The site's own: where charges go to.
    Income,
}

impl AccountName {
    /// Reads `user:NAME`, `project:NAME`, `site:bank` or `site:income`.
    ///
    /// # Errors
    /// When it is none of these.
    pub fn parse(text: &str) -> Result<AccountName, AccountsError> {
        let bad = || AccountsError::BadName(cut(text));
        let (kind, name) = text.split_once(':').ok_or_else(bad)?;
        let fits = (1..=LONGEST).contains(&name.len())
            && name
                .chars()
                .all(|c| c.is_ascii_alphanumeric() || "._-".contains(c))
            && !name.starts_with('-');
        match (kind, name) {
            ("site", "bank") => Ok(AccountName::Bank),
            ("site", "income") => Ok(AccountName::Income),
            ("user", name) if fits => Ok(AccountName::User(name.to_string())),
            ("project", name) if fits => Ok(AccountName::Project(name.to_string())),
            _ => Err(bad()),
        }
    }

    /// Returns true if it is one of the site's two.
    pub fn is_site(&self) -> bool {
        matches!(self, AccountName::Bank | AccountName::Income)
    }
}

impl fmt::Display for AccountName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            AccountName::User(name) => write!(f, "user:{name}"),
            AccountName::Project(name) => write!(f, "project:{name}"),
            AccountName::Bank => f.write_str("site:bank"),
            AccountName::Income => f.write_str("site:income"),
        }
    }
}

/// Name of a user by the number, and the number by the name, as the system knows them. May take long where a directory service
/// is asked.
pub fn user_name(number: u32) -> Option<String> {
    let found = nix::unistd::User::from_uid(number.into());
    found.ok().flatten().map(|user| user.name)
}

/// See [`user_name`].
pub fn user_number(name: &str) -> Option<u32> {
    let found = nix::unistd::User::from_name(name);
    found.ok().flatten().map(|user| user.uid.as_raw())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names() {
        for text in [
            "user:alice",
            "project:chem-2.b_3",
            "site:bank",
            "site:income",
        ] {
            assert_eq!(AccountName::parse(text).expect(text).to_string(), text);
        }
        for text in [
            "",
            "alice",
            "user:",
            "user:a b",
            "user:../x",
            "project:é",
            "site:other",
            "user:-x",
            "group:x",
            "user:a\nb",
        ] {
            assert!(AccountName::parse(text).is_err(), "{text}");
        }
    }
}
