//! Lines of the Standard Workload Format, good and bad.

use super::*;
use proptest::prelude::*;

const LINE: &[u8] = b"   12   566290    532  26171    1  24666.25    -1    2  28800    4096  5 153  75 18180  3 1 11 60\r\n";

#[test]
fn all_eighteen_fields() {
    let expected = SwfRecord {
        number: 12,
        submit: 566_290.0,
        wait: 532.0,
        run_time: 26_171.0,
        allocated: 1,
        cpu_time: 24_666.25,
        used_memory: -1.0,
        requested: 2,
        requested_time: 28_800.0,
        requested_memory: 4096.0,
        status: 5,
        user: 153,
        group: 75,
        executable: 18_180,
        queue: 3,
        partition: 1,
        preceding: 11,
        think_time: 60.0,
    };
    assert_eq!(parse(LINE), Ok(expected));
    let mut line = Vec::new();
    expected.write(&mut line);
    assert_eq!(
        String::from_utf8_lossy(&line),
        "12 566290 532 26171 1 24666.25 -1 2 28800 4096 5 153 75 18180 3 1 11 60\n"
    );
    let mut line = Vec::new();
    SwfRecord::unknown(7, 0.5).write(&mut line);
    assert_eq!(
        String::from_utf8_lossy(&line),
        "7 0.5 -1 -1 -1 -1 -1 -1 -1 -1 -1 -1 -1 -1 -1 -1 -1 -1\n"
    );
    assert_eq!(parse(&line), Ok(SwfRecord::unknown(7, 0.5)));
}

#[test]
fn decimals_are_taken_where_they_make_sense() {
    let line = b"1.00 0.125 1e2 +5 4.0 0 0 4.00 10.5 0 1.0 1 1 1 1 1 -1.00 -1";
    let record = parse(line).expect("decimals");
    assert_eq!(
        (record.number, record.submit, record.wait, record.run_time),
        (1, 0.125, 100.0, 5.0)
    );
    assert_eq!((record.requested, record.requested_time), (4, 10.5));
}

/// A good line with field `field` (from 1) replaced.
fn with(field: usize, text: &str) -> Vec<u8> {
    let line = String::from_utf8_lossy(LINE).into_owned();
    let mut fields: Vec<&str> = line.split_whitespace().collect();
    fields[field - 1] = text;
    fields.join(" ").into_bytes()
}

#[test]
fn what_is_wrong_with_a_line_is_said() {
    for (field, text, message) in [
        (
            1,
            "-1",
            "field 1 (job number) is '-1', expected a whole number from 0 to 4294967295",
        ),
        (1, "4294967296", "field 1 (job number)"),
        (
            2,
            "-2",
            "field 2 (submit time) is '-2', expected seconds from the start of the log",
        ),
        (3, "-2", "field 3 (wait time) is '-2', expected seconds"),
        (
            4,
            "abc",
            "field 4 (run time) is 'abc', expected seconds from 0 to 10000000000, or -1",
        ),
        (4, "nan", "'nan'"),
        (4, "inf", "'inf'"),
        (4, "1e99", "'1e99'"),
        (4, "1.5.2", "'1.5.2'"),
        (4, "-", "'-'"),
        (4, ".", "'.'"),
        (4, "-1.5", "'-1.5'"),
        (
            5,
            "1.5",
            "field 5 (allocated processors) is '1.5', expected a whole number",
        ),
        (
            8,
            "3000000000",
            "field 8 (requested processors) is '3000000000'",
        ),
        (10, "-7", "field 10 (requested memory)"),
        (11, "ok", "field 11 (status) is 'ok', expected 0 to 5"),
        (12, "alice", "field 12 (user) is 'alice'"),
        (17, "-3", "field 17 (preceding job)"),
        (18, "x", "field 18 (think time)"),
        (
            4,
            "0123456789012345678901234567890123456789x",
            "'01234567890123456789012345678901',",
        ),
        (4, "\u{7}\u{1b}[1m", "'\\u{7}\\u{1b}[1m'"),
    ] {
        let error = parse(&with(field, text)).expect_err(text).to_string();
        assert!(error.contains(message), "{text}: {error}");
    }
    for (line, fields) in [("", 0), ("1 2 3", 3), ("a b c d e f g", 7)] {
        assert_eq!(parse(line.as_bytes()), Err(BadLine::Fields(fields)));
    }
    let mut long = LINE.to_vec();
    long.extend_from_slice(b" 19");
    let error = parse(&long).expect_err("nineteen").to_string();
    assert_eq!(
        error,
        "19 fields, expected the 18 of the Standard Workload Format"
    );
    assert!(parse(b"\xff 2 3 4 5 6 7 8 9 10 1 12 13 14 15 16 17 18").is_err());
}

