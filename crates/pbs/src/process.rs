//! What one process that PBS's hooks run in keeps between events, and the files it reads: the edge around
//! [`super::server`].

use super::server::{Judged, Server};
use super::{BadEvent, hosts, need, number, text};
use libra_accounts::budget_gate::BudgetGate;
use libra_batch::quotes_file::QuotesFile;
use libra_config::last::{self, Stamp};
use libra_config::learned;
use libra_config::{Config, ConfigError, System};
use libra_core::book::figures::Holds;
use libra_host::{Host, HostError};
use libra_metrics::files::Files;
use serde_json::Value;
use std::fs::DirBuilder;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// Largest file of records that is read, in bytes: some hundred thousand jobs.
const LARGEST_RECORDS: u64 = 256 << 20;

/// Accounts that are out of order are opened again after so long.
const TRY_AGAIN: Duration = Duration::from_secs(5);

/// A configuration that is gone is complained about so often.
const SAY_AGAIN: Duration = Duration::from_secs(60);

/// What is kept.
#[derive(Default)]
pub struct Process {
    server: Option<Server>,
    config: Option<(PathBuf, [Stamp; 2])>,
    /// What was read of it.
    rules: Config,
    /// It is gone, and when that was said last.
    gone: Option<(String, Instant)>,
    /// When accounts that are out of order were last tried.
    accounts_tried: Option<Instant>,
    /// Which installation of the hooks it answers.
    installed: Option<String>,
    records: Stamp,
    metrics: Option<Files>,
    quotes: Option<QuotesFile>,
}

