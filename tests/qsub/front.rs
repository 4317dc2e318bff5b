//! Before an executable in qsub's place that writes down its arguments and its script.

use super::{all, libra_qsub, program, surround, text};
use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::os::unix::fs::symlink;
use std::os::unix::process::ExitStatusExt;
use std::path::PathBuf;
use std::process::{Command, Output, Stdio};

/// Writes down its arguments, then its script as qsub finds it, and answers as `SAYS` and `ENDS` say.
const RECORDER: &str = r#"#!/bin/bash
printf '%s\n' "$@" >"$RECORD/arguments"
script=
for word; do
    [ "$word" = -- ] && script=none
    [ -n "$script" ] || [ ! -f "$word" ] || script=$word
done
case $script in
none) ;;
'') cat >"$RECORD/script" ;;
*) cat "$script" >"$RECORD/script" ;;
esac
[ -z "$SAYS" ] || echo "$SAYS"
[ -z "$COMPLAINS" ] || echo "$COMPLAINS" >&2
eval "$THEN"
exit "${ENDS:-0}"
"#;

const QSTAT: &str = r#"#!/bin/bash
printf '%s\n' "$@" >"$RECORD/asked"
printf '{\n"Jobs":{\n"%s":{\n"Resource_List":{%s}}}}\n' "$4" "$KNOWS"
"#;

const KNOWS: &str = r#""libra_info":"accepted: 0.525 of n2, for 10.5 of 15 credits""#;

struct Site {
    directory: tempfile::TempDir,
}

impl Site {
    fn new() -> Site {
        let directory = tempfile::tempdir().expect("a temporary directory");
        let site = Site { directory };
        fs::create_dir_all(site.path("pbs/bin")).expect("a directory");
        site.program("pbs/bin/qsub", RECORDER);
        site.program("pbs/bin/qstat", QSTAT);
        let conf = format!("PBS_EXEC={}\n", site.path("pbs").display());
        fs::write(site.path("pbs.conf"), conf).expect("a file");
        site
    }

    fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    fn program(&self, name: &str, text: &str) {
        program::write(&self.path(name), text.as_bytes());
    }

    fn script(&self, name: &str, text: &str) -> String {
        fs::write(self.path(name), text).expect("a script");
        name.to_string()
    }

    fn prepare(&self, command: &mut Command) {
        command
            .env("RECORD", self.directory.path())
            .current_dir(self.directory.path())
            .stdin(Stdio::null());
    }

    fn command(&self, arguments: &[&str]) -> Command {
        let mut command = libra_qsub(&self.path("pbs.conf"), arguments);
        self.prepare(&mut command);
        command
    }

    /// Submits, with this on standard input, through a pipe.
    fn pipe(&self, arguments: &[&str], input: &str) -> Output {
        let mut child = self
            .command(arguments)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("libra");
        let mut stdin = child.stdin.take().expect("a pipe");
        stdin.write_all(input.as_bytes()).expect("read by libra");
        drop(stdin);
        child.wait_with_output().expect("libra")
    }

    fn arguments(&self) -> Vec<String> {
        let text = fs::read_to_string(self.path("arguments")).expect("qsub was called");
        text.lines().map(str::to_string).collect()
    }

    fn got_script(&self) -> String {
        fs::read_to_string(self.path("script")).expect("qsub had a script")
    }

    fn assert_not_called(&self) {
        assert!(!self.path("arguments").exists(), "qsub was called");
    }
}

fn submits(command: &mut Command) -> Output {
    let output = command.output().expect("libra");
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    output
}

#[test]
fn the_papers_own_line() {
    let site = Site::new();
    let job = site.script("job.sh", "#!/bin/sh\nhostname\n");
    let output = submits(
        site.command(&["-W", "deadline=20,budget=15,estimate=10", &job])
            .env("SAYS", "12.server")
            .env("KNOWS", KNOWS),
    );
    assert_eq!(text(&output.stdout), "12.server\n");
    assert_eq!(
        text(&output.stderr),
        "libra: accepted: 0.525 of n2, for 10.5 of 15 credits\n"
    );
    assert_eq!(
        site.arguments(),
        ["-l", "deadline=20,budget=15,estimate=10", "job.sh"]
    );
    let asked = fs::read_to_string(site.path("asked")).expect("qstat was called");
    assert_eq!(asked, "-f\n-F\njson\n12.server\n");
}

