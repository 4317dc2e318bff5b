//! A ledger in a PostgreSQL database, in a schema `libra` of its own.
//!
//! Invariants:
//! - Who writes down has a lock on the row of the generation until the end of the transaction, so that writers come one after the other, and
//!   what they read of identity, generation and number of the last entry is so when their entries are there.
//! - One host admits at a time: see [`super::lease`].
//! - A connection that was lost is made again at the next question, but not in the middle of a transaction; and it is the same ledger then.

use super::super::AccountsError;
use super::super::crash::point;
use super::super::identity::Identity;
use super::super::movement::{Event, Movement};
use super::values::{Columns, EachRow, Value};
use super::{PATIENCE, VERSION, WRITTEN};
use libra_system::postgres::{Field, Parameter, Postgres, PostgresError};
use rusqlite::{Connection, params_from_iter};
use serde_json::json;
use std::cell::{Cell, RefCell};
use std::time::{Duration, Instant};

/// One statement each. `user` is a word of SQL's: it stands in quotes.
const SCHEMA: [&str; 14] = [
    "CREATE SCHEMA libra",
    "CREATE TABLE libra.meta(key text PRIMARY KEY, value bigint NOT NULL)",
    "CREATE TABLE libra.account(id bigint PRIMARY KEY, name text NOT NULL UNIQUE, overdraft bigint, closed bigint NOT NULL)",
    "CREATE TABLE libra.member(account bigint NOT NULL, \"user\" text NOT NULL, PRIMARY KEY(account, \"user\"))",
    "CREATE TABLE libra.lot(id bigint PRIMARY KEY, begins bigint, ends bigint)",
    "CREATE TABLE libra.job(hold text PRIMARY KEY, id text NOT NULL)",
    "CREATE TABLE libra.movement(
       id bigint PRIMARY KEY, at bigint NOT NULL, kind text NOT NULL,
       payer bigint NOT NULL, payer_side text NOT NULL, payee bigint NOT NULL, payee_side text NOT NULL,
       lot bigint NOT NULL, amount bigint NOT NULL CHECK(amount > 0),
       hold text, part bigint NOT NULL, by text NOT NULL, note text NOT NULL)",
    "CREATE INDEX movement_payer ON libra.movement(payer, id)",
    "CREATE INDEX movement_payee ON libra.movement(payee, id)",
    "CREATE TABLE libra.change(id bigint PRIMARY KEY, at bigint NOT NULL, by text NOT NULL, what text NOT NULL)",
    // Who admits: of which generation, until when by this server's clock (Unix milliseconds), and on which host; who waits to take it over.
    "CREATE TABLE libra.lease(one boolean PRIMARY KEY DEFAULT true CHECK(one), generation bigint NOT NULL, until bigint NOT NULL,
       holder text NOT NULL, host text NOT NULL, next text NOT NULL)",
    "CREATE FUNCTION libra.movements_stay() RETURNS trigger LANGUAGE plpgsql AS
       $$ BEGIN RAISE EXCEPTION 'movements are never changed or removed'; END $$",
    "CREATE TRIGGER movement_stays BEFORE UPDATE OR DELETE OR TRUNCATE ON libra.movement
       FOR EACH STATEMENT EXECUTE PROCEDURE libra.movements_stay()",
    "INSERT INTO libra.account VALUES (1, 'site:bank', NULL, 0), (2, 'site:income', NULL, 0)",
];

/// What each session begins with. A process that was stopped in a transaction keeps its locks no longer than five seconds. Written down means on
/// the disk.
const SESSION: &str = "SET search_path TO pg_catalog, libra, pg_temp;
    SET idle_in_transaction_session_timeout = '5s';
    SELECT set_config('synchronous_commit', 'on', false) WHERE current_setting('synchronous_commit') IN ('off', 'local', 'remote_write');
    SELECT to_regclass('libra.meta') IS NOT NULL, pg_is_in_recovery(), current_setting('server_encoding')";

