//! Records as Slurm and PBS write them, good and bad, in a time zone without surprises.

use super::*;
use crate::swf;
use proptest::prelude::*;
use std::fs;

/// UTC, by counting days (of a year that starts in March).
fn utc(time: LocalTime) -> Option<i64> {
    let (month, day) = (i64::from(time.month), i64::from(time.day));
    if !(1..=12).contains(&month) || !(1..=31).contains(&day) || time.hour > 23 {
        return None;
    }
    let year = i64::from(time.year) - i64::from(month <= 2);
    let day_of_year = (153 * ((month + 9) % 12) + 2) / 5 + day - 1;
    let days = year * 365 + year / 4 - year / 100 + year / 400 + day_of_year - 719_468;
    let seconds = i64::from(time.hour) * 3600 + i64::from(time.minute) * 60;
    Some(days * 86_400 + seconds + i64::from(time.second))
}

fn all(files: &[&str], options: &Options) -> Result<Imported, ImportError> {
    let directory = tempfile::tempdir().expect("a directory");
    let paths: Vec<PathBuf> = files
        .iter()
        .zip(["a", "b", "c"])
        .map(|(text, name)| {
            let path = directory.path().join(name);
            fs::write(&path, text).expect("a file");
            path
        })
        .collect();
    import(&paths, options, &utc)
}

fn good(files: &[&str]) -> Imported {
    all(files, &Options::default()).expect("a log")
}

fn error(text: &str) -> String {
    let error = all(&[text], &Options::default()).expect_err("an error");
    error.to_string()
}

fn lines(imported: &Imported) -> Vec<String> {
    let line = |record: &SwfRecord| {
        let mut line = Vec::new();
        record.write(&mut line);
        String::from_utf8_lossy(&line).trim().to_string()
    };
    imported.records.iter().map(line).collect()
}

const SACCT: &str = "\
JobID|JobIDRaw|User|Group|Account|Partition|Submit|Eligible|Start|End|Elapsed|ElapsedRaw|Timelimit|TimelimitRaw|ReqCPUS|AllocCPUS|NNodes|State|TotalCPU|ReqMem|MaxRSS
4711|4711|anna|physics|prj1|batch|2027-01-31T08:00:00|2027-01-31T08:00:00|2027-01-31T08:10:00|2027-01-31T09:10:30|01:00:30|3630|02:00:00|120|8|8|1|COMPLETED|07:30:00|16G|
4711.batch|4711.batch||||||2027-01-31T08:10:00|2027-01-31T08:10:00|2027-01-31T09:10:30|01:00:30|3630|||8|8|1|COMPLETED|07:30:00||1048576K
4711.extern|4711.extern||||||2027-01-31T08:10:00|2027-01-31T08:10:00|2027-01-31T09:10:30|01:00:30|3630|||8|8|1|COMPLETED|00:00.001||
4713_2|4715|ben|physics|prj1|long|2027-01-31T07:59:00|Unknown|2027-02-01T00:00:00|2027-02-02T01:02:03|1-01:02:03|90123|UNLIMITED||2|2|1|CANCELLED by 1001|2-02:04:06|4000Mc|
4712|4712|ben|physics|prj1|batch|2027-01-31T08:00:01|2027-01-31T08:00:01|None|2027-01-31T08:30:00|00:00:00|0|1-00:00:00|1440|4|0|2|CANCELLED by 1001|00:00:00|2Gn|
4720+1|4721|carla|chem|prj2|batch|2027-01-31T08:05:00|2027-01-31T08:05:00|2027-01-31T08:05:00|2027-01-31T08:06:00|00:01:00|60|00:05:00|5|1|2|1|TIMEOUT|00:58.250|0n|
4730|4730|carla|chem|prj2|batch|2027-01-31T08:06:00|Unknown|Unknown|Unknown|00:00:00|0|00:05:00|5|16|0|1|PENDING|00:00:00|1G|
4731|4731|carla|chem|prj2|batch|2027-01-31T08:06:00|2027-01-31T08:06:00|2027-01-31T08:07:00|Unknown|10:00:00|36000|00:05:00|5|16|16|1|RUNNING|00:00:00|1G|
";

