//! `libra quote`

use super::args::{Args, QuoteArgs};
use super::{Done, exit, load_config, show, terms};
use libra::host::Host;
use std::io::Write;
use std::process::ExitCode;

pub fn quote(quote: &QuoteArgs, args: &Args) -> Done {
    let request = terms::request(&quote.terms)?;
    let host = Host::open(load_config(args)?)?;
    let mut out = std::io::stdout().lock();
    match host.quote(&request)? {
        Ok(terms) => {
            if args.json {
                let mut json = show::terms_json(&host, &request, &terms);
                json["unenforced"] = host.unenforced().into();
                writeln!(out, "{json}")?;
            } else {
                writeln!(out, "accepted: {}", show::terms(&host, &request, &terms))?;
                if let Some(reason) = host.unenforced() {
                    writeln!(out, "warning: its share would NOT be enforced: {reason}")?;
                }
            }
            Ok(ExitCode::SUCCESS)
        }
        Err(refusal) => {
            if args.json {
                writeln!(out, "{}", show::refusal_json(&host, &refusal))?;
            } else {
                for line in show::refusal(&host, &refusal) {
                    writeln!(out, "{line}")?;
                }
            }
            Ok(ExitCode::from(exit::REFUSED))
        }
    }
}
