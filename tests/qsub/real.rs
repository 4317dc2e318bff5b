//! Before OpenPBS's own qsub. There is no server: it reads its options and the script, and ends
//! where it would connect. So what it says tells how it read them.

use super::{all, libra_qsub, surround, text};
use proptest::prelude::*;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

const QSUB: &str = "/opt/pbs/bin/qsub";

/// A directory with a configuration that leads to the real qsub and to no server.
fn site() -> Option<tempfile::TempDir> {
    if !Path::new(QSUB).exists() {
        eprintln!("not run: there is no {QSUB}");
        return None;
    }
    let directory = tempfile::tempdir().expect("a directory");
    // Where it ends with an error it leaves its copy of the script.
    let conf = format!(
        "PBS_EXEC=/opt/pbs\nPBS_HOME=/nonexistent\nPBS_SERVER=127.0.0.1\nPBS_BATCH_SERVICE_PORT=1\nPBS_TMPDIR={}\n",
        directory.path().display()
    );
    fs::write(directory.path().join("pbs.conf"), conf).expect("a file");
    Some(directory)
}

fn conf(site: &Path) -> PathBuf {
    site.join("pbs.conf")
}

fn run(mut command: Command, site: &Path) -> Output {
    command
        .current_dir(site)
        .stdin(Stdio::null())
        .output()
        .expect("a program")
}

fn real(site: &Path, arguments: &[&str]) -> Output {
    let mut command = Command::new(QSUB);
    command.args(arguments);
    surround(&mut command, &conf(site));
    // The C library's messages start with the name that was called.
    std::os::unix::process::CommandExt::arg0(&mut command, "qsub");
    run(command, site)
}

fn ours(site: &Path, arguments: &[&str]) -> Output {
    run(libra_qsub(&conf(site), arguments), site)
}

/// It took everything, and found no server.
fn got_through(output: &Output) -> bool {
    text(&output.stderr).contains("cannot connect to server")
}

