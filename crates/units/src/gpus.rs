//! GPUs of a node, as they are asked for: `2`, or of a type `tesla:2`.

/// So many GPUs, of one type or of any.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Gpus {
    /// Their type, as the site has named it.
    pub kind: Option<String>,
    /// How many, ≥ 1.
    pub count: u32,
}

/// Reads `2` or `tesla:2`.
///
/// # Errors
/// It is neither; says what is expected.
pub fn parse(text: &str) -> Result<Gpus, String> {
    let wrong = || {
        format!(
            "'{}' is not a number of GPUs; expected a number such as 2, or a type and a number such as tesla:2",
            super::cut(text)
        )
    };
    let (kind, count) = match text.split_once(':') {
        Some((kind, count)) => (Some(kind), count),
        None => (None, text),
    };
    let is_name = |kind: &str| {
        kind.starts_with(|c: char| c.is_ascii_alphabetic())
            && kind
                .chars()
                .all(|c| c.is_ascii_alphanumeric() || "_-.".contains(c))
    };
    if !kind.is_none_or(is_name) || !count.bytes().all(|byte| byte.is_ascii_digit()) {
        return Err(wrong());
    }
    match count.parse() {
        Ok(count) if count > 0 => Ok(Gpus {
            kind: kind.map(str::to_string),
            count,
        }),
        _ => Err(wrong()),
    }
}

impl std::fmt::Display for Gpus {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match &self.kind {
            Some(kind) => write!(f, "{kind}:{}", self.count),
            None => write!(f, "{}", self.count),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::parse;

    #[test]
    fn a_number_or_a_type_and_a_number() {
        for text in ["1", "16", "tesla:2", "a100-40.gb_x:1"] {
            assert_eq!(parse(text).expect("GPUs").to_string(), text);
        }
        let wrong = [
            "",
            "0",
            "tesla",
            "tesla:",
            ":2",
            "2:2",
            "tesla:0",
            "-1",
            "+1",
            "2,fpga:1",
            "tesla:2:x",
            "4294967296",
            "1 ",
            "te sla:1",
        ];
        for text in wrong {
            assert!(parse(text).is_err(), "{text}");
        }
    }
}
