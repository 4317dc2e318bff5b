//! Values in addresses of pages.

/// A value in an address: whatever is not a letter or a digit for certain as `%XX`. Needs no escaping in HTML.
pub struct InAddress<'a>(pub &'a str);

impl std::fmt::Display for InAddress<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        for byte in self.0.bytes() {
            match byte {
                b'-' | b'_' | b'.' => write!(f, "{}", char::from(byte))?,
                byte if byte.is_ascii_alphanumeric() => write!(f, "{}", char::from(byte))?,
                byte => write!(f, "%{byte:02X}")?,
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn any_key_is_one_value_of_an_address() {
        let key = InAddress("7_[1-99%10]&x=\"é").to_string();
        assert_eq!(key, "7_%5B1-99%2510%5D%26x%3D%22%C3%A9");
    }
}