#[test]
fn what_sacct_prints() {
    let imported = good(&[SACCT]);
    assert_eq!(
        lines(&imported),
        [
            // Array task: submitted first; started 16 h and a minute later. 4000 MB for each processor.
            "4715 0 57660 90123 2 90123 -1 2 -1 4096000 5 1 1 -1 1 -1 -1 -1",
            // 7.5 h on 8 processors: 3375 s each. 16 GB for 8: 2 GB each. 1 GB used by the batch step.
            "4711 60 600 3630 8 3375 1048576 8 7200 2097152 1 2 1 -1 2 -1 -1 -1",
            // Never started. 2 GB on each of 2 nodes, for 4 processors: 1 GB each.
            "4712 61 -1 -1 -1 -1 -1 4 86400 1048576 5 1 1 -1 2 -1 -1 -1",
            // Part of a heterogeneous job: one processor asked for, two given (threads).
            "4721 360 0 60 2 29.13 -1 1 300 -1 0 3 2 -1 2 -1 -1 -1",
        ]
    );
    assert_eq!(
        imported.left_out,
        LeftOut {
            not_ended: 2,
            parts: 2,
            repeated: 0,
            bad_lines: 0,
            ..LeftOut::default()
        }
    );
    assert_eq!(imported.names, [3, 2, 2]);
    // 8 from 8:10 on and nothing else then.
    assert_eq!(imported.processors, Some(8));
    for line in [
        // 2027-01-31T07:59:00 UTC
        "UnixStartTime: 1801382340",
        "MaxProcs: 8",
        "User: 1 ben",
        "User: 2 anna",
        "Group: 2 chem",
        "Queue: 2 batch",
        "Note: Job numbers are the batch system's own",
    ] {
        assert!(
            imported.header.contains(&line.to_string()),
            "{line}: {:?}",
            imported.header
        );
    }
}

#[test]
fn anonymous_logs_have_no_names() {
    let options = Options {
        anonymous: true,
        processors: Some(64),
        ..Options::default()
    };
    let imported = all(&[SACCT], &options).expect("a log");
    assert_eq!(lines(&imported), lines(&good(&[SACCT])));
    assert!(imported.header.contains(&"MaxProcs: 64".to_string()));
    let text = imported.header.join("\n");
    for name in ["anna", "ben", "carla", "physics", "chem", "batch", "long"] {
        assert!(
            !text.lines().any(|l| l.ends_with(&format!(" {name}"))),
            "{text}"
        );
    }
}

/// Few columns, in another order, with times in seconds and a `|` at the end, as --parsable has it.
#[test]
fn the_columns_that_are_needed() {
    let text = "NCPUS|End|Submit|JobID|Elapsed|State|\n\
                4|1800000100|1800000000|9_1|00:01:00|COMPLETED|\n\
                4|1800000100|1800000010|9_2|00:00:00|CANCELLED by 0|\n";
    assert_eq!(
        lines(&good(&[text])),
        [
            "1 0 40 60 4 -1 -1 4 -1 -1 1 -1 -1 -1 -1 -1 -1 -1",
            "2 10 -1 -1 -1 -1 -1 4 -1 -1 5 -1 -1 -1 -1 -1 -1 -1",
        ]
    );
}

