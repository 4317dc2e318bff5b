//! A connection string of PostgreSQL, as far as it has to be understood here: whether there is a secret in it, and which host it names.
//!
//! libpq reads two forms: `host=db dbname=libra user=slurm`, with values in single quotes where they have blanks, and
//! `postgresql://slurm@db/libra?connect_timeout=2`.

/// Keys whose values nobody but the owner may read.
const SECRETS: [&str; 3] = ["password", "sslpassword", "oauth_client_secret"];

/// Keys and values.
type Pairs = Vec<(String, String)>;

/// Checks it for `accounts.database`.
///
/// # Errors
/// Where it has a secret in it, or is no such string. What is said does not repeat the secret.
pub(crate) fn check(string: &str) -> Result<(), String> {
    if string.chars().any(char::is_control) {
        return Err(
            "accounts.database has a control character in it, expected a connection string such as 'host=db dbname=libra user=slurm'"
                .to_string(),
        );
    }
    let pairs = pairs(string).ok_or_else(|| {
        "accounts.database is no connection string, expected '' or one such as 'host=db dbname=libra user=slurm'".to_string()
    })?;
    match pairs
        .iter()
        .find(|(key, _)| SECRETS.contains(&key.as_str()))
    {
        Some((key, _)) => Err(format!(
            "accounts.database has a {key} in it, and everybody can read this file: leave it out, and let libpq have it from a file of the \
             ledger's owner alone (passfile=/etc/libra/pgpass, mode 0600), or use peer or certificate authentication"
        )),
        None => Ok(()),
    }
}

/// Returns true if a connection string leads to a server of this host alone: by a socket of it, or its own address.
pub fn is_on_this_host(string: &str) -> bool {
    let pairs = pairs(string).unwrap_or_default();
    let mut hosts = (pairs.iter())
        .filter(|(key, _)| key == "hostaddr" || key == "host")
        .flat_map(|(_, value)| value.split(','));
    hosts.all(|host| {
        host.is_empty()
            || host.starts_with(['/', '@'])
            || ["localhost", "127.0.0.1", "::1"].contains(&host)
    }) && !pairs.iter().any(|(key, _)| key == "service")
}

fn pairs(string: &str) -> Option<Pairs> {
    for scheme in ["postgresql://", "postgres://"] {
        if let Some(rest) = string.strip_prefix(scheme) {
            return of_uri(rest);
        }
    }
    of_words(string)
}

/// `user:password@host:port,host/dbname?key=value&key=value`
fn of_uri(rest: &str) -> Option<Pairs> {
    let (place, parameters) = rest.split_once('?').unwrap_or((rest, ""));
    let authority = place.split('/').next().unwrap_or_default();
    let (who, hosts) = authority.rsplit_once('@').unwrap_or(("", authority));
    let mut pairs = Pairs::new();
    if let Some((_, password)) = who.split_once(':') {
        pairs.push(("password".to_string(), password.to_string()));
    }
    let without_port = |host: &str| match host.strip_prefix('[') {
        Some(address) => address.split(']').next().unwrap_or_default().to_string(),
        None => decoded(host.split(':').next().unwrap_or_default()),
    };
    let hosts: Vec<String> = hosts.split(',').map(without_port).collect();
    pairs.push(("host".to_string(), hosts.join(",")));
    for parameter in parameters.split('&').filter(|one| !one.is_empty()) {
        let (key, value) = parameter.split_once('=')?;
        pairs.push((decoded(key), decoded(value)));
    }
    Some(pairs)
}

/// `%70` is `p`.
fn decoded(text: &str) -> String {
    let mut bytes = Vec::new();
    let mut rest = text.as_bytes();
    while let [first, others @ ..] = rest {
        let digits = others
            .get(..2)
            .and_then(|two| std::str::from_utf8(two).ok());
        let code = digits.and_then(|two| u8::from_str_radix(two, 16).ok());
        match (first, code) {
            (b'%', Some(code)) => {
                bytes.push(code);
                rest = &others[2..];
            }
            _ => {
                bytes.push(*first);
                rest = others;
            }
        }
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

/// `key = value key='a value'`, with a backslash ahead of what means itself.
fn of_words(string: &str) -> Option<Pairs> {
    let mut pairs = Pairs::new();
    let mut rest = string.trim_start();
    while !rest.is_empty() {
        let (key, behind) = rest.split_once('=')?;
        let key = key.trim_end();
        if key.is_empty() || key.contains(char::is_whitespace) {
            return None;
        }
        let behind = behind.trim_start();
        let (quoted, mut behind) = match behind.strip_prefix('\'') {
            Some(inside) => (true, inside.chars()),
            None => (false, behind.chars()),
        };
        let mut value = String::new();
        loop {
            match behind.next() {
                Some('\\') => value.extend(behind.next()),
                Some('\'') if quoted => break,
                Some(blank) if blank.is_whitespace() && !quoted => break,
                Some(other) => value.push(other),
                None if quoted => return None,
                None => break,
            }
        }
        pairs.push((key.to_string(), value));
        rest = behind.as_str().trim_start();
    }
    Some(pairs)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_secret_is_refused_however_it_is_written_and_not_repeated() {
        for string in [
            "host=db password=geheim",
            "host = db  password = \'ge\\\'heim geheim\'",
            "password=geheim",
            "sslpassword=geheim",
            "postgresql://slurm:geheim@db/libra",
            "postgres://db/libra?password=geheim",
            "postgres://db/libra?a=b&pass%77ord=geheim",
        ] {
            let said = check(string).expect_err(string);
            assert!(
                !said.contains("geheim") && said.contains("passfile"),
                "{said}"
            );
        }
        for string in [
            "",
            "host=db dbname=libra user=slurm",
            "dbname = \'password=x\' user=a\\ b",
            "postgresql://slurm@db:5432/libra?sslmode=verify-full",
        ] {
            assert_eq!(check(string), Ok(()), "{string}");
        }
        for string in [
            "libra",
            "=x",
            "a b=c",
            "host=\'db",
            "host=db\nuser=x",
            "postgres://db/l?x",
        ] {
            assert!(check(string).is_err(), "{string}");
        }
    }

    #[test]
    fn a_server_of_this_host_is_told_from_others() {
        for string in [
            "dbname=libra",
            "host=/run/postgresql",
            "host=localhost",
            "postgresql:///libra",
            "postgresql://[::1]:5432/x",
            "postgresql://%2Frun%2Fpostgresql/x",
        ] {
            assert!(is_on_this_host(string), "{string}");
        }
        for string in [
            "host=db",
            "host=/run/postgresql,db",
            "postgresql://db/x",
            "hostaddr=10.0.0.1",
            "service=libra",
        ] {
            assert!(!is_on_this_host(string), "{string}");
        }
    }
}