/// Locks out other writers.
const LOCK: &str = "BEGIN ISOLATION LEVEL READ COMMITTED READ WRITE; SELECT value FROM meta WHERE key = 'generation' FOR UPDATE";

/// So long for what goes through all movements together. Nobody waits for it who admits: a thread of its own makes a live state for those.
pub(in super::super) const LONG: Duration = Duration::from_secs(120);

/// An opened database.
pub(super) struct LedgerDatabase {
    string: String,
    patience: Duration,
    session: RefCell<Option<Postgres>>,
    in_transaction: Cell<bool>,
    /// All questions together have until then; none: each has `patience`.
    until: Cell<Option<Instant>>,
    /// Which ledger it is, since it was opened.
    identity: Cell<Option<i64>>,
}

/// What a session finds.
struct Found {
    ledger: bool,
    standby: bool,
    encoding: String,
}

impl LedgerDatabase {
    /// Makes the tables, all or none.
    pub fn make(string: &str, identity: Identity) -> Result<(), AccountsError> {
        let database = LedgerDatabase::closed(string, PATIENCE);
        let found = database.begin_session(PATIENCE)?;
        if found.ledger {
            return Err(database.lost("has a schema 'libra' already".to_string()));
        }
        if found.encoding != "UTF8" {
            return Err(database.lost(format!(
                "its encoding is {}; expected a database with UTF8: createdb --encoding=UTF8 --template=template0",
                found.encoding
            )));
        }
        point("make: before the file");
        database.in_transaction("BEGIN ISOLATION LEVEL READ COMMITTED READ WRITE", || {
            for statement in SCHEMA {
                database.run(statement, &[])?;
            }
            for (key, value) in [
                ("identity", Some(identity.number)),
                ("created", identity.created),
                ("generation", Some(0)),
                ("version", Some(VERSION)),
            ] {
                if let Some(value) = value {
                    let row = [key.into(), value.into()];
                    database.run("INSERT INTO libra.meta VALUES (?1, ?2)", &row)?;
                }
            }
            database.run(
                "INSERT INTO libra.lease(generation, until, holder, host, next) VALUES (0, 0, '', '', '')",
                &[],
            )?;
            point("make: before commit");
            Ok(())
        })?;
        point("make: after commit");
        Ok(())
    }

    /// Returns true if there are tables of a ledger, whichever.
    pub fn is_made(string: &str) -> Result<bool, AccountsError> {
        let database = LedgerDatabase::closed(string, PATIENCE);
        Ok(database.begin_session(PATIENCE)?.ledger)
    }

    /// Opens it, whichever ledger it is. All that is asked until [`LedgerDatabase::limit`] says otherwise has `patience` together.
    pub fn open(string: &str, patience: Duration) -> Result<LedgerDatabase, AccountsError> {
        let database = LedgerDatabase::closed(string, patience);
        database.limit(Some(patience));
        database.connected(patience)?;
        let mut version = None;
        let of = "SELECT value FROM meta WHERE key = 'version'";
        database.each(of, &[], &mut |row| {
            version = Some(row.integer(0)?);
            Ok(())
        })?;
        match version {
            Some(VERSION) => Ok(database),
            None => Err(database.lost("has nothing of a ledger in it".to_string())),
            Some(other) => Err(database.lost(super::of_version(other))),
        }
    }

    fn closed(string: &str, patience: Duration) -> LedgerDatabase {
        LedgerDatabase {
            string: string.to_string(),
            patience,
            session: RefCell::new(None),
            in_transaction: Cell::new(false),
            until: Cell::new(None),
            identity: Cell::new(None),
        }
    }

    /// All that is asked from now on has so long together; none: each question has its own patience.
    pub fn limit(&self, time: Option<Duration>) {
        self.until.set(time.map(|time| Instant::now() + time));
    }

    /// How long the next question may take.
    fn time(&self) -> Duration {
        match self.until.get() {
            Some(until) => until.saturating_duration_since(Instant::now()),
            None => self.patience,
        }
    }