/// January's file has a job that still runs; February's tells its end, and one of January's again.
#[test]
fn files_in_any_order_tell_of_a_job_once() {
    let header = "JobID|Submit|Start|End|State|ReqCPUS|User\n";
    let january = format!(
        "{header}1|2027-01-01T00:00:00|2027-01-01T00:00:10|2027-01-01T00:00:20|COMPLETED|1|anna\n\
         2|2027-01-31T23:00:00|2027-01-31T23:00:00|Unknown|RUNNING|1|ben\n"
    );
    let february = format!(
        "{header}2|2027-01-31T23:00:00|2027-01-31T23:00:00|2027-02-01T01:00:00|FAILED|1|ben\n\
         1|2027-01-01T00:00:00|2027-01-01T00:00:10|2027-01-01T00:00:20|COMPLETED|1|anna\n"
    );
    let expected = [
        "1 0 10 10 -1 -1 -1 1 -1 -1 1 1 -1 -1 -1 -1 -1 -1",
        "2 2674800 0 7200 -1 -1 -1 1 -1 -1 0 2 -1 -1 -1 -1 -1 -1",
    ];
    let mut given = good(&[&january, &february]);
    assert_eq!(lines(&given), expected);
    assert_eq!((given.left_out.repeated, given.left_out.not_ended), (2, 0));
    let other = good(&[&february, &january]);
    assert_eq!(lines(&other), lines(&given));
    // Both in one file, each with its header.
    given = good(&[&(january + &february)]);
    assert_eq!(lines(&other), lines(&given));
}

#[test]
fn what_is_wrong_with_sacct_lines_is_said() {
    let header =
        "JobID|Submit|Start|End|Elapsed|ReqCPUS|AllocCPUS|State|TimelimitRaw|ReqMem|TotalCPU\n";
    let row = "1|2027-01-01T00:00:00|2027-01-01T00:00:00|2027-01-01T01:00:00|01:00:00|1|1|COMPLETED|60|1G|00:01:00\n";
    assert_eq!(good(&[&(header.to_string() + row)]).records.len(), 1);
    for (from, to, message) in [
        (
            "1|2027-01-01T00:00:00",
            "|2027-01-01T00:00:00",
            "line 2: JobID is empty",
        ),
        (
            "1|2027-01-01T00:00:00",
            "1|2027-01-01 00:00:00",
            "Submit is '2027-01-01 00:00:00', expected a time",
        ),
        ("1|2027-01-01T00:00:00", "1|Unknown", "Submit is not known"),
        (
            "2027-01-01T01:00:00",
            "2027-13-01T01:00:00",
            "End is '2027-13-01T01:00:00', expected a time",
        ),
        (
            "|01:00:00|",
            "|an hour|",
            "Elapsed is 'an hour', expected a time such as 1-02:03:04",
        ),
        (
            "|1|1|",
            "|one|1|",
            "ReqCPUS is 'one', expected a whole number",
        ),
        (
            "COMPLETED",
            "DONE",
            "State is 'DONE', expected one of Slurm's",
        ),
        ("|60|", "|1:00|", "TimelimitRaw is '1:00', expected minutes"),
        ("|1G|", "|1 GB|", "ReqMem is '1 GB', expected an amount"),
        (
            "|00:01:00",
            "|00:01:00|x",
            "12 columns, expected 11, as many as the header has",
        ),
    ] {
        let error = error(&(header.to_string() + &row.replacen(from, to, 1)));
        assert!(
            error.contains("/a: line 2: ")
                && error.contains(message)
                && error.contains("--lenient"),
            "{to}: {error}"
        );
    }
    let two = format!("{header}{row}2|bad\n3|bad\n");
    let options = Options {
        leniency: Leniency::Lenient,
        ..Options::default()
    };
    let imported = all(&[&two], &options).expect("one job");
    assert_eq!(
        (imported.records.len(), imported.left_out.bad_lines),
        (1, 2)
    );
    assert!(imported.first_bad_lines[0].contains("/a: line 3: 2 columns, expected 11"));
}

