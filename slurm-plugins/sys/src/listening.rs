//! Whether slurmctld has begun to serve.
//!
//! A plugin is loaded before slurmctld has read its state, and while it reads slurm.conf once more its settings are zeros for a moment. A
//! request that is sent then divides by the number of its ports (`slurm_open_controller_conn`), and slurmctld is gone. It opens its port
//! after that.

use std::collections::HashSet;
use std::fs;

/// How `/proc/net/tcp` says that a socket waits for connections.
const LISTENS: &str = "0A";

/// Returns true if this process waits for connections at any port, or nobody can tell.
pub fn is_listening() -> bool {
    let Ok(files) = fs::read_dir("/proc/self/fd") else {
        return true;
    };
    let targets = files
        .flatten()
        .filter_map(|file| fs::read_link(file.path()).ok());
    let own: HashSet<String> =
        (targets.filter_map(|to| Some(socket(to.to_str()?)?.to_string()))).collect();
    let tables = ["/proc/self/net/tcp", "/proc/self/net/tcp6"];
    let tables: Vec<String> = tables.into_iter().flat_map(fs::read_to_string).collect();
    tables.is_empty()
        || tables
            .iter()
            .flat_map(|table| listening(table))
            .any(|inode| own.contains(inode))
}

/// The number of a socket, of `socket:[4711]`.
fn socket(target: &str) -> Option<&str> {
    target.strip_prefix("socket:[")?.strip_suffix(']')
}

/// The numbers of sockets that wait for connections.
fn listening(table: &str) -> impl Iterator<Item = &str> {
    let rows = table.lines().skip(1).map(str::split_whitespace);
    // Its state is the fourth word of a row, its number the tenth.
    rows.filter_map(|mut row| (row.nth(3)? == LISTENS).then(|| row.nth(5))?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::TcpListener;
    use std::os::fd::AsRawFd;

    #[test]
    fn a_row_says_what_listens() {
        let table = "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode\n   \
            0: 0100007F:1A85 00000000:0000 0A 00000000:00000000 00:00000000 00000000     0        0 4711 1 0 100 0 0 10 0\n   \
            1: 0100007F:1A85 0100007F:8000 01 00000000:00000000 00:00000000 00000000     0        0 4712 1 0 20 4 30 10 -1\n   2: cut";
        assert_eq!(listening(table).collect::<Vec<_>>(), ["4711"]);
    }

    #[test]
    fn a_socket_of_this_process_counts() {
        let open = TcpListener::bind("127.0.0.1:0").expect("a port");
        assert!(is_listening());
        let own = fs::read_link(format!("/proc/self/fd/{}", open.as_raw_fd())).expect("a socket");
        let own = socket(own.to_str().expect("text"))
            .expect("a number")
            .to_string();
        let table = || fs::read_to_string("/proc/self/net/tcp").expect("a table");
        assert!(listening(&table()).any(|inode| inode == own));
        drop(open);
        assert!(!listening(&table()).any(|inode| inode == own));
    }
}
