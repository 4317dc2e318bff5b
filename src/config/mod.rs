//! A site's configuration (stand-in: only the defaults).

use crate::book::DEFAULT_PROVISIONAL;
use crate::decision::admission::Admission;

/// A site's configuration.
#[derive(Debug, Clone, Default)]
pub struct Config {}

/// Why a configuration cannot be taken.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[error("{0}")]
pub struct ConfigError(String);

#[derive(serde::Deserialize)]
#[serde(deny_unknown_fields)]
struct Nothing {}

impl Config {
    /// Reads a configuration.
    ///
    /// # Errors
    /// What is wrong with it.
    pub fn from_toml(text: &str) -> Result<Config, ConfigError> {
        toml::from_str(text)
            .map(|Nothing {}| Config {})
            .map_err(|error| ConfigError(error.to_string()))
    }

    /// The rules of admission.
    pub fn admission(&self) -> Admission {
        Admission::default()
    }

    /// Seconds for which an acceptance holds without an id.
    pub fn provisional_seconds(&self) -> f64 {
        DEFAULT_PROVISIONAL
    }
}