#[test]
fn files_that_are_no_records() {
    for (text, message) in [
        ("", "no job that has ended in 0 lines"),
        (
            "Some prose.\n",
            "/a: looks neither like what 'sacct --parsable2' prints",
        ),
        (
            "JobID Partition State\n-----\n",
            "line 1: the columns are not separated by '|'",
        ),
        (
            "1|2027-01-01T00:00:00|x\n",
            "line 1: there is no header line with a column JobID",
        ),
        (
            "JobID|User\n",
            "line 1: the column Submit, and ElapsedRaw or Elapsed or End, and ReqCPUS or AllocCPUS or NCPUS is missing; run sacct --allusers",
        ),
        (
            "JobID|Submit|End|ReqCPUS|State\n1|2027-01-01T00:00:00||1|PENDING\n",
            "no job that has ended in 2 lines: 1 jobs were waiting or running",
        ),
    ] {
        let error = error(text);
        assert!(error.contains(message), "{text}: {error}");
    }
    let nothing = import(&["/nonexistent/x".into()], &Options::default(), &utc);
    assert!(
        nothing
            .expect_err("no file")
            .to_string()
            .contains("/nonexistent/x: cannot be opened")
    );
}

const PBS: &str = "\
01/31/2027 07:59:00;Q;100.pbs1;queue=workq
01/31/2027 08:00:00;S;100.pbs1;user=anna group=physics project=_pbs_project_default jobname=sim queue=workq ctime=1801382340 qtime=1801382340 etime=1801382340 start=1801382400 exec_host=n1/0*8+n2/0*8 Resource_List.ncpus=16 Resource_List.select=2:ncpus=8:mem=16gb Resource_List.walltime=02:00:00
01/31/2027 08:00:05;L;license;floating license hour:3 day:3 month:3 max:10
01/31/2027 08:01:00;Q;101.pbs1;queue=workq
01/31/2027 08:02:00;D;101.pbs1;requestor=ben@login1
01/31/2027 09:00:00;E;100.pbs1;user=anna group=physics project=_pbs_project_default account=\"project one\" jobname=sim queue=workq ctime=1801382340 qtime=1801382340 etime=1801382340 start=1801382400 exec_host=n1/0*8+n2/0*8 Resource_List.mem=32gb Resource_List.ncpus=16 Resource_List.nodect=2 Resource_List.select=2:ncpus=8:mem=16gb Resource_List.walltime=02:00:00 session=1234 end=1801386000 Exit_status=0 resources_used.cpupercent=790 resources_used.cput=08:00:00 resources_used.mem=16777216kb resources_used.ncpus=16 resources_used.vmem=1gb resources_used.walltime=00:59:58 run_count=1
01/31/2027 09:01:00;Q;102[].pbs1;queue=workq
01/31/2027 09:10:00;E;102[3].pbs1;user=ben group=chem queue=express ctime=1801386060 qtime=1801386060 start=1801386070 Resource_List.select=1:ncpus=1+1:ncpus=3 Resource_List.walltime=600 end=1801386600 Exit_status=271 resources_used.cput=30 resources_used.walltime=00:08:50
01/31/2027 09:20:00;Q;103.pbs1;queue=workq
";

/// A day later: 103 is requeued, runs again, and fails; Torque's way of naming processors.
const LATER: &str = "\
02/01/2027 00:00:00;S;103.pbs1;user=anna queue=workq
02/01/2027 01:00:00;R;103.pbs1;user=anna queue=workq ctime=1801387200 start=1801440000 end=1801443600
02/01/2027 02:00:00;E;103.pbs1;user=anna group=physics queue=workq ctime=1801387200 qtime=1801387200 etime=1801387200 start=1801447100 Resource_List.ncpus=1 Resource_List.neednodes=2:ppn=4 Resource_List.nodect=2 Resource_List.nodes=2:ppn=4+n9:ppn=2 Resource_List.walltime=100:00:00 end=1801447200 Exit_status=-11 resources_used.mem=1000kb resources_used.walltime=00:01:40
02/01/2027 02:00:01;Q;104.pbs1;queue=workq
";

