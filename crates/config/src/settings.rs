//! The table of settings: every key with its default and what it means, as [`DEFAULT_TOML`](crate::DEFAULT_TOML) has them. Pure; the manual
//! page is made of it.

use crate::DEFAULT_TOML;

/// A key of the configuration.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Setting {
    /// Its section, without brackets.
    pub section: &'static str,
    /// Its name.
    pub key: &'static str,
    /// Its default, as TOML.
    pub default: &'static str,
    /// What it means: lines, those of a list with two blanks in front, what belongs to the line before with four.
    pub meaning: Vec<&'static str>,
}

/// All of them, in their order. A key without a meaning of its own has none.
pub fn settings() -> Vec<Setting> {
    let (mut found, mut section, mut meaning) = (Vec::new(), "", Vec::new());
    for line in DEFAULT_TOML.lines() {
        if let Some(comment) = line.strip_prefix('#') {
            meaning.push(comment.strip_prefix(' ').unwrap_or(comment));
        } else if let Some(name) = line
            .strip_prefix('[')
            .and_then(|line| line.strip_suffix(']'))
        {
            section = name;
            meaning.clear();
        } else if let Some((key, default)) = line.split_once(" = ") {
            found.push(Setting {
                section,
                key,
                default,
                meaning: std::mem::take(&mut meaning),
            });
        } else {
            meaning.clear();
        }
    }
    found
}

/// What stands above all sections: about values.
pub fn about_values() -> Vec<&'static str> {
    let above = DEFAULT_TOML
        .lines()
        .take_while(|line| line.starts_with('#'));
    let above = above.filter_map(|line| line.strip_prefix("# "));
    above.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_key_is_in_the_table_with_its_meaning() {
        let table: toml::Table = DEFAULT_TOML.parse().expect("our own text");
        let settings = settings();
        let mut count = 0;
        for (section, keys) in &table {
            for (key, value) in keys.as_table().expect("a section") {
                let is_it = |one: &&Setting| one.section == section && one.key == key;
                let setting = settings.iter().find(is_it);
                let setting = setting.unwrap_or_else(|| panic!("{section}.{key} is not there"));
                let default: toml::Table =
                    format!("x = {}", setting.default).parse().expect("TOML");
                assert_eq!(default["x"], *value, "{section}.{key}");
                assert!(
                    !setting.meaning.is_empty(),
                    "{section}.{key} has no meaning"
                );
                count += 1;
            }
        }
        assert_eq!(settings.len(), count);
        assert!(about_values().iter().any(|line| line.contains("Durations")));
    }
}