    /// The connection string.
    pub fn string(&self) -> &str {
        &self.string
    }

    pub fn lost(&self, problem: String) -> AccountsError {
        AccountsError::Database {
            database: self.string.clone(),
            problem,
        }
    }

    /// What the library or the server said.
    fn said(&self, error: &PostgresError) -> AccountsError {
        let may_not = matches!(error, PostgresError::Refused { state, .. } if state == "42501");
        let problem = match may_not {
            true => format!(
                "{error}: its role has to own the database, or all that is in its schema 'libra' (GRANT, ALTER … OWNER TO)"
            ),
            false => error.to_string(),
        };
        match error.is_away() || may_not {
            true => AccountsError::Unreachable {
                database: self.string.clone(),
                problem,
            },
            false => self.lost(problem),
        }
    }

    /// Connects anew.
    fn begin_session(&self, time: Duration) -> Result<Found, AccountsError> {
        let began = Instant::now();
        let begun = Postgres::connect(&self.string, time).and_then(|mut session| {
            let mut found = None;
            let left = time.saturating_sub(began.elapsed());
            session.ask(SESSION, &[], left, &mut |row| {
                if let [ledger, standby, Some(encoding)] = row {
                    found = Some(Found {
                        ledger: *ledger == Some("t"),
                        standby: *standby == Some("t"),
                        encoding: encoding.to_string(),
                    });
                }
                true
            })?;
            Ok((session, found))
        });
        let (session, found) = begun.map_err(|error| self.said(&error))?;
        let found = found.ok_or_else(|| self.lost("is no PostgreSQL".to_string()))?;
        if found.standby {
            return Err(AccountsError::Unreachable {
                database: self.string.clone(),
                problem: "its server is a standby, where nothing can be written".to_string(),
            });
        }
        *self.session.borrow_mut() = Some(session);
        Ok(found)
    }

    /// Sees to it that there is a session with a ledger, the one that was opened.
    fn connected(&self, time: Duration) -> Result<(), AccountsError> {
        if (self.session.borrow().as_ref()).is_some_and(|session| !session.is_given_up()) {
            return Ok(());
        }
        if self.in_transaction.get() {
            return Err(AccountsError::Unreachable {
                database: self.string.clone(),
                problem: "the connection was lost in a transaction".to_string(),
            });
        }
        if !self.begin_session(time)?.ledger {
            return Err(self.lost("there is no schema 'libra' with a ledger in it".to_string()));
        }
        let mut number = None;
        self.ask(IDENTITY, &[], time, &mut |row| {
            number = row
                .first()
                .copied()
                .flatten()
                .and_then(|text| text.parse().ok());
            true
        })?;
        match (self.identity.get(), number) {
            (Some(was), Some(is)) if was != is => {
                self.session.replace(None);
                Err(self.lost(format!("has become another ledger ({is:x})")))
            }
            _ => {
                self.identity.set(number);
                Ok(())
            }
        }
    }