#[test]
fn what_pbs_writes() {
    let imported = good(&[LATER, PBS]);
    assert_eq!(
        lines(&imported),
        [
            // 8 h on 16 processors: 1800 s each; 16 GB used of 32: 1 and 2 each.
            "1 0 60 3600 16 1800 1048576 16 7200 2097152 1 1 1 -1 1 -1 -1 -1",
            // Deleted before it ran: nothing but its queue record.
            "2 120 -1 -1 -1 -1 -1 -1 -1 -1 5 -1 -1 -1 -1 -1 -1 -1",
            // Part of an array: 1 + 3 processors, ended by a signal.
            "3 3720 10 530 4 7.5 -1 4 600 -1 5 2 2 -1 2 -1 -1 -1",
            // Its second run: 2 × 4 + 2 processors.
            "4 4860 59900 100 10 -1 100 10 360000 -1 0 1 1 -1 1 -1 -1 -1",
        ]
    );
    assert_eq!(
        imported.left_out,
        LeftOut {
            not_ended: 1,
            parts: 1,
            repeated: 0,
            bad_lines: 0,
            ..LeftOut::default()
        }
    );
    assert_eq!(imported.processors, Some(16));
    let same = good(&[PBS, LATER, PBS]);
    assert_eq!(lines(&same), lines(&imported));
    assert_eq!(same.left_out.repeated, 2);
}

#[test]
fn what_is_wrong_with_pbs_lines_is_said() {
    let row = "01/31/2027 09:00:00;E;100.s;user=a ctime=10 start=20 end=30 Resource_List.select=1:ncpus=2 Resource_List.walltime=01:00:00 Resource_List.mem=1gb Exit_status=0";
    assert_eq!(good(&[row]).records.len(), 1);
    for (from, to, message) in [
        (
            ";E;100.s;",
            ";E",
            "expected MM/DD/YYYY HH:MM:SS;type;id;key=value",
        ),
        (
            "09:00:00",
            "25:00:00",
            "the time of the record is '01/31/2027 25:00:00', expected MM/DD",
        ),
        (
            ";E;",
            ";End;",
            "the type of the record is 'End', expected one letter",
        ),
        ("ctime=10 ", "", "ctime and qtime are missing"),
        (
            "ctime=10",
            "ctime=ten",
            "ctime is 'ten', expected seconds since 1970-01-01",
        ),
        (
            "ncpus=2",
            "ncpus=two",
            "Resource_List.select is '1:ncpus=two', expected chunks such as",
        ),
        (
            "01:00:00",
            "soon",
            "Resource_List.walltime is 'soon', expected HH:MM:SS or seconds",
        ),
        (
            "mem=1gb",
            "mem=much",
            "Resource_List.mem is 'much', expected an amount of memory",
        ),
        (
            "Exit_status=0",
            "Exit_status=ok",
            "Exit_status is 'ok', expected a whole number",
        ),
    ] {
        let options = Options {
            format: Some(Format::Pbs),
            ..Options::default()
        };
        let text = row.replacen(from, to, 1);
        let error = all(&[&text], &options).expect_err(to).to_string();
        assert!(
            error.contains("/a: line 1: ") && error.contains(message),
            "{to}: {error}"
        );
    }
}

#[test]
fn times_as_both_systems_write_them() {
    for (text, seconds) in [
        ("1-02:03:04", Some(93_784.0)),
        ("02:03:04", Some(7384.0)),
        ("03:04.5", Some(184.5)),
        ("100:00:00", Some(360_000.0)),
        ("3", None),
        ("1-", None),
        ("a:00", None),
        ("1:2:3:4", None),
        ("-1:00", None),
    ] {
        assert_eq!(values::duration(text), seconds, "{text}");
    }
}

/// A file with a part replaced by something else.
fn spoilt(text: &str, place: usize, length: usize, by: &str) -> String {
    let characters: Vec<char> = text.chars().collect();
    let from = place % characters.len();
    let to = (from + length).min(characters.len());
    let (before, after) = (&characters[..from], &characters[to..]);
    before
        .iter()
        .chain(&by.chars().collect::<Vec<_>>())
        .chain(after)
        .collect()
}

