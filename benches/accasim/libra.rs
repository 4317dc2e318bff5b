//! Our side of the comparison with AccaSim: FIFO and EASY on a log. Writes the start of each job as
//! CSV and prints, for each scheduler, the seconds of reading the log and of the simulation.

use libra::simulate::queue::{Easy, Fifo};
use libra::simulate::{Fate, Machine, Observer, Outcome, Scheduler};
use libra::workload::read::{Leniency, read};
use libra::workload::terms::{TermsModel, jobs};
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

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [log, table] = arguments.as_slice() else {
        return Err("usage: accasim LOG TABLE".into());
    };
    let begin = Instant::now();
    let log = read(Path::new(log), Leniency::Strict)?;
    let nodes = log.header.max_processors().ok_or("no MaxProcs")?;
    let model = TermsModel::default();
    let jobs = jobs(&log.records, &model, 1, Some(nodes), Leniency::Strict)?.jobs;
    let reading = begin.elapsed().as_secs_f64();
    let machine = Machine::uniform(nodes as usize, 1);
    let mut starts = Vec::new();
    let schedulers: [(&str, Box<dyn Scheduler>); 2] =
        [("fifo", Box::new(Fifo)), ("easy", Box::new(Easy))];
    for (name, mut scheduler) in schedulers {
        let mut observer = Starts(vec![-1.0; jobs.len()]);
        let begin = Instant::now();
        scheduler.run(&jobs, &machine, &mut observer);
        println!("{name} {reading} {}", begin.elapsed().as_secs_f64());
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
