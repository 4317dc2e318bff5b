//! Runs bindgen so that a build which cannot go on ends with one line that says what to do.

use std::panic::{catch_unwind, set_hook, take_hook};
use std::path::Path;

/// Writes the Rust side of what `builder` reads to `file`; `subject` names it in the message.
///
/// On failure cargo is told in one line, and ends the build once this script has ended. bindgen itself panics
/// where it cannot load libclang.
pub fn write(builder: bindgen::Builder, file: &Path, subject: &str, headers: &str) {
    let hook = take_hook();
    set_hook(Box::new(|_| {}));
    let made = catch_unwind(std::panic::AssertUnwindSafe(|| builder.generate()));
    set_hook(hook);
    let problem = match made {
        Ok(Ok(made)) => match made.write_to_file(file) {
            Ok(()) => return,
            Err(error) => format!("{} cannot be written: {error}", file.display()),
        },
        Ok(Err(error)) => {
            format!(
                "{subject} cannot be read: {}{}{headers}",
                one_line(&error.to_string()),
                own_headers(&error.to_string())
            )
        }
        Err(panic) => {
            let text = panic
                .downcast_ref::<String>()
                .cloned()
                .or_else(|| panic.downcast_ref::<&str>().map(|text| (*text).to_string()))
                .unwrap_or_default();
            // What could not be opened is worth knowing; the list of file names that were looked for is not.
            let what = match text.find("the `libclang` shared library at ") {
                Some(at) => one_line(text[at..].trim_end_matches(['"', ')'])),
                None if text.contains("libclang") => "no libclang is found".to_string(),
                None => one_line(&text),
            };
            let set = match std::env::var("LIBCLANG_PATH") {
                Ok(path) => format!(" (LIBCLANG_PATH is '{path}', and nothing else is looked at)"),
                Err(_) => String::new(),
            };
            format!(
                "{subject} cannot be read: {what}{set}. Install libclang (Debian: apt-get install libclang-dev; Fedora: clang-devel), \
                 or say LIBCLANG_PATH=DIRECTORY where libclang.so is; scripts/bootstrap build does it on Debian and Ubuntu"
            )
        }
    };
    println!("cargo::error={problem}");
}

/// Headers of clang's own are in libclang-dev too, and libclang is found without them.
fn own_headers(error: &str) -> &'static str {
    if error.contains("file not found") {
        ". A header of the system or of clang is missing (Debian: apt-get install libc6-dev libclang-dev)"
    } else {
        ""
    }
}

fn one_line(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}