proptest! {
    /// Whatever is in the files, what comes out is a log.
    #[test]
    fn what_is_imported_reads_back(
        place in any::<usize>(),
        length in 0usize..30,
        by in "[0-9a-zA-Z|;:=+.\\n \"-]{0,12}|\\PC{0,4}|9{1,25}|1969-12-31T00:00:00",
        pbs in any::<bool>(),
    ) {
        let (text, format) = if pbs { (PBS, Format::Pbs) } else { (SACCT, Format::Sacct) };
        let options = Options {
            format: Some(format),
            leniency: Leniency::Lenient,
            ..Options::default()
        };
        if let Ok(imported) = all(&[&spoilt(text, place, length, &by)], &options) {
            let mut last = 0.0;
            for record in &imported.records {
                let mut line = Vec::new();
                record.write(&mut line);
                prop_assert_eq!(swf::parse(&line), Ok(*record));
                prop_assert!(record.submit >= last);
                last = record.submit;
            }
        }
    }
}

/// As 8.1.9 writes it, with other names: one that ran, one that was taken back and ran again, one of an array that was deleted, one whose further
/// task has a line of its own, one that could not be started.
const GRID_ENGINE: &str = "\
# Version: 8.1.9
#
main.q:g1:physics:anna:a:1:sge:0:1795421542:1795421543:1795421643:0:0:100:9.5:0.5:4828.000000:0:0:0:0:296:0:0:0.000000:8:0:0:0:5:5:NONE:defaultdepartment:smp:2:0:10.000000:0.000000:0.000023:-l h_rt=0:5:0,h_vmem=1G -pe smp 2:0.000000:NONE:2097152.000000:0:0
main.q:g2:physics:anna:b:5:sge:0:0:0:0:25:0:0:0.000000:0.000000:0.000000:0:0:0:0:0:0:0:0.000000:0:0:0:0:0:0:NONE:defaultdepartment:NONE:1:0:0.000000:0.000000:0.000000:NONE:0.000000:NONE:0.000000:0:0
main.q:g2:physics:anna:c:6:sge:0:1795421600:1795421600:1795421605:25:99:5:0.1:0.1:4828.000000:0:0:0:0:296:0:0:0.000000:8:0:0:0:5:5:NONE:defaultdepartment:NONE:1:0:0.2:0.000000:0.000023:NONE:0.000000:NONE:0.000000:0:0
main.q:g1:physics:anna:c:6:sge:0:1795421600:1795421610:1795421620:0:3:10:0.1:0.1:4828.000000:0:0:0:0:296:0:0:0.000000:8:0:0:0:5:5:NONE:defaultdepartment:NONE:1:0:0.2:0.000000:0.000023:NONE:0.000000:NONE:0.000000:0:0
long.q:g1:chem:ben:d:7:sge:0:1795421550:1795421551:1795421561:100:137:10:0.1:0.1:4828.000000:0:0:0:0:296:0:0:0.000000:8:0:0:0:5:5:NONE:defaultdepartment:NONE:1:2:0.2:0.000000:0.000023:NONE:0.000000:NONE:0.000000:0:0
main.q:g2:chem:ben:e:8:sge:0:1795421560:1795421561:1795421571:0:0:10:0.1:0.1:4828.000000:0:0:0:0:296:0:0:0.000000:8:0:0:0:5:5:NONE:defaultdepartment:spread:2:0:0.2:0.000000:0.000023:-pe spread 2:0.000000:1.g2:0.000000:0:0
main.q:g1:chem:ben:f:9:sge:0:1795421570:0:0:26:0:0:0.000000:0.000000:0.000000:0:0:0:0:0:0:0:0.000000:0:0:0:0:0:0:NONE:defaultdepartment:NONE:1:0:0.000000:0.000000:0.000000:NONE:0.000000:NONE:0.000000:0:0
main.q:g1:chem:ben:g:10:sge:0:1795421700:1795421700:1795421705:25:99:5:0.1:0.1:4828.000000:0:0:0:0:296:0:0:0.000000:8:0:0:0:5:5:NONE:defaultdepartment:NONE:1:0:0.2:0.000000:0.000023:NONE:0.000000:NONE:0.000000:0:0
";

