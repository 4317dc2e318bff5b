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
  libra web --socket /run/libra-web/ann/socket --user-header X-Remote-User --proxy-user www-data
  sudo libra web --overview

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

    /// Listen on a socket in the file system, which only you can open (with --proxy-user that user's programs too)
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

    /// The path that all pages are below, for a proxy that passes paths on as they are
    #[arg(long, value_name = "PATH", default_value = "/")]
    pub base: String,

    /// Let in whom a proxy names in this header, without a token; with --socket only, and only the user who runs the page
    #[arg(long, value_name = "HEADER")]
    pub user_header: Option<String>,

    /// The user that the proxy runs as, where that is another one than you
    #[arg(long, value_name = "USER", requires = "user_header")]
    pub proxy_user: Option<String>,

    /// All jobs, nodes and promises of the site, as far as you may see them, to be read and not to be changed
    #[arg(long)]
    pub overview: bool,

    /// Let members of this group see the overview too, whom the proxy names
    #[arg(
        long,
        value_name = "GROUP",
        requires = "overview",
        requires = "user_header"
    )]
    pub viewers: Option<String>,

    /// End when standard input does, for whoever starts it by a program
    #[arg(long)]
    pub end_with_input: bool,

    /// The directory in which the site's metrics are, for what became of jobs over time
    #[arg(long, value_name = "DIR")]
    pub metrics: Option<PathBuf>,
}