    /// Asks the session that is there.
    fn ask(
        &self,
        statement: &str,
        parameters: &[Parameter],
        time: Duration,
        each: &mut dyn FnMut(&[Field<'_>]) -> bool,
    ) -> Result<(), AccountsError> {
        let asked = match self.session.try_borrow_mut() {
            Ok(mut session) => match session.as_mut() {
                Some(session) => session.ask(statement, parameters, time, each),
                None => Err(PostgresError::Lost("there is none".to_string())),
            },
            // Its answers are still being taken.
            Err(_) => Err(PostgresError::Lost("it is in use".to_string())),
        };
        asked.map_err(|error| self.said(&error))
    }

    /// See [`super::Ledger::each`].
    pub fn each(
        &self,
        statement: &str,
        parameters: &[Value],
        each: EachRow<'_>,
    ) -> Result<(), AccountsError> {
        let began = Instant::now();
        let patience = self.time();
        self.connected(patience)?;
        let parameters: Vec<Parameter> = parameters.iter().map(parameter).collect();
        let mut stopped = None;
        let left = patience.saturating_sub(began.elapsed());
        self.ask(&dialect(statement), &parameters, left, &mut |row| {
            let values = row.iter().map(|field| match field {
                None => Value::Null,
                Some(text) => Value::Text(text.to_string()),
            });
            let taken = each(&Columns(values.collect()));
            stopped = taken.err();
            stopped.is_none()
        })?;
        match stopped {
            None => Ok(()),
            Some(error) => Err(self.lost(format!("an answer of it is not as expected ({error})"))),
        }
    }

    /// Without an answer.
    fn run(&self, statement: &str, parameters: &[Value]) -> Result<(), AccountsError> {
        self.each(statement, parameters, &mut |_| Ok(()))
    }

    /// See [`super::Ledger::exclusively`].
    pub fn exclusively<T>(
        &self,
        what: impl FnOnce() -> Result<T, AccountsError>,
    ) -> Result<T, AccountsError> {
        self.in_transaction(LOCK, what)
    }

    /// See [`super::Ledger::at_one_moment`].
    pub fn at_one_moment<T>(
        &self,
        what: impl FnOnce() -> Result<T, AccountsError>,
    ) -> Result<T, AccountsError> {
        let until = self.until.replace(Some(Instant::now() + LONG));
        let done = self.in_transaction("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY", what);
        self.until.set(until);
        done
    }

    fn in_transaction<T>(
        &self,
        begin: &str,
        what: impl FnOnce() -> Result<T, AccountsError>,
    ) -> Result<T, AccountsError> {
        // Undone where it is dropped.
        let transaction = Undo(self);
        self.run(begin, &[])?;
        self.in_transaction.set(true);
        let done = what()?;
        self.run("COMMIT", &[])?;
        std::mem::forget(transaction);
        self.in_transaction.set(false);
        Ok(done)
    }

    /// See [`super::Ledger::write`].
    pub fn write(&self, entries: &[(i64, Event)]) -> Result<(), AccountsError> {
        let mut written = i64::MAX;
        self.each(WRITTEN, &[], &mut |row| {
            written = row.integer(0)?;
            Ok(())
        })?;
        let (mut movements, mut jobs) = (Vec::new(), Vec::new());
        // All movements and all jobs go in one question each, so that a network costs little. The order is of no matter but among changes of accounts.
        for (id, event) in entries.iter().filter(|(id, _)| *id > written) {
            match event {
                Event::Movement(m) => movements.push(movement(*id, m)),
                Event::Job { hold, id } => jobs.push(json!({"hold": text(hold), "id": text(id)})),
                Event::Lot {
                    id: lot,
                    begins,
                    ends,
                } => self.run(
                    "INSERT INTO lot VALUES (?1, ?2, ?3) ON CONFLICT DO NOTHING",
                    &[(*lot).into(), (*begins).into(), (*ends).into()],
                )?,
                Event::Account {
                    id: account,
                    name,
                    overdraft,
                    closed,
                    at,
                    by,
                } => {
                    self.run(
                        "INSERT INTO account VALUES (?1, ?2, ?3, ?4) ON CONFLICT(id) DO UPDATE SET overdraft = EXCLUDED.overdraft, closed = EXCLUDED.closed",
                        &[(*account).into(), name.as_str().into(), (*overdraft).into(), (*closed).into()],
                    )?;
                    self.note_change(*id, *at, by, event)?;
                }
                Event::Member {
                    account,
                    user,
                    may,
                    at,
                    by,
                } => {
                    let statement = match may {
                        true => "INSERT INTO member VALUES (?1, ?2) ON CONFLICT DO NOTHING",
                        false => "DELETE FROM member WHERE account = ?1 AND \"user\" = ?2",
                    };
                    self.run(statement, &[(*account).into(), user.as_str().into()])?;
                    self.note_change(*id, *at, by, event)?;
                }
            }
        }
        for (statement, rows) in [(MOVEMENTS, movements), (JOBS, jobs)] {
            if !rows.is_empty() {
                let rows = serde_json::Value::Array(rows).to_string();
                self.run(statement, &[rows.as_str().into()])?;
            }
        }
        if let Some((last, _)) = entries.last() {
            self.run(
                "INSERT INTO meta VALUES ('written', ?1) ON CONFLICT (key) DO UPDATE SET value = GREATEST(meta.value, EXCLUDED.value)",
                &[(*last).into()],
            )?;
        }
        Ok(())
    }

    fn note_change(&self, id: i64, at: i64, by: &str, event: &Event) -> Result<(), AccountsError> {
        let what = serde_json::to_string(event).unwrap_or_default();
        let row = [id.into(), at.into(), by.into(), what.as_str().into()];
        self.run("INSERT INTO change VALUES (?1, ?2, ?3, ?4)", &row)
    }

    /// See [`super::Ledger::copy`].
    pub fn copy(
        &self,
        to: &Connection,
        insert: &str,
        select: &str,
        parameters: &[Value],
    ) -> Result<(), AccountsError> {
        let mut failed = None;
        let select = select.replace("ledger.", "libra.");
        let copied = self.each(&select, parameters, &mut |row| {
            let places: Vec<String> = (1..=row.0.len()).map(|at| format!("?{at}")).collect();
            let insert = format!("{insert} VALUES ({})", places.join(", "));
            let inserted = to.prepare_cached(&insert);
            inserted
                .and_then(|mut insert| insert.execute(params_from_iter(&row.0)))
                .map(|_| ())
                .map_err(|error| {
                    failed = Some(error);
                    rusqlite::Error::InvalidQuery
                })
        });
        match failed {
            Some(error) => Err(super::of_live(to, self.patience, error)),
            None => copied,
        }
    }
}

/// Undoes a transaction when it is dropped, so that the connection is of use afterwards.
struct Undo<'a>(&'a LedgerDatabase);

impl Drop for Undo<'_> {
    fn drop(&mut self) {
        let session = self.0.session.try_borrow();
        let is_there = session
            .is_ok_and(|session| (session.as_ref()).is_some_and(|session| !session.is_given_up()));
        // Where it is not the server undoes it by itself.
        if is_there {
            let _ = self.0.run("ROLLBACK", &[]);
        }
        self.0.in_transaction.set(false);
    }
}

