//! Who is let in where a proxy has logged the user in: what it says in a header of every request.
//!
//! Anybody can write a header. So it is believed of a request alone that came by the socket in the file system, from a process of the user's or of
//! the one who runs the proxy: the kernel says which user is at the other end. Over TCP nobody is at the other end, and no header is believed.

use axum::http::header::{self, HeaderMap, HeaderName};
use nix::unistd::{Group, User, getgrouplist};
use std::collections::BTreeMap;
use std::ffi::CString;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// So long it is known who belongs to a group: who is taken out of it is out of the page then.
const KNOWN: Duration = Duration::from_secs(60);

/// Users of whom that is known.
const MOST_KNOWN: usize = 1000;

/// The user at the other end of a socket, as the kernel knows it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Peer(pub u32);

/// A proxy that logs users in.
#[derive(Debug, Clone)]
pub struct Proxy {
    /// The header in which it names the user.
    header: HeaderName,
    /// The user whose page this is.
    user: String,
    /// Users whose processes are believed, by number: this one, and who runs the proxy.
    trusted: Vec<u32>,
    /// Who else may see it; None: nobody.
    viewers: Option<Arc<Viewers>>,
}

/// Members of a group, as this machine knows them.
#[derive(Debug)]
pub struct Viewers {
    group: String,
    known: Mutex<BTreeMap<String, (Instant, bool)>>,
}

impl Viewers {
    /// Members of a group of this name.
    pub fn of(group: &str) -> Viewers {
        Viewers {
            group: group.to_string(),
            known: Mutex::new(BTreeMap::new()),
        }
    }

    /// Whether a user belongs to it, as far as that is known.
    fn has(&self, user: &str) -> Option<bool> {
        let known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        let (at, is_member) = known.get(user)?;
        (at.elapsed() < KNOWN).then_some(*is_member)
    }

    /// Finds that out. A directory service may take its time.
    fn ask(&self, user: &str) {
        let is_member = is_member(user, &self.group);
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        if known.len() >= MOST_KNOWN {
            known.clear();
        }
        known.insert(user.to_string(), (Instant::now(), is_member));
    }
}

/// Returns true if a user of this machine belongs to a group of it, by the first or any other of the user's groups.
fn is_member(user: &str, group: &str) -> bool {
    let (Ok(Some(found)), Ok(Some(group)), Ok(name)) = (
        User::from_name(user),
        Group::from_name(group),
        CString::new(user),
    ) else {
        return false;
    };
    getgrouplist(&name, found.gid).is_ok_and(|groups| groups.contains(&group.gid))
}

/// Headers that say something else, and that browsers write.
const TAKEN: [HeaderName; 8] = [
    header::HOST,
    header::ORIGIN,
    header::COOKIE,
    header::CONTENT_TYPE,
    header::CONTENT_LENGTH,
    header::CONNECTION,
    header::REFERER,
    header::USER_AGENT,
];

impl Proxy {
    /// `header`: where the proxy names the user. `user`: whose page this is, by name. `trusted`: numbers of the users whose processes are believed.
    ///
    /// # Errors
    /// This cannot be the header.
    pub fn new(header: &str, user: String, trusted: Vec<u32>) -> Result<Proxy, String> {
        let name = HeaderName::from_bytes(header.as_bytes())
            .ok()
            .filter(|name| !TAKEN.contains(name));
        let header = name.ok_or_else(|| {
            format!("'{header}': expected the name of a header that the proxy writes and browsers do not, such as X-Remote-User")
        })?;
        Ok(Proxy {
            header,
            user,
            trusted,
            viewers: None,
        })
    }

    /// Lets members of a group in as well.
    #[must_use]
    pub fn with_viewers(mut self, viewers: Option<Viewers>) -> Proxy {
        self.viewers = viewers.map(Arc::new);
        self
    }

    /// Finds out what [`Proxy::check`] has to know of who is named.
    pub async fn ask_for(&self, peer: Option<Peer>, headers: &HeaderMap) {
        let (Some(viewers), Some(_)) = (
            &self.viewers,
            peer.filter(|peer| self.trusted.contains(&peer.0)),
        ) else {
            return;
        };
        let named = headers
            .get(&self.header)
            .and_then(|value| value.to_str().ok());
        let Some(name) = named.filter(|name| *name != self.user && viewers.has(name).is_none())
        else {
            return;
        };
        let (viewers, name) = (Arc::clone(viewers), name.to_string());
        // One that fails is not known to belong to it.
        let _ = tokio::task::spawn_blocking(move || viewers.ask(&name)).await;
    }

    /// Returns true if who is named may come in.
    fn lets_in(&self, named: &[u8]) -> bool {
        let named = std::str::from_utf8(named).unwrap_or_default();
        let viewers = self.viewers.as_ref();
        named == self.user || viewers.is_some_and(|viewers| viewers.has(named) == Some(true))
    }

    /// Returns true if others than the user's own processes are believed.
    pub fn is_others(&self, own: u32) -> bool {
        self.trusted.iter().any(|uid| *uid != own)
    }