#[test]
fn a_script_keeps_its_name_and_all_but_one_line() {
    let site = Site::new();
    let text =
        "#!/bin/sh\n#PBS -l ncpus=1\n#PBS -W umask=22,deadline=1h\necho '#PBS -W budget=1'\n";
    fs::create_dir(site.path("my jobs")).expect("a directory");
    let job = site.script("my jobs/1st.sh", text);
    submits(&mut site.command(&["-W", "budget=5", "-V", &job]));
    let arguments = site.arguments();
    assert_eq!(arguments[..5], ["-l", "budget=5", "-V", "-N", "1st.sh"]);
    assert!(arguments[5].starts_with("/proc/self/fd/"), "{arguments:?}");
    assert_eq!(arguments.len(), 6);
    assert_eq!(
        site.got_script(),
        text.replace("-W umask=22,deadline=1h", "-l deadline=3600 -W umask=22")
    );
    assert_eq!(fs::read_to_string(site.path(&job)).expect("there"), text);

    // A name that was given stays.
    submits(&mut site.command(&["-N", "x", &job]));
    assert_eq!(site.arguments()[..2], ["-N", "x"]);
    assert_eq!(site.arguments().len(), 3);
    let named = site.script("named.sh", "#PBS -N y\n#PBS -W deadline=5\n");
    submits(&mut site.command(&[&named]));
    assert_eq!(site.arguments().len(), 1);
}

#[test]
fn scripts_on_standard_input() {
    let site = Site::new();
    let script = "#PBS -W deadline=5\nhostname\n";
    let rewritten = "#PBS -l deadline=5\nhostname\n";
    for arguments in [&[][..], &["-"], &["-z"]] {
        let output = site.pipe(arguments, script);
        assert_eq!(output.status.code(), Some(0), "{output:?}");
        assert_eq!(site.arguments().join(" "), arguments.join(" "));
        assert_eq!(site.got_script(), rewritten);
        // From a file, not from its start.
        site.script("input", &format!("first\n{script}"));
        let command = site.command(arguments);
        let mut shell = Command::new("bash");
        site.prepare(&mut shell);
        surround(&mut shell, &site.path("pbs.conf"));
        let program = command.get_program();
        submits(
            shell
                .args(["-c", "{ read -r line; \"$@\"; } <input", "bash"])
                .arg(program)
                .args(command.get_args()),
        );
        assert_eq!(site.got_script(), rewritten);
    }
    // Looked into, found nothing, and passed on complete.
    let long = format!("hostname\n{}", "# nothing of interest\n".repeat(50_000));
    let output = site.pipe(&["-N", "x"], &long);
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    assert_eq!(site.got_script(), long);
    let output = site.pipe(&["-W", "deadline=5"], &long);
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    assert_eq!(site.got_script(), long);
    assert_eq!(site.arguments(), ["-l", "deadline=5"]);
}

#[test]
fn what_is_not_libras_stays_as_it_is() {
    let site = Site::new();
    let job = site.script("job.sh", "#PBS -W block=true\n#PBS -N x\nhostname\n");
    for arguments in [
        &[][..],
        &["job.sh"],
        &["-zhNname", "-W", "depend=afterok:1,umask=22", "job.sh"],
        &["-I", "-X"],
        &["-v", "A=1,B=\"2,3\"", "-h", "job.sh"],
        &["--version"],
        &["--help", "me"],
        &["-Q", "-W", "deadline=5"],
        &["job.sh", "-W", "deadline=5"],
        &["-W", "deadline=5,", "job.sh"],
        &["--", "sleep", "-W", "deadline=5"],
        &["-W"],
    ] {
        let output = site
            .command(arguments)
            .env("SAYS", "12.server")
            .env("COMPLAINS", "qsub: hm")
            .env("ENDS", "42")
            .env("KNOWS", KNOWS)
            .output()
            .expect("libra");
        let expected = (Some(42), "12.server\n".into(), "qsub: hm\n".into());
        assert_eq!(all(&output), expected, "{arguments:?}");
        let got = fs::read_to_string(site.path("arguments")).expect("called");
        assert_eq!(got, arguments.join("\n") + "\n", "{arguments:?}");
    }
    assert!(!site.path("asked").exists(), "nobody was to ask");
    let _ = job;
}