#[test]
fn grid_engines_file_is_a_log() {
    let imported = good(&[GRID_ENGINE]);
    assert_eq!(
        lines(&imported),
        [
            "1 0 1 100 2 5 1024 2 300 1048576 1 1 1 -1 1 -1 -1 -1",
            "7 8 1 10 1 0.2 -1 1 -1 -1 5 2 2 -1 2 -1 -1 -1",
            "9 28 -1 -1 -1 -1 -1 1 -1 -1 0 2 2 -1 1 -1 -1 -1",
            "6 58 10 10 1 0.2 -1 1 -1 -1 0 1 1 -1 1 -1 -1 -1",
        ]
    );
    let left_out = LeftOut {
        not_ended: 1,
        parts: 1,
        repeated: 2,
        bad_lines: 0,
        ..LeftOut::default()
    };
    assert_eq!(imported.left_out, left_out);
    // It may be given beside others, in any order.
    assert_eq!(
        good(&[PBS, GRID_ENGINE]).records,
        good(&[GRID_ENGINE, PBS]).records
    );
}

#[test]
fn a_bad_line_of_grid_engine_is_told_by_its_number() {
    let bad = GRID_ENGINE.replace(":1795421543:", ":soon:");
    let said = error(&bad);
    assert!(
        said.contains("line 3: start_time is 'soon', expected a whole number; correct it, or leave such lines out with --lenient"),
        "{said}"
    );
    let bad = GRID_ENGINE.replace("h_rt=0:5:0", "h_rt=ever");
    assert!(error(&bad).contains("line 3: h_rt is 'ever', expected a duration"));
    let cut = &GRID_ENGINE[..GRID_ENGINE.len() - 60];
    let said = error(cut);
    assert!(said.contains("line 10: it has 3"), "{said}");
    let lenient = Options {
        leniency: Leniency::Lenient,
        ..Options::default()
    };
    let imported = all(&[cut], &lenient).expect("a log");
    assert_eq!(
        (imported.records.len(), imported.left_out.bad_lines),
        (4, 1)
    );
    assert!(imported.first_bad_lines[0].contains("line 10"));
}

/// What is committed to a job of two slots, estimated at 100 s.
fn promise(class: &str) -> String {
    format!(
        "v=1:token=17:submitted=1700000000.25:estimate=100:deadline=400:budget=15:type=hard:penalty=0:price=10.5:\
         chunks=2:processors=1:memory=0:scatter=0:count=1{class}:margin=0.05:at=n1*2*0.2625"
    )
}

fn promised(text: &str) -> Result<Vec<[f64; 2]>, String> {
    let options = Options {
        promised: true,
        ..Options::default()
    };
    let imported = all(&[text], &options).map_err(|error| error.to_string())?;
    let note = imported.header.iter().any(|line| line.contains("promised"));
    assert!(note, "{:?}", imported.header);
    let needs = imported.records.iter();
    Ok(needs
        .map(|record| [record.run_time, record.requested_time])
        .collect())
}

