//! One host, one admitting side: what happens where several installations share out the same processors.
//!
//! The registry of root is the host's. An ordinary user's own (`$XDG_RUNTIME_DIR/libra`) serves on a host without one, for one
//! user at a time: nobody can see into another's, so two of them would promise the same processors twice. Who admits says so by a
//! socket without a file, which goes when its process ends and which everybody can see in `/proc/net/unix`.
//!
//! Another user could make such a socket without admitting anything, and keep others from theirs; that is as if they had used the
//! processors, which they can as well. Root looks at no such socket.

use super::entry::Entry;
use super::registry::Registry;
use super::{Host, HostError};
use libra_accounts::names::user_name;
use std::fs;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixListener};
use std::path::Path;
use std::sync::OnceLock;

/// The registry of the host.
pub(super) const OF_THE_HOST: &str = "/run/libra";
const NAME: &str = "libra-admission-";

/// Held until this process ends.
static SAID: OnceLock<UnixListener> = OnceLock::new();

impl Host {
    /// Refuses to promise processors that another installation promises. An administrator who names a directory of the registry
    /// decides that himself.
    pub(super) fn be_the_only_admitter(&self) -> Result<(), HostError> {
        let user = nix::unistd::geteuid();
        if user.is_root() || self.config.registry.directory != "auto" {
            return Ok(());
        }
        if self.is_in_use(Path::new(OF_THE_HOST)) {
            return Err(HostError::OtherAdmitter(format!(
                "that of root ({OF_THE_HOST})"
            )));
        }
        if SAID.get().is_none() {
            let name = format!("{NAME}{user}-{}", std::process::id());
            let said = SocketAddr::from_abstract_name(name)
                .and_then(|address| UnixListener::bind_addr(&address));
            match said {
                Ok(socket) => drop(SAID.set(socket)),
                Err(error) => log::debug!("others do not see that jobs run here: {error}"),
            }
        }
        // Said before it is checked: of two who begin at once at least one sees the other.
        let sockets = fs::read_to_string("/proc/net/unix").unwrap_or_default();
        match others(&sockets, user.as_raw()).first() {
            Some(&other) => {
                let name = user_name(other).unwrap_or_else(|| other.to_string());
                Err(HostError::OtherAdmitter(format!("that of user {name}")))
            }
            None => Ok(()),
        }
    }
}

impl Host {
    /// Returns true if somebody shares out processors by the registry in this directory. An agent, or a `libra run` of more than a moment,
    /// has led there; or a job holds a share.
    fn is_in_use(&self, directory: &Path) -> bool {
        let live = || Registry::open(directory).and_then(|registry| registry.live());
        let holds = |entry: &Entry| entry.is_live() && entry.boot == self.boot;
        directory.join("leader").exists() || live().is_ok_and(|jobs| jobs.iter().any(holds))
    }
}

/// User numbers of others who admit, from the kernel's list of sockets.
fn others(sockets: &str, own: u32) -> Vec<u32> {
    let mut found: Vec<u32> = (sockets.lines())
        .filter_map(|line| line.rsplit_once('@')?.1.strip_prefix(NAME))
        .filter_map(|rest| rest.split('-').next()?.parse().ok())
        .filter(|user| *user != own)
        .collect();
    found.sort_unstable();
    found.dedup();
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn others_who_admit_are_seen() {
        let sockets = "Num       RefCount Protocol Flags    Type St Inode Path\n\
            0000000000000000: 00000002 00000000 00010000 0001 01 24 @libra-admission-1001-77\n\
            0000000000000000: 00000002 00000000 00010000 0001 01 25 @libra-admission-1000-78\n\
            0000000000000000: 00000002 00000000 00010000 0001 01 26 @libra-admission-1001-79\n\
            0000000000000000: 00000002 00000000 00010000 0001 01 27 /run/x@libra-admitting side\n\
            0000000000000000: 00000002 00000000 00010000 0001 01 28 @libra-admission-x-1\n\
            0000000000000000: 00000003 00000000 00000000 0001 03 29\n";
        assert_eq!(others(sockets, 1000), [1001]);
        assert_eq!(others(sockets, 7), [1000, 1001]);
        assert_eq!(others("", 7), Vec::<u32>::new());
    }

    #[test]
    fn the_kernel_shows_what_was_said() {
        let name = format!("{NAME}4294967294-{}", std::process::id());
        let address = SocketAddr::from_abstract_name(name).expect("a name");
        let _socket = UnixListener::bind_addr(&address).expect("free");
        let sockets = fs::read_to_string("/proc/net/unix").expect("readable");
        assert!(others(&sockets, 7).contains(&4_294_967_294), "{sockets}");
    }
}