    /// Lets a request in, or says why not. `peer`: who is at the other end of the socket; None over TCP.
    ///
    /// # Errors
    /// A title and what to do.
    pub fn check(
        &self,
        peer: Option<Peer>,
        headers: &HeaderMap,
    ) -> Result<(), (&'static str, String)> {
        let name = &self.header;
        match peer {
            None => {
                let text = format!(
                    "Who is named by '{name}' is believed over a socket in the file system, never over TCP, where any program can write it."
                );
                return Err(("Not by this way", text));
            }
            Some(Peer(uid)) if !self.trusted.contains(&uid) => {
                let text = format!(
                    "This came from a process of user number {uid}, which does not speak for the proxy. Start 'libra web' with --proxy-user and \
                     the user that the proxy runs as."
                );
                return Err(("Not from this user", text));
            }
            Some(_) => {}
        }
        let mut said = headers.get_all(name).iter();
        match (said.next(), said.next()) {
            (Some(value), None) if self.lets_in(value.as_bytes()) => Ok(()),
            (Some(value), None) => {
                let you = value.to_str().unwrap_or("somebody else");
                let whose = match &self.viewers {
                    None => format!("This is the page of {}", self.user),
                    Some(viewers) => format!(
                        "This page is for {} and members of the group {}",
                        self.user, viewers.group
                    ),
                };
                let what = match self.viewers {
                    None => "Open your own.",
                    Some(_) => "Whoever runs this site says who belongs to that group.",
                };
                let text =
                    format!("{whose}, and the proxy says by '{name}' that you are {you}. {what}");
                Err(("Not your page", text))
            }
            (None, _) => {
                let text = format!(
                    "The proxy does not say by '{name}' who you are. It has to log its users in before it passes requests on, and to set that header \
                     (--user-header names it)."
                );
                Err(("Nobody is logged in", text))
            }
            _ => {
                let text = format!(
                    "'{name}' is there twice. The proxy has to set it in place of what a browser sends, not beside it."
                );
                Err(("Who is it?", text))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn proxy() -> Proxy {
        Proxy::new("X-Remote-User", "ann".to_string(), vec![1000, 33]).expect("a header")
    }

    fn named(users: &[&str]) -> HeaderMap {
        let mut map = HeaderMap::new();
        for user in users {
            map.append("x-remote-user", user.parse().expect("a value"));
        }
        map
    }

    #[test]
    fn only_the_user_that_the_proxy_names_over_the_socket_comes_in() {
        let proxy = proxy();
        for uid in [1000, 33] {
            assert_eq!(proxy.check(Some(Peer(uid)), &named(&["ann"])), Ok(()));
        }
        let ann = named(&["ann"]);
        for (peer, headers, title) in [
            (None, ann.clone(), "Not by this way"),
            (Some(Peer(1001)), ann.clone(), "Not from this user"),
            (Some(Peer(0)), ann, "Not from this user"),
            (Some(Peer(33)), named(&[]), "Nobody is logged in"),
            (Some(Peer(33)), named(&["bob"]), "Not your page"),
            (Some(Peer(33)), named(&[""]), "Not your page"),
            (Some(Peer(33)), named(&["ann,bob"]), "Not your page"),
            (Some(Peer(33)), named(&["Ann"]), "Not your page"),
            (Some(Peer(33)), named(&["ann", "ann"]), "Who is it?"),
            (Some(Peer(33)), named(&["bob", "ann"]), "Who is it?"),
        ] {
            let said = proxy.check(peer, &headers).expect_err(title);
            assert_eq!(said.0, title, "{said:?}");
        }
    }

    #[tokio::test]
    async fn members_of_the_group_come_in_where_one_is_named() {
        let me = User::from_uid(nix::unistd::getuid())
            .expect("users")
            .expect("a user");
        let group = Group::from_gid(me.gid).expect("groups").expect("a group");
        let with = |group: &str| {
            let proxy =
                Proxy::new("X-Remote-User", "ann".to_string(), vec![1000]).expect("a header");
            proxy.with_viewers(Some(Viewers::of(group)))
        };
        let proxy = with(&group.name);
        let headers = named(&[&me.name]);
        let peer = Some(Peer(1000));
        assert!(proxy.check(peer, &headers).is_err(), "nobody has asked yet");
        proxy.ask_for(Some(Peer(1001)), &headers).await;
        assert!(proxy.check(peer, &headers).is_err(), "nor for a stranger");
        proxy.ask_for(peer, &headers).await;
        assert_eq!(proxy.check(peer, &headers), Ok(()));
        assert_eq!(
            proxy.check(None, &headers).expect_err("TCP").0,
            "Not by this way"
        );
        let other = named(&["no-such-user"]);
        proxy.ask_for(peer, &other).await;
        let (_, text) = proxy.check(peer, &other).expect_err("a stranger");
        assert!(
            text.contains(&format!("members of the group {}", group.name)),
            "{text}"
        );
        let proxy = with("no such group");
        proxy.ask_for(peer, &headers).await;
        assert!(proxy.check(peer, &headers).is_err());
        assert_eq!(proxy.check(peer, &named(&["ann"])), Ok(()));
    }

    #[test]
    fn a_header_of_browsers_cannot_name_the_user() {
        for bad in ["", "a b", "Host", "cookie", "Origin", "x-user\r\n", "x:y"] {
            let made = Proxy::new(bad, "ann".to_string(), Vec::new());
            assert!(
                made.expect_err(bad).contains("such as X-Remote-User"),
                "{bad}"
            );
        }
        assert!(proxy().is_others(1000));
        let own = Proxy::new("x-u", "ann".to_string(), vec![1000]).expect("a header");
        assert!(!own.is_others(1000));
    }
}
