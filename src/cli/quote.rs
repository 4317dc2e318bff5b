//! `libra quote`

use super::args::{Args, QuoteArgs};
use super::{Done, answer, exit, load_config, show, terms};
use libra::host::Host;

pub fn quote(quote: &QuoteArgs, args: &Args) -> Done {
    let request = terms::request(&quote.terms)?;
    let host = Host::open(load_config(args)?)?;
    let (text, code) = match host.quote(&request)? {
        Ok(terms) if args.json => {
            let mut json = show::terms_json(&host, &request, &terms);
            json["unenforced"] = host.unenforced().into();
            (format!("{json}\n"), 0)
        }
        Ok(terms) => {
            let mut text = format!("accepted: {}\n", show::terms(&host, &request, &terms));
            if let Some(reason) = host.unenforced() {
                text += &format!("warning: its share would NOT be enforced: {reason}\n");
            }
            (text, 0)
        }
        Err(refusal) if args.json => {
            let json = show::refusal_json(&host, &refusal);
            (format!("{json}\n"), exit::REFUSED)
        }
        Err(refusal) => {
            let text = show::refusal(&host, &refusal).join("\n");
            (text + "\n", exit::REFUSED)
        }
    };
    answer(&text, code)
}