#[test]
fn wrong_terms_are_not_submitted() {
    let site = Site::new();
    site.script("job.sh", "#!/bin/sh\n#PBS -W estimate=1:30\n");
    for (arguments, part) in [
        (
            &["-W", "deadline=soon", "x"][..],
            "libra: -W: deadline: 'soon'",
        ),
        (&["job.sh"], "libra: job.sh, line 2: -W: estimate: '1:30'"),
    ] {
        let output = site.command(arguments).output().expect("libra");
        let (code, out, error) = all(&output);
        assert_eq!(code, Some(2), "{error}");
        assert_eq!(out, "");
        assert!(error.contains(part), "{error}");
        site.assert_not_called();
    }
}

#[test]
fn a_refusal_is_passed_on() {
    let site = Site::new();
    let output = site
        .command(&["-W", "deadline=5", "--", "sleep"])
        .env("COMPLAINS", "qsub: libra: refused (share): …")
        .env("ENDS", "32")
        .env("KNOWS", KNOWS)
        .output()
        .expect("libra");
    let complaint = "qsub: libra: refused (share): …\n".to_string();
    assert_eq!(all(&output), (Some(32), String::new(), complaint));
    assert!(!site.path("asked").exists());
}

#[test]
fn quiet_where_it_should_be() {
    let site = Site::new();
    for (arguments, knows) in [
        (&["-z", "-W", "deadline=5", "--", "sleep"][..], KNOWS),
        (&["-W", "deadline=5", "--", "sleep"], ""),
        (&["-W", "deadline=5", "--", "sleep"], "\"ncpus\":1"),
    ] {
        let output = submits(
            site.command(arguments)
                .env("SAYS", "12.server")
                .env("KNOWS", knows),
        );
        assert_eq!(all(&output), (Some(0), "12.server\n".into(), String::new()));
    }
    assert!(site.path("asked").exists());
    fs::remove_file(site.path("asked")).expect("removed");
    let status = site
        .command(&["-W", "deadline=5", "--", "sleep"])
        .env("SAYS", "12.server")
        .stderr(Stdio::null())
        .status()
        .expect("libra");
    assert!(status.success());
    assert!(!site.path("asked").exists(), "asked for nobody");
    fs::remove_file(site.path("pbs/bin/qstat")).expect("removed");
    let output = submits(
        site.command(&["-W", "deadline=5", "--", "sleep"])
            .env("SAYS", "12.server"),
    );
    assert_eq!(all(&output), (Some(0), "12.server\n".into(), String::new()));
}

#[test]
fn the_server_that_was_named_is_asked() {
    let site = Site::new();
    let job = site.script("job.sh", "#PBS -q a@other -l deadline=5\n");
    submits(site.command(&[&job]).env("SAYS", "12.server"));
    let asked = fs::read_to_string(site.path("asked")).expect("qstat was called");
    assert!(asked.ends_with("\n12.server@other\n"), "{asked}");
}

/// With `-W block=true`, qsub waits: the id and the verdict are there before it ends.
#[test]
fn what_is_known_is_said_at_once_and_signals_go_on() {
    let site = Site::new();
    let mut child = site
        .command(&["-W", "block=true,deadline=5", "--", "sleep"])
        .env("SAYS", "12.server")
        .env("KNOWS", KNOWS)
        .env(
            "THEN",
            "trap 'exit 7' TERM; touch $RECORD/ready; while :; do sleep 0.05; done",
        )
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("libra");
    let mut line = String::new();
    let mut out = BufReader::new(child.stdout.take().expect("a pipe"));
    out.read_line(&mut line).expect("the id");
    assert_eq!(line, "12.server\n");
    let mut errors = BufReader::new(child.stderr.take().expect("a pipe"));
    line.clear();
    errors.read_line(&mut line).expect("the verdict");
    assert!(line.starts_with("libra: accepted"), "{line}");
    let start = std::time::Instant::now();
    while !site.path("ready").exists() {
        assert!(start.elapsed().as_secs() < 300, "qsub sets no trap");
        std::thread::sleep(std::time::Duration::from_millis(5));
    }
    let pid = nix::unistd::Pid::from_raw(child.id() as i32);
    nix::sys::signal::kill(pid, nix::sys::signal::Signal::SIGTERM).expect("it runs");
    assert_eq!(child.wait().expect("libra").code(), Some(7));
}