#[test]
fn processors_are_those_asked_for_or_else_those_given() {
    let mut record = SwfRecord::unknown(1, 0.0);
    assert_eq!(record.processors(), None);
    record.allocated = 8;
    assert_eq!(record.processors(), Some(8));
    record.requested = 4;
    assert_eq!(record.processors(), Some(4));
    record.requested = 0;
    assert_eq!(record.processors(), Some(8));
}

#[test]
fn the_header_of_an_archive_log() {
    let mut header = Header::default();
    for line in [
        &b"; Version: 2.2"[..],
        b";Computer: IBM SP2",
        b"; MaxNodes: 338 (batch partition; 512 total)\r\n",
        b"; MaxProcs: 338",
        b"; UnixStartTime: 835823160",
        b"; Note: caf\xe9",
        b";",
        b"; MaxProcs: 512",
    ] {
        header.push(line);
    }
    assert_eq!(header.max_nodes(), Some(338));
    assert_eq!(header.max_processors(), Some(338));
    assert_eq!(header.unix_start_time(), Some(835_823_160));
    assert_eq!(header.value("computer"), Some("IBM SP2"));
    assert_eq!(header.value("Note"), Some("caf\u{fffd}"));
    assert_eq!(header.value("TimeZone"), None);
    assert_eq!(header.comments.len(), 8);
    header.comments = vec!["MaxProcs: many".to_string()];
    assert_eq!(header.max_processors(), None);
}

fn time() -> impl Strategy<Value = f64> {
    prop_oneof![
        Just(-1.0),
        0.0..1e10f64,
        (0u32..u32::MAX).prop_map(f64::from)
    ]
}

fn id() -> impl Strategy<Value = i32> {
    -1..=i32::MAX
}

prop_compose! {
    fn record()(
        (number, preceding, status) in (any::<u32>(), any::<u32>(), -1i32..=i32::MAX),
        (submit, wait, run_time, cpu_time) in (0.0..1e10f64, time(), time(), time()),
        (requested_time, think_time, used_memory, requested_memory) in (time(), time(), time(), time()),
        (allocated, requested, user, group) in (id(), id(), id(), id()),
        (executable, queue, partition) in (id(), id(), id()),
    ) -> SwfRecord {
        SwfRecord {
            number, submit, wait, run_time, allocated, cpu_time, used_memory, requested,
            requested_time, requested_memory, status, user, group, executable, queue, partition,
            preceding, think_time,
        }
    }
}

proptest! {
    #[test]
    fn what_is_written_reads_back(record in record()) {
        let mut line = Vec::new();
        record.write(&mut line);
        prop_assert_eq!(parse(&line), Ok(record));
    }

    #[test]
    fn numbers_are_read_as_the_standard_library_reads_them(text in "-?[0-9]{0,18}[.]?[0-9]{0,6}") {
        let expected: Option<f64> = text.parse().ok();
        prop_assert_eq!(number(text.as_bytes()), expected);
    }

    #[test]
    fn no_line_panics(line in proptest::collection::vec(any::<u8>(), 0..200)) {
        let _ = parse(&line);
    }
}
