//! Our side of the comparison with AccaSim: FIFO and EASY on a log. Writes the start of each job as
//! CSV and prints, for each scheduler, the seconds of reading the log and of the simulation, each the
//! fastest of five: a run is over in milliseconds, and other work on the machine shows.

use libra_simulator::queue::{Easy, Fifo};
use libra_simulator::{Fate, Machine, Observer, Outcome, Scheduler};
use libra_workload::read::{Leniency, read};
use libra_workload::terms::{TermsModel, jobs};
use std::error::Error;
use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::Path;
use std::time::Instant;

struct Starts(Vec<f64>);

impl Observer for Starts {
    fn outcome(&mut self, outcome: &Outcome<'_>) {
        if let Fate::Ended { start, .. } = outcome.fate {
            self.0[outcome.index] = start;
        }
    }
}

/// Seconds of the fastest of five, and what the last one made.
fn fastest<T>(mut work: impl FnMut() -> T) -> (f64, T) {
    let mut time = || {
        let begin = Instant::now();
        let made = work();
        (begin.elapsed().as_secs_f64(), made)
    };
    let mut best = time();
    for _ in 1..5 {
        let (seconds, made) = time();
        best = (best.0.min(seconds), made);
    }
    best
}

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [log, table] = arguments.as_slice() else {
        return Err("usage: accasim LOG TABLE".into());
    };
    let (reading, made) = fastest(|| -> Result<_, Box<dyn Error>> {
        let log = read(Path::new(log), Leniency::Strict)?;
        let nodes = log.header.max_processors().ok_or("no MaxProcs")?;
        let model = TermsModel::default();
        let made = jobs(&log.records, &model, 1, Some(nodes), Leniency::Strict)?;
        Ok((made.jobs, nodes))
    });
    let (jobs, nodes) = made?;
    let machine = Machine::uniform(nodes as usize, 1);
    let mut starts = Vec::new();
    let schedulers: [(&str, Box<dyn Scheduler>); 2] =
        [("fifo", Box::new(Fifo)), ("easy", Box::new(Easy))];
    for (name, mut scheduler) in schedulers {
        let (simulating, observer) = fastest(|| {
            let mut observer = Starts(vec![-1.0; jobs.len()]);
            scheduler.run(&jobs, &machine, &mut observer);
            observer
        });
        println!("{name} {reading} {simulating}");
        starts.push(observer.0);
    }
    let mut table = BufWriter::new(File::create(table)?);
    writeln!(table, "job,fifo,easy")?;
    for (index, job) in jobs.iter().enumerate() {
        writeln!(
            table,
            "{},{},{}",
            job.number, starts[0][index], starts[1][index]
        )?;
    }
    table.flush()?;
    Ok(())
}
