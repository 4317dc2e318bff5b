//! `libra cancel`

use super::args::{Args, CancelArgs};
use super::{Done, exit, load_config};
use libra::host::Host;
use std::process::ExitCode;

pub fn cancel(cancel: &CancelArgs, args: &Args) -> Done {
    let host = Host::open(load_config(args)?)?;
    let mut code = ExitCode::SUCCESS;
    for id in &cancel.jobs {
        match host.cancel(id) {
            Ok(()) if args.json => println!("{}", serde_json::json!({"cancelled": id})),
            Ok(()) => println!("job {id} cancelled"),
            Err(error) => {
                // The others are still to be cancelled.
                eprintln!("libra: {error}");
                code = ExitCode::from(exit::FAILED);
            }
        }
    }
    Ok(code)
}
