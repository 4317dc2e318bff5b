//! Logs as they are found: whole, packed, cut off, out of order.

use super::*;
use flate2::{Compression, write::GzEncoder};
use std::io::Write;

fn job(number: u32, submit: u32, run_time: i32) -> String {
    format!("{number} {submit} 0 {run_time} 1 -1 -1 1 100 -1 1 1 1 1 1 1 -1 -1\n")
}

fn pack(text: &str) -> Vec<u8> {
    let mut packed = GzEncoder::new(Vec::new(), Compression::default());
    packed.write_all(text.as_bytes()).expect("to memory");
    packed.finish().expect("to memory")
}

fn strict(bytes: &[u8]) -> Result<Log, TraceError> {
    read_from(bytes, "a.swf", Leniency::Strict)
}

fn lenient(bytes: &[u8]) -> Result<Log, TraceError> {
    read_from(bytes, "a.swf", Leniency::Lenient)
}

fn error(bytes: &[u8]) -> String {
    strict(bytes).expect_err("an error").to_string()
}

fn numbers(log: &Log) -> Vec<u32> {
    log.records.iter().map(|record| record.number).collect()
}

#[test]
fn plain_or_gzip_whatever_the_name() {
    let text = format!(
        "; Version: 2.2\n; MaxProcs: 4\n\n{}\r\n  ; a remark\n{}",
        job(1, 0, 10),
        job(2, 5, -1).trim_end()
    );
    let plain = strict(text.as_bytes()).expect("a log");
    assert_eq!(numbers(&plain), [1, 2]);
    assert_eq!(plain.header.max_processors(), Some(4));
    assert_eq!((plain.header.comments.len(), plain.never_ran()), (2, 1));
    assert_eq!(strict(&pack(&text)).expect("a log"), plain);
    // gzip files may be put one behind the other.
    let mut two = pack(&job(1, 0, 10));
    two.extend_from_slice(&pack(&job(2, 5, -1)));
    assert_eq!(strict(&two).expect("a log").records, plain.records);
}

#[test]
fn comments_need_not_be_utf8() {
    let mut bytes = b"; Installation: K\xf8benhavn\n".to_vec();
    bytes.extend_from_slice(job(1, 0, 10).as_bytes());
    let log = strict(&bytes).expect("a log");
    assert_eq!(log.header.value("Installation"), Some("K\u{fffd}benhavn"));
}

#[test]
fn gzip_that_is_cut_off_or_damaged() {
    let text: String = (0..2000).map(|n| job(n, n * 7, 10)).collect();
    let packed = pack(&text);
    for end in [packed.len() - 1, packed.len() - 8, packed.len() / 2, 11] {
        let error = error(&packed[..end]);
        assert!(
            error.contains("a.swf: the gzip data ends in the middle") && error.contains("again"),
            "{end}: {error}"
        );
        // Half a log is not taken for a log under --lenient either.
        assert!(lenient(&packed[..end]).is_err());
    }
    let mut damaged = packed.clone();
    let last = damaged.len() - 6;
    damaged[last] ^= 0xff;
    let error = error(&damaged);
    assert!(error.contains("damaged after line 2000"), "{error}");
}

#[test]
fn what_is_packed_otherwise_is_named() {
    for (start, program) in [
        (&b"\xfd7zXZ\0\0\x04"[..], "xz"),
        (b"BZh91AY&SY", "bzip2"),
        (b"\x28\xb5\x2f\xfd....", "zstd"),
        (b"PK\x03\x04....", "zip"),
    ] {
        let error = error(start);
        assert!(
            error.contains(&format!(
                "packed with {program}, expected plain text or gzip"
            )),
            "{error}"
        );
    }
}

#[test]
fn what_has_no_job_is_not_a_log() {
    assert_eq!(
        error(b""),
        "a.swf: no job in 0 lines; expected lines of 18 numbers in the Standard Workload Format"
    );
    assert!(error(b"; only\n; comments\n\n").contains("no job in 3 lines"));
    assert!(error(&pack("")).contains("no job in 0 lines"));
    let error = lenient(b"# Read me\n\nThis is prose.\n").expect_err("prose");
    assert_eq!(
        error.to_string(),
        "a.swf: no job in 3 lines (the first that was left out is line 1: 3 fields, expected the 18 \
         of the Standard Workload Format); expected lines of 18 numbers in the Standard Workload Format"
    );
}