/// Why an event has no answer.
#[derive(Debug, thiserror::Error)]
pub enum Failure {
    /// The configuration.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// The event.
    #[error(transparent)]
    Event(#[from] BadEvent),
    /// The execution host.
    #[error(transparent)]
    Host(#[from] HostError),
}

impl Process {
    /// Answers an event, JSON for JSON.
    ///
    /// # Errors
    /// When the event, the configuration or the host fails; the book is as it was then.
    pub fn answer(&mut self, event: &str) -> Result<String, Failure> {
        let event: Value =
            serde_json::from_str(event).map_err(|error| BadEvent(error.to_string()))?;
        let config = PathBuf::from(need(&event, "config")?);
        let answer = if need(&event, "event")?.starts_with("exec") {
            let found = last::read_or_copy(&config)?;
            let mut answer = hosts::answer(&Host::open(found.config)?.in_a_hurry(), &event)?;
            // This process is as short as its event; some come every few seconds.
            if let (Some(gone), Some(lines)) = (found.gone, log_of(&mut answer)) {
                lines.push(gone.into());
            }
            answer
        } else {
            let mut log = Vec::new();
            self.follow_installation(&event);
            self.follow_config(&config, &mut log)?;
            self.say_gone(&mut log);
            self.follow_accounts();
            self.follow_records(&event, &mut log);
            let server = self
                .server
                .get_or_insert_with(|| Server::new(&Config::default()));
            let begun = Instant::now();
            let had_records = server.has_records();
            let mut answer = server.answer(&event)?;
            count(server, begun);
            self.follow_quotes(&event, had_records, &mut log);
            self.write_metrics(&event, &mut log);
            if !log.is_empty() {
                if let Some(lines) = answer["log"].as_array() {
                    log.extend(lines.iter().cloned());
                }
                answer["log"] = log.into();
            }
            answer
        };
        Ok(answer.to_string())
    }

    /// Hooks that were taken out and put back have missed events: the book begins anew.
    fn follow_installation(&mut self, event: &Value) {
        let Some(now) = text(event, "installed") else {
            return;
        };
        if self.installed.as_deref().is_some_and(|known| known != now) {
            // What was counted is not the book's.
            if let (Some(files), Some(server)) = (&mut self.metrics, &mut self.server) {
                let now = number(event, "now").unwrap_or_default();
                files.add(&std::mem::take(&mut server.counts), now);
            }
            *self = Process {
                metrics: self.metrics.take(),
                ..Process::default()
            };
        }
        self.installed = Some(now.to_string());
    }

    /// Takes a changed configuration; one that is gone or cannot be taken is no reason to stop deciding by the last.
    fn follow_config(&mut self, path: &Path, log: &mut Vec<Value>) -> Result<(), ConfigError> {
        let now = (path.to_path_buf(), last::stamps(path));
        // What could not be read may be readable now, without having changed.
        if self.config.as_ref() == Some(&now) && self.gone.is_none() {
            return Ok(());
        }
        let Some(server) = &mut self.server else {
            let found = last::read_or_copy(path)?;
            self.server = Some(Server::new(&found.config));
            self.rules = found.config;
            self.open_accounts();
            self.complain(found.gone);
            self.config = Some(now);
            return Ok(());
        };
        self.config = Some(now);
        match last::read_anew(path) {
            Ok(config) => {
                let changed = BudgetGate::is_changed(&self.rules, &config);
                server.configure(&config);
                let margin = learned::changed(&self.rules, &config);
                log.push(format!("{} was read anew{margin}", path.display()).into());
                self.rules = config;
                self.complain(None);
                if changed {
                    self.open_accounts();
                }
            }
            Err(text) => self.complain(Some(text)),
        }
        Ok(())
    }

    /// Why other rules count than those of the file, to be said at once and every minute; none: they do.
    fn complain(&mut self, text: Option<String>) {
        if self.gone.as_ref().map(|gone| &gone.0) != text.as_ref() {
            let said = Instant::now().checked_sub(SAY_AGAIN);
            self.gone = text.map(|text| (text, said.unwrap_or_else(Instant::now)));
        }
    }

    /// Says every minute that the configuration is gone or cannot be taken.
    fn say_gone(&mut self, log: &mut Vec<Value>) {
        if let Some((text, said)) = &mut self.gone {
            if said.elapsed() >= SAY_AGAIN {
                *said = Instant::now();
                log.push(text.clone().into());
            }
        }
    }

    fn open_accounts(&mut self) {
        self.accounts_tried = Some(Instant::now());
        let gate = BudgetGate::open(&self.rules, "pbs", self.rules.pbs.on_fault, true);
        if let Some(server) = &mut self.server {
            server.take_accounts(gate);
        }
    }

    /// Accounts that are out of order are tried again, not at every event.
    fn follow_accounts(&mut self) {
        let broken = self
            .server
            .as_mut()
            .is_some_and(|server| server.gate().is_broken());
        if broken
            && self
                .accounts_tried
                .is_none_or(|tried| tried.elapsed() >= TRY_AGAIN)
        {
            self.open_accounts();
        }
    }

    /// Held quotes are in a file beside that of the records: what was held before is held again when the book is made, and what changes is written
    /// down before anybody is told.
    fn follow_quotes(&mut self, event: &Value, had_records: bool, log: &mut Vec<Value>) {
        let (Some(records), Ok(now), Some(server)) = (
            text(event, "records"),
            number(event, "now"),
            &mut self.server,
        ) else {
            return;
        };
        let path = Path::new(records).with_file_name("quotes.json");
        if self.quotes.as_ref().is_none_or(|file| file.path() != path) {
            self.quotes = Some(QuotesFile::new(&path));
        }
        let Some(file) = &mut self.quotes else {
            return;
        };
        if !had_records && server.has_records() {
            match file.read() {
                Ok(Some(text)) => log.extend(
                    server
                        .restore_quotes(&text, now)
                        .into_iter()
                        .map(Value::from),
                ),
                Ok(None) => {}
                Err(problem) => log.push(problem.into()),
            }
        }
        let changed = server.changed_quotes(now);
        if changed.is_some() {
            // The periodic hook makes it; after an installation it comes later than the first quote may.
            if let Some(directory) = path.parent() {
                let _ = DirBuilder::new().mode(0o700).create(directory);
            }
        }
        log.extend(file.write(changed).map(Value::from));
    }

    /// Writes what was counted, where it is time to.
    fn write_metrics(&mut self, event: &Value, log: &mut Vec<Value>) {
        let (Ok(now), Some(server)) = (number(event, "now"), &mut self.server) else {
            return;
        };
        let files = (self.metrics).get_or_insert_with(|| Files::new(System::Pbs));
        let config = &self.rules.metrics;
        let mut say = |line: Option<String>| log.extend(line.map(Value::from));
        say(files.configure(&config.directory, config.interval.0, now));
        if server.has_records() && files.is_due(now) {
            let mut counts = std::mem::take(&mut server.counts);
            counts.withdrawn += server.take_withdrawn();
            files.add(&counts, now);
            let mut figures = server.book().figures(now);
            let gate = server.gate();
            figures.holds = Holds::new(gate.is_on(), gate.tried(|payments| payments.held()));
            say(files.write(&figures, now));
        }
    }

    /// Takes the records that the periodic hook writes, when there are new ones.
    fn follow_records(&mut self, event: &Value, log: &mut Vec<Value>) {
        let Some(path) = text(event, "records").map(Path::new) else {
            return;
        };
        let found = last::stamp(path);
        if found.is_none() || found == self.records {
            return;
        }
        self.records = found;
        let Some(server) = self.server.as_mut().filter(|server| server.has_records()) else {
            return;
        };
        if found.is_some_and(|(_, bytes)| bytes > LARGEST_RECORDS) {
            log.push(format!("{} is too large, not read", path.display()).into());
            return;
        }
        let read = std::fs::read_to_string(path)
            .map_err(|error| error.to_string())
            .and_then(|text| serde_json::from_str::<Value>(&text).map_err(|e| e.to_string()))
            .and_then(|mut records| {
                // Of another file than the hook's, jobs that are not in it would be taken for gone.
                let whole = records["jobs"].is_array() && records["nodes"].is_array();
                if !whole || number(&records, "taken").is_err() {
                    return Err("not taken: expected 'jobs', 'nodes' and 'taken'".to_string());
                }
                records["event"] = "records".into();
                records["now"] = number(event, "now").map_err(|e| e.to_string())?.into();
                server.answer(&records).map_err(|e| e.to_string())
            });
        match read {
            Ok(answer) => log.extend(answer["log"].as_array().cloned().unwrap_or_default()),
            Err(error) => log.push(format!("{}: {error}", path.display()).into()),
        }
    }
}

/// Counts a verdict on a submission; questions of the hook's that came in between are none.
fn count(server: &mut Server, begun: Instant) {
    let took = begun.elapsed();
    match server.take_judged() {
        Some(Judged::Accepted(jobs)) => server.counts.accept(u64::from(jobs), took),
        Some(Judged::NotTaken(category)) => server.counts.refuse(category, took),
        None => {}
    }
}

/// The lines for the log of an answer, to add to.
fn log_of(answer: &mut Value) -> Option<&mut Vec<Value>> {
    let log = answer.as_object_mut()?.entry("log");
    log.or_insert_with(|| Value::Array(Vec::new()))
        .as_array_mut()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn records_of_another_kind_are_not_taken() {
        let directory = tempfile::tempdir().expect("a directory");
        let path = directory.path().join("records.json");
        let mut process = Process::default();
        let mut ask = |event: Value| -> Value {
            let mut event = event;
            event["now"] = 1000.0.into();
            event["config"] = "/nonexistent/libra.toml".into();
            event["records"] = path.display().to_string().into();
            let answer = process.answer(&event.to_string()).expect("an answer");
            serde_json::from_str(&answer).expect("JSON")
        };
        let nodes = json!([{"name": "n1", "share": "1", "up": true}]);
        ask(json!({"event": "records", "nodes": nodes, "jobs": []}));
        let half = json!({"terms": {"estimate": "50", "deadline": "100", "budget": "999"}});
        let commitment = ask(json!({"event": "queuejob", "job": half}));
        let line = &commitment["resources"]["libra_terms"];
        ask(json!({"event": "postqueuejob", "job": {"id": "1.s", "commitment": line}}));
        for (number, text) in [
            "",
            "no JSON",
            "null",
            "[]",
            "{}",
            r#"{"jobs": [], "nodes": []}"#,
            r#"{"jobs": 5, "nodes": [], "taken": 1000.0}"#,
            r#"{"jobs": [], "nodes": [], "taken": 1.0}"#,
        ]
        .iter()
        .enumerate()
        {
            // Another length each time, so that it is seen as another file.
            std::fs::write(&path, format!("{text}{}", " ".repeat(100 * number))).expect("written");
            let answer = ask(json!({"event": "queuejob", "job": half}));
            // The job that is there still holds its share: the hook is to ask whether it is gone.
            assert_eq!(answer["check"], json!(["1.s"]), "{text}");
            let log = answer["log"].to_string();
            assert!(log.contains("records.json: "), "{text}: {log}");
        }
    }

    #[test]
    fn verdicts_and_ends_are_counted_and_written() {
        let directory = tempfile::tempdir().expect("a directory");
        let path = |name: &str| directory.path().join(name);
        let config = format!("[metrics]\ndirectory = '{}'\n", directory.path().display());
        std::fs::write(path("libra.toml"), config).expect("ours");
        let mut process = Process::default();
        let mut ask = |mut event: Value, now: f64| -> Value {
            event["now"] = now.into();
            event["config"] = path("libra.toml").display().to_string().into();
            let answer = process.answer(&event.to_string()).expect("an answer");
            serde_json::from_str(&answer).expect("JSON")
        };
        let job = |estimate: &str, array: Option<&str>| {
            json!({"event": "queuejob", "job": {"array": array,
            "terms": {"estimate": estimate, "deadline": "100", "budget": "999"}}})
        };
        // Nobody has shown the records yet: no verdict.
        assert_eq!(ask(job("10", None), 1000.0)["wants"], "records");
        let nodes = json!([{"name": "n1", "share": "1", "up": true}]);
        ask(
            json!({"event": "records", "nodes": nodes, "jobs": []}),
            1000.0,
        );
        let array = ask(job("10", Some("1-3")), 1000.0);
        assert_eq!(array["verdict"], "accept");
        let line = ask(job("10", None), 1000.0)["resources"]["libra_terms"].clone();
        ask(
            json!({"event": "postqueuejob", "job": {"id": "1.s", "commitment": line}}),
            1000.0,
        );
        assert_eq!(ask(job("200", None), 1000.0)["check"], json!(["1.s"]));
        let mut again = job("200", None);
        again["job"]["checked"] = "yes".into();
        assert_eq!(ask(again, 1000.0)["verdict"], "refuse");
        ask(json!({"event": "queuejob", "job": {"terms": {}}}), 1000.0);
        // The array expires without an id, 30 s later.
        let end = json!({"event": "jobobit", "job": {"id": "1.s", "commitment": line, "state": "E", "exit": 271}});
        ask(end, 1050.0);
        ask(json!({"event": "queuejob", "job": {"terms": {}}}), 1061.0);
        let text = std::fs::read_to_string(path("pbs.json")).expect("written");
        let written: Value = serde_json::from_str(&text).expect("JSON");
        assert_eq!(
            written["hours"],
            json!([{"hour": 0, "accepted": 4, "withdrawn": 3, "cancelled": 1, "refused": {"deadline": 1}}])
        );
        let text = std::fs::read_to_string(path("pbs.prom")).expect("written");
        assert!(
            text.contains("libra_decision_seconds_count{system=\"pbs\"} 3\n"),
            "{text}"
        );
        assert!(text.contains("libra_node_processors{system=\"pbs\",node=\"n1\"} 1\n"));
    }

    #[test]
    fn a_held_quote_outlives_the_process() {
        let directory = tempfile::tempdir().expect("a directory");
        let state = directory.path().join("libra");
        let ask = |process: &mut Process, mut event: Value, now: f64| -> Value {
            event["now"] = now.into();
            event["config"] = "/nonexistent/libra.toml".into();
            event["records"] = state.join("records.json").display().to_string().into();
            let answer = process.answer(&event.to_string()).expect("an answer");
            serde_json::from_str(&answer).expect("JSON")
        };
        let records = json!({"event": "records", "nodes": [{"name": "n1", "share": "1", "up": true}], "jobs": []});
        let half = |quote: &str| {
            json!({"event": "queuejob", "job": {"user": "ann", "quote": quote,
                "terms": {"estimate": "50", "deadline": "100", "budget": "999"}}})
        };
        let mut before = Process::default();
        ask(&mut before, records.clone(), 1000.0);
        let held = ask(&mut before, half("hold:5m"), 1000.0);
        let text = held["text"].as_str().expect("a refusal");
        let quote = libra_batch::quote::Quote::find(text).expect("a quote");
        let number = quote.held.expect("held").number;
        let number = number.as_str();
        let array = json!({"event": "queuejob", "job": {"user": "bob", "array": "1-3",
            "terms": {"estimate": "5", "deadline": "1000", "budget": "9999"}}});
        let line = ask(&mut before, array, 1000.0)["resources"]["libra_terms"].clone();
        assert!(line.is_string(), "{line}");
        let file = state.join("quotes.json");
        assert!(
            std::fs::read_to_string(&file)
                .expect("written")
                .contains(number)
        );
        drop(before);

        let mut after = Process::default();
        // Its jobs get new tokens, and none of the quote's.
        let mut records = records;
        records["jobs"] = json!([{"id": "2[].s", "state": "Q", "array": "1-3", "remaining": "1-3", "commitment": line, "eligible": 1000.0}]);
        let log = ask(&mut after, records, 1100.0)["log"].to_string();
        assert!(log.contains("3 jobs with terms"), "{log}");
        assert!(log.contains("1 quotes are held as before"), "{log}");
        let taken = ask(&mut after, half(number), 1100.0);
        assert_eq!(taken["verdict"], "accept", "{taken}");
        assert_eq!(ask(&mut after, half(number), 1100.0)["verdict"], "refuse");
        assert!(!file.exists(), "nothing is held");
    }
}