#[test]
fn it_ends_by_the_signal_that_ended_qsub() {
    let site = Site::new();
    let output = site
        .command(&["-W", "deadline=5", "--", "sleep"])
        .env("THEN", "kill -INT $$")
        .output()
        .expect("libra");
    assert_eq!(output.status.signal(), Some(2), "{output:?}");
}

/// The background process that qsub leaves behind must not keep anybody waiting.
#[test]
fn who_inherits_the_output_is_not_waited_for() {
    let site = Site::new();
    let start = std::time::Instant::now();
    let output = submits(
        site.command(&["-W", "deadline=5", "--", "sleep"])
            .env("SAYS", "12.server")
            // Its own pipe is inherited, and nothing of the test's.
            .env("THEN", "sleep 1000 2>/dev/null & echo $! >$RECORD/left"),
    );
    assert_eq!(text(&output.stdout), "12.server\n");
    assert!(start.elapsed().as_secs() < 900, "{:?}", start.elapsed());
    let left = fs::read_to_string(site.path("left")).expect("a process");
    let left = nix::unistd::Pid::from_raw(left.trim().parse().expect("a pid"));
    nix::sys::signal::kill(left, nix::sys::signal::Signal::SIGTERM).expect("it ran on");
}

#[test]
fn under_the_name_qsub_ahead_in_path() {
    let site = Site::new();
    for directory in ["link", "script", "copy"] {
        fs::create_dir(site.path(directory)).expect("a directory");
    }
    let libra = env!("CARGO_BIN_EXE_libra");
    symlink(libra, site.path("link/qsub")).expect("a link");
    site.program(
        "script/qsub",
        &format!("#!/bin/sh\nexec '{libra}' qsub \"$@\"\n").replace(&format!("'{libra}'"), libra),
    );
    program::write(&site.path("copy/qsub"), &fs::read(libra).expect("libra"));
    // No configuration leads to the real one: PATH does.
    fs::write(site.path("empty.conf"), "").expect("a file");
    let run = |path: &[&str], conf: &str, first: &str| {
        let path = std::env::join_paths(path.iter().map(|name| site.path(name))).expect("a path");
        let old = std::env::var_os("PATH").unwrap_or_default();
        let mut whole = path;
        whole.push(":");
        whole.push(old);
        let mut command = Command::new(site.path(first));
        site.prepare(&mut command);
        surround(&mut command, &site.path(conf));
        command
            .args(["-W", "deadline=5", "-h", "--", "sleep"])
            .env("PATH", whole)
            .output()
            .expect("libra")
    };
    for first in ["link/qsub", "script/qsub", "copy/qsub"] {
        let _ = fs::remove_file(site.path("arguments"));
        let output = run(&["link", "script", "pbs/bin"], "pbs.conf", first);
        assert_eq!(output.status.code(), Some(0), "{first}: {output:?}");
        assert_eq!(
            site.arguments(),
            ["-l", "deadline=5", "-h", "--", "sleep"],
            "{first}"
        );
    }
    if std::path::Path::new("/opt/pbs/bin/qsub").exists() {
        eprintln!("not run: searching PATH alone, as /opt/pbs/bin/qsub is there");
        return;
    }
    let output = run(&["link", "script", "pbs/bin"], "empty.conf", "link/qsub");
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    // None but ourselves, in two copies: no circle.
    let output = run(&["link", "script", "copy"], "empty.conf", "link/qsub");
    assert_eq!(output.status.code(), Some(2), "{output:?}");
    assert!(text(&output.stderr).contains("PBS_EXEC"), "{output:?}");
}

#[test]
fn help_says_whose_the_options_are() {
    let site = Site::new();
    let output = submits(&mut site.command(&["--help"]));
    let help = text(&output.stdout);
    for part in ["qsub(1B)", "deadline", "Exit status"] {
        assert!(help.contains(part), "{help}");
    }
    site.assert_not_called();
}