#[test]
fn it_reads_the_words_around_the_terms_as_we_do() {
    let Some(site) = site() else { return };
    let site = site.path();
    fs::write(site.join("j"), "hostname\n").expect("a script");
    let mut through = 0;
    for words in [
        &[][..],
        &["j"],
        &["-"],
        &["-N", "x", "j"],
        &["-Nx", "j"],
        &["-zhNx", "j"],
        &["-l", "ncpus=1", "j"],
        &["-l", "ncpus=1,", "j"],
        &["-r", "x", "j"],
        &["-N", "--", "j"],
        &["-N", "--", "-z", "j"],
        &["-N", "--", "--", "sleep"],
        &["-N", "--"],
        &["--"],
        &["--", "sleep", "1"],
        &["j", "-z"],
        &["j", "--", "sleep"],
        &["j", "argument"],
        &["-Q"],
        &["-W"],
        &["-W", "umask=22", "j"],
        &["-W", "umask=22,", "j"],
        &["-W", "umask", "j"],
        &["-W", "", "j"],
        &["-W", "stagein=a@h:/b,c@h:/d,umask=22", "j"],
        &["-W", "depend=\"afterok:1\"", "j"],
        &["not-there"],
        &["."],
        &["-q", "@@", "j"],
        &["-X", "j"],
        &["-I", "j"],
    ] {
        // As it is for qsub, and with terms in front and behind.
        let untouched = ours(site, words);
        assert_eq!(all(&untouched), all(&real(site, words)), "{words:?}");
        let with = |first: &[&'static str]| [first, words].concat();
        let expected = real(site, &with(&["-l", "deadline=5"]));
        let got = ours(site, &with(&["-W", "deadline=5"]));
        assert_eq!(all(&got), all(&expected), "{words:?}");
        through += usize::from(got_through(&got));
    }
    assert!(through > 10, "{through}");
}

#[test]
fn rewritten_scripts_are_scripts_to_it() {
    let Some(site) = site() else { return };
    let site = site.path();
    for (script, taken) in [
        ("#PBS -W deadline=5\nhostname\n", true),
        ("#PBS -W deadline=5\n#PBS -W deadline=6\n", true),
        ("#PBS -N x\\ y -zW 'deadline=5,umask=22' -l ncpus=1\n", true),
        ("#PBS -W deadline=5,\\\numask=22\nhostname\n", true),
        ("#PBS -W deadline=5\n#PBS -Q\n", false),
        ("#PBS -W deadline=5 # soon\n", false),
        ("#PBS -W deadline=5\r\n", true),
        ("#PBS -W deadline=5\n#PBS -N \"x\n", false),
        ("#PBS -W deadline=5\nhostname\n#PBS -Q\n", true),
        ("#PBS -W deadline=5 -l ncpus=1,\n", false),
        ("#PBS -W deadline=5 \\\\\n\n\nhostname\n", false),
        ("#PBS -W deadline=5 -N\\\\\n\n\nhostname\n", true),
        ("#PBS -W deadline=5 \\\n\\\\\n\n -h\nhostname\n", true),
    ] {
        fs::write(site.join("job.sh"), script).expect("a script");
        let resources = script.replace("-W deadline=5,", "-l deadline=5 -W ");
        let resources = resources.replace("-W deadline=", "-l deadline=");
        fs::write(site.join("plain.sh"), resources).expect("a script");
        let got = ours(site, &["job.sh"]);
        // A directive that qsub refuses is shown as it was.
        let expected = real(site, &["plain.sh"]);
        // Versions of qsub since the release of 23.06 refuse a line that ends as on Windows.
        let taken = match script.contains('\r') {
            true => got_through(&expected),
            false => taken,
        };
        assert_eq!(got_through(&got), taken, "{script}: {got:?}");
        if taken && !script.contains("'deadline") {
            assert_eq!(all(&got), all(&expected), "{script}");
        } else if !taken {
            assert_eq!(got.status.code(), expected.status.code(), "{script}");
        }
    }
}

fn words() -> impl Strategy<Value = Vec<&'static str>> {
    let word = prop::sample::select(vec![
        "-z",
        "-h",
        "-N",
        "-W",
        "-l",
        "-q",
        "--",
        "-",
        "j",
        "sleep",
        "-zN",
        "-Nx",
        "-Wumask=22",
        "umask=22",
        "block=false",
        "ncpus=1",
        "-V",
        "-zW",
        "-C",
        "#X",
        "",
        "-r",
        "y",
        "-Q",
        "deadline=5",
        "-S/bin/sh",
        "-p0",
        "-W umask=1",
    ]);
    prop::collection::vec(word, 0..6)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, failure_persistence: None, ..ProptestConfig::default() })]

    /// Terms in front, whatever follows: as qsub with the resource in front.
    #[test]
    fn any_words(words in words()) {
        let Some(site) = site() else { return Ok(()) };
        let site = site.path();
        fs::write(site.join("j"), "hostname\n").expect("a script");
        // A `-W` or `-l` with the same key again is ours to judge.
        prop_assume!(!words.contains(&"deadline=5"));
        let with = |first: &[&'static str]| [first, &words[..]].concat();
        let got = ours(site, &with(&["-W", "deadline=5"]));
        let expected = real(site, &with(&["-l", "deadline=5"]));
        prop_assert_eq!(all(&got), all(&expected));
    }
}

fn piece_of_line() -> impl Strategy<Value = String> {
    let piece = prop::sample::select(vec![
        "\"",
        "'",
        "\\",
        " ",
        " ",
        "\t",
        "-z",
        "-N",
        " -h ",
        "x",
        "--",
        "=",
        ",",
        "-W",
        " -Wumask=22 ",
        "umask=22",
        "\\\n",
        "\n#PBS ",
        "\n",
        "#",
        " -S /bin/sh ",
    ]);
    prop::collection::vec(piece, 0..5).prop_map(|pieces| pieces.concat())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, failure_persistence: None, ..ProptestConfig::default() })]

    /// Terms in a directive, whatever is around them: as qsub with the resource in their place.
    #[test]
    fn any_directive(before in piece_of_line(), after in piece_of_line()) {
        let Some(site) = site() else { return Ok(()) };
        let site = site.path();
        let script = |option: &str| format!("#PBS {before} {option} {after}\n#PBS -p 1\nhostname\n");
        // A directive with an error is shown as it is, so there only the end is the same.
        let said = |output: &Output| {
            let (code, out, error) = all(output);
            let wrong = error.contains("qsub: directive error");
            (code, out, if wrong { String::new() } else { error })
        };
        fs::write(site.join("job.sh"), script("-W deadline=5")).expect("a script");
        let got = ours(site, &["job.sh"]);
        fs::write(site.join("job.sh"), script("-l deadline=5")).expect("a script");
        let expected = real(site, &["job.sh"]);
        prop_assert_eq!(said(&got), said(&expected));
    }
}
