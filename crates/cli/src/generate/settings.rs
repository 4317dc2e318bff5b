//! libra.toml(5), made of the configuration's own table of settings: a key that is not in it is not read either.

use clap_mangen::roff::{Inline, Roff, bold, italic, roman};
use libra_config::settings::{Setting, about_values, settings};

const NAME: &str = "libra.toml";

const DESCRIPTION: &str = "The site's configuration of Libra, read by the program, by its agent, by the hooks of PBS and by Slurm's plugins. It is a file in TOML: \
sections in brackets, keys with values. A key that is not there has its default; one that is not known is an error that names its line. \
Without a file all keys have their defaults.";

const FILE: &str = "The file is the one that --config names, else $LIBRA_CONFIG, else /etc/libra/libra.toml. 'libra config check' reads one and says what it means on \
this host; 'libra config default' prints one with every key.";

/// The page, as roff.
pub fn page(source: &str) -> String {
    let mut roff = Roff::new();
    roff.control("TH", [NAME, "5", "", source, "Libra"]);
    roff.control("SH", ["NAME"]);
    roff.text([roman(format!("{NAME} - configuration of Libra"))]);
    roff.control("SH", ["DESCRIPTION"]);
    for paragraph in [DESCRIPTION, FILE] {
        roff.text([roman(paragraph)]);
        roff.control("PP", []);
    }
    for line in about_values()
        .into_iter()
        .filter(|line| line.starts_with("Durations"))
    {
        roff.text([roman(line)]);
    }
    let mut section = "";
    for setting in settings() {
        if setting.section != section {
            section = setting.section;
            roff.control("SH", [format!("[{section}]").as_str()]);
        }
        one(&setting, &mut roff);
    }
    roff.control("SH", ["FILES"]);
    roff.control("TP", []);
    roff.text([italic("/etc/libra/libra.toml")]);
    roff.text([roman("the site's configuration")]);
    roff.control("SH", ["SEE ALSO"]);
    roff.text([
        bold("libra"),
        roman("(1), "),
        bold("libra-config"),
        roman("(1)"),
    ]);
    roff.to_roff()
}

fn one(setting: &Setting, roff: &mut Roff) {
    roff.control("TP", []);
    let name: Vec<Inline> = vec![bold(setting.key), roman(format!(" = {}", setting.default))];
    roff.text(name);
    for line in &setting.meaning {
        // Lines of a list stay lines; what goes on from the line before goes on.
        if line.starts_with("  ") && !line.starts_with("    ") {
            roff.control("br", []);
        }
        roff.text([roman(line.trim_start())]);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_setting_is_on_the_page() {
        let page = page("libra 0");
        for setting in settings() {
            assert!(
                page.contains(&format!(".SH [{}]\n", setting.section)),
                "{page}"
            );
            let key = setting.key.replace('-', "\\-");
            assert!(
                page.contains(&format!("\\fB{key}\\fR = ")),
                "{}",
                setting.key
            );
        }
        assert!(
            page.starts_with(".ie") || page.contains(".TH libra.toml 5"),
            "{page}"
        );
    }
}
