//! What is in the rows that a ledger answers with, whatever keeps it, and what is asked with.

use rusqlite::types::{Null, ToSql, ToSqlOutput, ValueRef};
use rusqlite::{Connection, params_from_iter};

/// What is in a column, or stands for a parameter.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in super::super) enum Value {
    /// Nothing.
    Null,
    /// A number.
    Integer(i64),
    /// A text.
    Text(String),
}

impl From<i64> for Value {
    fn from(number: i64) -> Value {
        Value::Integer(number)
    }
}

impl From<Option<i64>> for Value {
    fn from(number: Option<i64>) -> Value {
        number.map_or(Value::Null, Value::Integer)
    }
}

impl From<bool> for Value {
    fn from(so: bool) -> Value {
        Value::Integer(so.into())
    }
}

impl From<&str> for Value {
    fn from(text: &str) -> Value {
        Value::Text(text.to_string())
    }
}

impl From<Option<&str>> for Value {
    fn from(text: Option<&str>) -> Value {
        text.map_or(Value::Null, Value::from)
    }
}

impl ToSql for Value {
    fn to_sql(&self) -> rusqlite::Result<ToSqlOutput<'_>> {
        match self {
            Value::Null => Null.to_sql(),
            Value::Integer(number) => number.to_sql(),
            Value::Text(text) => text.to_sql(),
        }
    }
}

/// One row.
pub(in super::super) struct Columns(pub Vec<Value>);

impl Columns {
    fn unexpected(&self, column: usize) -> rusqlite::Error {
        rusqlite::Error::InvalidColumnIndex(column)
    }

    /// A number.
    pub fn integer(&self, column: usize) -> rusqlite::Result<i64> {
        match self.0.get(column) {
            Some(Value::Integer(number)) => Ok(*number),
            // A database's answers are text.
            Some(Value::Text(digits)) => digits.parse().map_err(|_| self.unexpected(column)),
            _ => Err(self.unexpected(column)),
        }
    }

    /// A number, or none.
    pub fn maybe_integer(&self, column: usize) -> rusqlite::Result<Option<i64>> {
        match self.0.get(column) {
            Some(Value::Null) => Ok(None),
            _ => self.integer(column).map(Some),
        }
    }

    /// A text.
    pub fn text(&self, column: usize) -> rusqlite::Result<String> {
        match self.0.get(column) {
            Some(Value::Text(text)) => Ok(text.clone()),
            _ => Err(self.unexpected(column)),
        }
    }

    /// A text, or none.
    pub fn maybe_text(&self, column: usize) -> rusqlite::Result<Option<String>> {
        match self.0.get(column) {
            Some(Value::Null) => Ok(None),
            _ => self.text(column).map(Some),
        }
    }
}

/// What is done with each row.
pub(in super::super) type EachRow<'a> = &'a mut dyn FnMut(&Columns) -> rusqlite::Result<()>;

/// Asks SQLite, and has each row taken.
pub(in super::super) fn ask(
    c: &Connection,
    statement: &str,
    parameters: &[Value],
    each: EachRow<'_>,
) -> rusqlite::Result<()> {
    let mut statement = c.prepare_cached(statement)?;
    let count = statement.column_count();
    let mut rows = statement.query(params_from_iter(parameters))?;
    while let Some(row) = rows.next()? {
        let column = |column| {
            Ok(match row.get_ref(column)? {
                ValueRef::Null => Value::Null,
                ValueRef::Integer(number) => Value::Integer(number),
                ValueRef::Text(text) => Value::Text(String::from_utf8_lossy(text).into_owned()),
                _ => return Err(rusqlite::Error::InvalidColumnIndex(column)),
            })
        };
        let columns = (0..count)
            .map(column)
            .collect::<rusqlite::Result<Vec<Value>>>()?;
        each(&Columns(columns))?;
    }
    Ok(())
}