#[test]
fn what_slurms_jobs_needed_is_held_against_their_own_estimates() {
    let line = |number: u32, state: &str, used: &str, comment: &str| {
        format!(
            "{number}|2027-01-31T08:00:00|2027-01-31T08:10:00|400|600|2|2|{state}|{used}|{comment}\n"
        )
    };
    let (shared, whole) = (promise(""), promise(":class=dedicated"));
    let mut text = "JobID|Submit|Start|ElapsedRaw|TimelimitRaw|ReqCPUS|AllocCPUS|State|TotalCPU|AdminComment\n".to_string();
    for (number, state, used, comment) in [
        (1, "COMPLETED", "03:40", format!("libra:{shared}")),
        // Another plugin's words stand in front, bars among them.
        (
            2,
            "COMPLETED",
            "02:00",
            format!("quota=7|paid|libra:{shared}:tasks=1-3"),
        ),
        (3, "COMPLETED", "00:10", format!("libra:{whole}")),
        (4, "CANCELLED by 1001", "03:10", format!("libra:{shared}")),
        (5, "COMPLETED", "00:00:00", format!("libra:{shared}")),
        (6, "COMPLETED", "03:40", String::new()),
        (7, "COMPLETED", "03:40", format!("libra-nothing:{shared}")),
        (8, "COMPLETED", "03:40", "libra:v=2:none=ours".to_string()),
        // Within its estimate it says nothing, beyond it all the more.
        (9, "FAILED", "03:00", format!("libra:{shared}")),
        (10, "CANCELLED by 1001", "10:00", format!("libra:{shared}")),
    ] {
        text += &line(number, state, used, &comment);
    }
    let needs = promised(&text).expect("a log");
    assert_eq!(
        needs,
        [
            [110.0, 100.0],
            [60.0, 100.0],
            [400.0, 100.0],
            [300.0, 100.0]
        ]
    );
    // In another place its bars would be those between columns.
    let early =
        "JobID|AdminComment|Submit|ElapsedRaw|ReqCPUS\n1|a|libra:x|2027-01-31T08:00:00|400|2\n";
    let said = promised(early).expect_err("six cells");
    assert!(said.contains("6 columns, expected 5"), "{said}");
    let named = "JobID|JobName|Submit|ElapsedRaw|ReqCPUS|AdminComment\n1|a|2027-01-31T08:00:00|400|2|libra:x\n";
    let said = promised(named).expect_err("a name may have bars too");
    assert!(said.contains("leave out the column JobName"), "{said}");
    let said = promised(SACCT).expect_err("no promise");
    assert!(
        said.contains("none of 4 jobs that ended") && said.contains("AdminComment"),
        "{said}"
    );
}

#[test]
fn what_pbss_jobs_needed_is_what_its_hosts_measured() {
    let line = |number: u32, exit: i32, terms: &str, progress: &str| {
        format!(
            "02/01/2027 00:10:00;E;{number}.pbs;user=anna ctime=1801468800 start=1801469000 end=1801469400 Resource_List.ncpus=2 \
             Resource_List.libra_terms={terms} Resource_List.walltime=00:10:00 Exit_status={exit} resources_used.cput=00:05:00 \
             resources_used.libra_progress={progress} resources_used.ncpus=2 resources_used.walltime=00:05:50\n"
        )
    };
    let (shared, whole) = (promise(""), promise(":class=dedicated"));
    let measured =
        r#"'{"n1": "99.500@1801469400.000@end@400.000", "n2": "120.250@1801469399.000@end"}'"#;
    let mut text = String::new();
    for (number, exit, terms, progress) in [
        (1, 0, &shared, measured),
        (2, 0, &whole, measured),
        (
            3,
            271,
            &shared,
            r#"'{"n1": "99.500@1801469400.000@end@400.000"}'"#,
        ),
        (4, 0, &shared, "'{}'"),
        (
            5,
            0,
            &shared,
            r#"'{"n1": "99.500@1801469400.000@end@400.000", "n2": "120.250@1801469399.000"}'"#,
        ),
        (6, 271, &shared, measured),
    ] {
        text += &line(number, exit, terms, progress);
    }
    let needs = promised(&text).expect("a log");
    assert_eq!(needs, [[120.25, 100.0], [350.0, 100.0], [120.25, 100.0]]);
}