#[test]
fn a_bad_line_is_an_error_or_left_out() {
    let mut text = job(1, 0, 10);
    for _ in 0..7 {
        text += "1 2 3\n";
    }
    text += &job(2, 5, 10);
    assert_eq!(
        error(text.as_bytes()),
        "a.swf: line 2: 3 fields, expected the 18 of the Standard Workload Format; correct it, or \
         leave such lines out with --lenient"
    );
    let log = lenient(text.as_bytes()).expect("two jobs");
    assert_eq!(
        (numbers(&log), log.skipped, log.sorted),
        (vec![1, 2], 7, None)
    );
    assert_eq!(log.first_skipped.len(), Log::SHOWN);
    assert_eq!(log.first_skipped[0].line, 2);
}

#[test]
fn a_line_without_end_is_not_read_to_its_end() {
    let endless = io::repeat(b'1');
    let error = read_from(endless, "zero", Leniency::Lenient).expect_err("endless");
    assert!(
        error
            .to_string()
            .contains("line 1: longer than 65536 bytes; this is not a log"),
        "{error}"
    );
}

#[test]
fn jobs_out_of_order_are_an_error_or_sorted() {
    let text = format!(
        "; one line\n{}{}{}{}",
        job(1, 100, 1),
        job(2, 50, 1),
        job(3, 100, 1),
        job(4, 20, 1)
    );
    assert_eq!(
        error(text.as_bytes()),
        "a.swf: line 3: submitted at 50 s, before the job in line 2, submitted at 100 s; sort the \
         jobs by submit time, or have it done with --lenient"
    );
    let log = lenient(text.as_bytes()).expect("a log");
    // 1 and 3 were submitted at one time and stay in the file's order.
    assert_eq!(numbers(&log), [4, 2, 1, 3]);
    let disorder = log.sorted.expect("said");
    assert_eq!((disorder.line, disorder.line_above), (3, 2));
}

#[test]
fn parts_of_a_log() {
    let jobs = [1, 2, 3, 4];
    for (subset, expected) in [
        (Subset::All, &jobs[..]),
        (Subset::First(2), &[1, 2]),
        (Subset::First(9), &jobs),
        (Subset::Last(3), &[2, 3, 4]),
        (Subset::Last(9), &jobs),
        (Subset::Last(0), &[]),
    ] {
        assert_eq!(subset.of(&jobs), expected, "{subset:?}");
    }
}

#[test]
fn files_that_are_none() {
    let directory = tempfile::tempdir().expect("a directory");
    let error = read(directory.path(), Leniency::Strict).expect_err("a directory");
    assert!(error.to_string().contains("is a directory"), "{error}");
    let error = read(&directory.path().join("no.swf"), Leniency::Strict).expect_err("no file");
    assert!(
        error.to_string().contains("no.swf: cannot be opened"),
        "{error}"
    );
    let file = directory.path().join("trace.txt");
    std::fs::write(&file, pack(&job(3, 0, 1))).expect("a file");
    let log = read(&file, Leniency::Strict).expect("gzip by its first bytes");
    assert_eq!(numbers(&log), [3]);
}

#[test]
fn logs_as_they_come() {
    // A job of which nobody knows when it was submitted stands between others, and is no disorder.
    let text = format!(
        "{}{}{}",
        job(1, 5, 10),
        job(2, 0, 10).replacen("2 0", "2 -1", 1),
        job(3, 7, 10)
    );
    for log in [strict(text.as_bytes()), lenient(text.as_bytes())] {
        let log = log.expect("a log");
        assert_eq!(numbers(&log), [1, 3]);
        assert_eq!((log.not_submitted, log.skipped), (1, 0));
        assert_eq!(log.sorted, None);
    }
    // A code of the system's own.
    let status = job(1, 5, 10).replacen("100 -1 1 ", "100 -1 265 ", 1);
    let log = strict(status.as_bytes()).expect("a log");
    assert_eq!(log.records[0].status, 265);
    let error = error(job(1, 0, 10).replacen("1 0", "1 -2", 1).as_bytes());
    assert!(
        error.contains("field 2 (submit time) is '-2', expected seconds"),
        "{error}"
    );
}
