//! What can be typed after `libra web`.

use clap::Args as ClapArgs;
use clap::builder::{PossibleValue, PossibleValuesParser};
use libra_page::system::{KINDS, Kind};
use std::net::SocketAddr;
use std::path::PathBuf;

const AFTER: &str = "\
Examples:
  libra web
  libra web --listen 127.0.0.1:8080 --idle 1h
  libra web --socket ~/.libra-web      # and elsewhere: ssh -L 8000:.libra-web HOST

Exit status:
  0    ended: Ctrl-C, SIGTERM, or nobody used it
  2    wrong arguments
  125  it could not listen there, or the batch system is not here

Files:
  ~/.local/state/libra/web  scripts, outputs and records of what was
                            submitted; $XDG_STATE_HOME/libra/web where
                            that is set";

/// Where jobs go, by their names.
fn systems() -> Vec<PossibleValue> {
    let named = |kind: &&Kind| PossibleValue::new(kind.name).help(kind.help);
    KINDS.iter().map(named).collect()
}

/// `libra web`
#[derive(Debug, ClapArgs)]
#[command(after_long_help = AFTER)]
pub struct WebArgs {
    /// Where to listen: a loopback address; port 0 is any that is free
    #[arg(
        long,
        value_name = "ADDRESS:PORT",
        default_value = "127.0.0.1:0",
        conflicts_with = "socket"
    )]
    pub listen: SocketAddr,

    /// Listen on a socket in the file system, which only you can open
    #[arg(long, value_name = "PATH")]
    pub socket: Option<PathBuf>,

    /// Where jobs go [default: found out]
    #[arg(long, value_name = "SYSTEM", value_parser = PossibleValuesParser::new(systems()))]
    pub system: Option<String>,

    /// End when nobody has used it for so long
    #[arg(long, value_name = "DURATION", default_value = "12h")]
    pub idle: String,

    /// A name by which it is reached through a proxy; may be given several times
    #[arg(long, value_name = "NAME")]
    pub host: Vec<String>,

    /// The directory in which the site's metrics are, for what became of jobs over time
    #[arg(long, value_name = "DIR")]
    pub metrics: Option<PathBuf>,
}
