//! What the modules of all batch systems do alike: submit by a client of theirs, with a record of it, and tell of a job.

use super::ask::asks_batch_systems;
use super::command::{Call, Output};
use super::job::{Detail, JobSummary};
use super::quote::{Promise, Quote};
use super::records::{Records, SubmissionRecord};
use super::submission::{Submission, Submitted};
use super::{Kind, Problem, Site, System};
use libra_core::commitment::Commitment;
use libra_system::clock;
use std::path::PathBuf;

/// What the modules of all batch systems are made of.
#[derive(Debug)]
pub struct Client {
    /// The own executable and where records are.
    pub site: Site,
    /// What this page has submitted there.
    pub records: Records,
    /// Its prices can be asked for.
    pub quotes: bool,
    /// What submits jobs, by its name.
    program: &'static str,
}

impl Client {
    /// Of a system to which jobs are submitted by this program.
    pub fn new(site: Site, kind: &Kind, program: &'static str) -> Client {
        Client {
            records: Records::new(&site, kind),
            quotes: asks_batch_systems(&site),
            program,
            site,
        }
    }

    /// Submits a job by a call, and keeps a record of it. `cluster`: of which several may have jobs of one number. `said`: what the program
    /// complained of. `learn`: what else its system can say of a job that is there now, for the record.
    ///
    /// # Errors
    /// Nothing was submitted, and not because Libra refused it.
    pub fn submit(
        &self,
        system: &dyn System,
        wanted: &Submission,
        (call, cluster): (Call, String),
        said: fn(&Output) -> Problem,
        learn: impl FnOnce(&mut SubmissionRecord),
    ) -> Result<Submitted, Problem> {
        let mut record = self.records.begin(wanted, clock::unix_time())?;
        record.cluster = cluster;
        let done = call.run_to_submit().inspect_err(|_| {
            self.records.drop(&record);
        })?;
        match Sent::of(&done) {
            Sent::Job(id) => record.id = id,
            Sent::No => {
                self.records.drop(&record);
                // A client says why in words; asked, Libra says it in values.
                let asks = self.quotes && wanted.says_terms();
                return not_sent(asks.then(|| system.quote(wanted)), said(&done));
            }
            Sent::Perhaps => {
                self.write(&record);
                return Ok(Submitted::Unknown(perhaps(self.program, &done)));
            }
        }
        learn(&mut record);
        self.write(&record);
        Ok(Submitted::Accepted(record.key))
    }

    /// The job is there, with a record or without.
    fn write(&self, record: &SubmissionRecord) {
        if let Err(error) = self.records.write(record) {
            let id = match record.id.as_str() {
                "" => "of unknown number",
                id => id,
            };
            log::warn!("job {id}: {error}");
        }
    }
}

/// What is said of a job that was accepted; nothing where nothing is committed to it.
pub fn promised(commitment: Option<&Commitment>) -> String {
    commitment.map_or_else(String::new, |commitment| {
        Promise::of_committed(commitment).text()
    })
}

/// What the page of a job tells, from what its system knows. `facts`: those with a value are told. `no_output`: why there is none.
pub fn detail(
    job: JobSummary,
    record: Option<&SubmissionRecord>,
    facts: Vec<(&str, String)>,
    output: Option<PathBuf>,
    no_output: &str,
) -> Detail {
    let facts = facts.into_iter().filter(|(_, value)| !value.is_empty());
    Detail {
        said: record.map_or_else(String::new, |record| record.said.clone()),
        // One of an array is not what was submitted.
        ours: record.is_some_and(|record| record.key == job.key),
        facts: facts
            .map(|(name, value)| (name.to_string(), value))
            .collect(),
        no_output: no_output.to_string(),
        output,
        job,
    }
}

/// What a batch system's client has left behind that was to submit a job.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Sent {
    /// The job's id: it is there, whatever else went wrong. A client that waits for its job ends as the job does.
    Job(String),
    /// It is not there.
    No,
    /// Nobody can tell: the client was ended, or has lost its server, and has printed no id.
    Perhaps,
}

impl Sent {
    /// From what `sbatch --parsable`, `qsub` or `qsub -terse` printed.
    fn of(done: &Output) -> Sent {
        let id = done.out.split([';', '\r', '\n']).next().unwrap_or_default();
        if id.starts_with(|c: char| c.is_ascii_digit()) && !id.contains(' ') {
            return Sent::Job(id.to_string());
        }
        // The words of Slurm's own clients, and of Grid Engine's.
        let said = done.err.to_lowercase();
        let is_lost = ["timed out", "receive timeout"]
            .iter()
            .any(|words| said.contains(words));
        let lost = done.late || done.code.is_none() || is_lost;
        match lost {
            true => Sent::Perhaps,
            false => Sent::No,
        }
    }
}

/// A submission that is not there: what Libra says of it when it is asked, if that is why. `said`: what the client said.
fn not_sent(asked: Option<Result<Quote, Problem>>, said: Problem) -> Result<Submitted, Problem> {
    match asked {
        Some(Ok(quote)) if !quote.accepted => Ok(Submitted::Refused(Box::new(quote))),
        _ => Err(said),
    }
}

/// What is said where nobody knows.
fn perhaps(client: &str, done: &Output) -> String {
    let why = match done.late {
        true => format!("{client} did not answer in time and was ended"),
        false => format!("{client} broke off: {}", done.complaint()),
    };
    format!(
        "It may have been submitted: {why}. Look under Jobs before you submit it again; two jobs are paid twice."
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_is_a_job_and_silence_is_not_none() {
        let done = |out: &str, err: &str, code, late| Output {
            out: out.to_string(),
            err: err.to_string(),
            code,
            late,
        };
        let job = |id: &str| Sent::Job(id.to_string());
        assert_eq!(
            Sent::of(&done("7;cluster\r\n", "", Some(0), false)),
            job("7")
        );
        assert_eq!(Sent::of(&done("7\r\n", "", None, true)), job("7"));
        // With --wait, the exit status is the job's.
        assert_eq!(
            Sent::of(&done("12[].s\n", "", Some(3), false)),
            job("12[].s")
        );
        assert_eq!(Sent::of(&done("", "", None, true)), Sent::Perhaps);
        let lost =
            "sbatch: error: Batch job submission failed: Socket timed out on send/recv operation";
        assert_eq!(Sent::of(&done("", lost, Some(1), false)), Sent::Perhaps);
        let lost = "failed receiving gdi request response for mid=1 (got syncron message receive timeout error)";
        assert_eq!(Sent::of(&done("", lost, Some(1), false)), Sent::Perhaps);
        assert_eq!(
            Sent::of(&done("7.1-3:2\r\n", "", Some(0), false)),
            job("7.1-3:2")
        );
        assert_eq!(
            Sent::of(&done("", "invalid partition", Some(1), false)),
            Sent::No
        );
    }
}