const IDENTITY: &str = "SELECT value FROM meta WHERE key = 'identity'";

const MOVEMENTS: &str = "INSERT INTO movement SELECT id, at, kind, payer, payer_side, payee, payee_side, lot, amount, hold, part, by, note
    FROM json_to_recordset(?1::json) AS m(id bigint, at bigint, kind text, payer bigint, payer_side text, payee bigint, payee_side text,
      lot bigint, amount bigint, hold text, part bigint, by text, note text)";

const JOBS: &str = "INSERT INTO job SELECT hold, id FROM json_to_recordset(?1::json) AS j(hold text, id text) ON CONFLICT DO NOTHING";

fn movement(id: i64, m: &Movement) -> serde_json::Value {
    json!({
        "id": id, "at": m.at, "kind": m.kind.name(),
        "payer": m.from.0, "payer_side": m.from.1.name(), "payee": m.to.0, "payee_side": m.to.1.name(),
        "lot": m.lot, "amount": m.amount.0, "hold": m.hold.as_deref().map(text), "part": m.part,
        "by": text(&m.by), "note": text(&m.note),
    })
}

/// PostgreSQL has no NUL in texts, and one entry that cannot be written down would keep all others from it.
fn text(text: &str) -> String {
    text.replace('\0', "\u{fffd}")
}

fn parameter(value: &Value) -> Parameter {
    match value {
        Value::Null => Parameter::Null,
        Value::Integer(number) => Parameter::Integer(*number),
        Value::Text(of) => Parameter::Text(text(of)),
    }
}

/// Parameters are `$1` there. No statement has a question mark for anything else.
fn dialect(statement: &str) -> String {
    statement.replace('?', "$")
}
