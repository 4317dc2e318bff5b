use super::super::directives::{DEFAULT_PREFIX, directives};
use super::super::options::parse;
use super::*;
use libra_wording::terms::deadline_as_duration;

/// Words and, where it was changed, the script.
type New = (Vec<String>, Option<String>);

/// What qsub gets.
fn read(words: &[&str], script: &str) -> Result<Option<New>, String> {
    let words: Vec<Vec<u8>> = words.iter().map(|word| word.as_bytes().to_vec()).collect();
    let line = parse(&words).expect("words that qsub takes");
    let directives = directives(script.as_bytes(), DEFAULT_PREFIX);
    let submission = Submission {
        words: &words,
        line: &line,
        script: script.as_bytes(),
        directives: &directives,
        script_name: "job.sh",
    };
    // A clock that stands still.
    let deadline = |text: &str| match text {
        "@17:30" => Ok(5399.1239),
        other => deadline_as_duration(other),
    };
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).expect("text");
    let rewritten = rewrite(&submission, &deadline)?;
    Ok(rewritten.map(|new| {
        let mut all = new.options;
        all.extend(rest(&words, &line.rest));
        (all.into_iter().map(text).collect(), new.script.map(text))
    }))
}

fn command_line(words: &[&str]) -> Vec<String> {
    let (words, script) = read(words, "").expect("valid").expect("of Libra");
    assert_eq!(script, None);
    words
}

fn script_of(script: &str) -> String {
    let (words, script) = read(&["x"], script).expect("valid").expect("of Libra");
    assert_eq!(words, ["x"]);
    script.expect("a changed script")
}

#[test]
fn a_deadline_may_count_from_the_start() {
    assert_eq!(
        command_line(&["-W", "deadline=2h/start,budget=9", "-h", "x"]),
        ["-l", "deadline=7200/start,budget=9", "-h", "x"]
    );
    for (value, part) in [
        (
            "@17:30/start",
            "-W: deadline: '@17:30/start' is a clock time, which counts from nothing; give '@17:30'",
        ),
        ("2h/begin", "-W: deadline: "),
        ("/start", "-W: deadline: "),
    ] {
        let error = read(&["-W", &format!("deadline={value}")], "").expect_err(part);
        assert!(error.contains(part), "{error}");
    }
}

#[test]
fn quotes_that_are_none() {
    for (words, part) in [
        (&["-W", "quote=7"][..], "-W: quote: '7' is not the number"),
        (
            &["-W", "quote=ask", "-l", "libra_quote=ask"],
            "quote is also given as a resource (-l libra_quote=…)",
        ),
    ] {
        let error = read(words, "").expect_err(part);
        assert!(error.contains(part), "{error}");
    }
    // A site's own resource of that name is none of Libra's.
    assert_eq!(read(&["-l", "quote=7"], ""), Ok(None));
}

#[test]
fn command_lines() {
    for (words, expected) in [
        (
            &["-W", "deadline=20,budget=15,estimate=10", "job.sh"][..],
            &["-l", "deadline=20,budget=15,estimate=10", "job.sh"][..],
        ),
        (&["-Wdeadline=20"], &["-l", "deadline=20"]),
        (
            &["-zhWdeadline=20", "-V"],
            &["-zh", "-l", "deadline=20", "-V"],
        ),
        (&["-W", " deadline = 20 "], &["-l", "deadline=20"]),
        (&["-W", "deadline=\"20\""], &["-l", "deadline=20"]),
        (&["-W", "Deadline-Type=SOFT"], &["-l", "deadline_type=soft"]),
        (
            &[
                "-W",
                "deadline=1h30m,estimate=00:01:30,budget=unlimited,penalty_rate=.5",
            ],
            &[
                "-l",
                "deadline=5400,estimate=90,budget=unlimited,penalty_rate=0.5",
            ],
        ),
        (&["-W", "deadline=@17:30"], &["-l", "deadline=5399.123"]),
        (
            &["-W", "quote=hold:5m,budget=1"],
            &["-l", "libra_quote=hold:5m,budget=1"],
        ),
        (
            &["-W", "Class=IMMEDIATE,estimate=10"],
            &["-l", "class=immediate,estimate=10"],
        ),
        (&["-W", "deadline=1.5ms"], &["-l", "deadline=0.001"]),
        (
            &["-W", "depend=afterok:1:2,deadline=20,block=true", "j"],
            &[
                "-l",
                "deadline=20",
                "-W",
                "depend=afterok:1:2,block=true",
                "j",
            ],
        ),
        (
            &["-W", "stagein=a@h:/b,c@h:/d,budget=1,umask=022"],
            &["-l", "budget=1", "-W", "stagein=a@h:/b,c@h:/d,umask=022"],
        ),
        // Later lists win, key by key.
        (
            &["-W", "deadline=20,budget=1", "-N", "x", "-W", "deadline=30"],
            &["-l", "budget=1", "-N", "x", "-l", "deadline=30"],
        ),
        (
            &["-W", "deadline=20", "-W", "deadline=30"],
            &["-l", "deadline=30"],
        ),
        // What is not Libra's, and what qsub calls illegal, is for qsub.
        (
            &["-W", "deadline=1", "-W", "colour=blue", "-W", "x", "-W", ""],
            &["-l", "deadline=1", "-W", "colour=blue", "-W", "x", "-W", ""],
        ),
        (
            &["-l", "deadline=60", "-N", "x"],
            &["-l", "deadline=60", "-N", "x"],
        ),
        (
            &["-l", "ncpus=1", "-W", "deadline=6", "--", "-W", "budget=1"],
            &["-l", "ncpus=1", "-l", "deadline=6", "--", "-W", "budget=1"],
        ),
    ] {
        assert_eq!(command_line(words), expected, "{words:?}");
    }
}

#[test]
fn nothing_of_libras() {
    for words in [
        &[][..],
        &["-W", "depend=afterok:1", "job.sh"],
        &["-N", "deadline=5", "-v", "budget=1", "job.sh"],
        &["--", "sleep", "-W", "deadline=5"],
        &["-A", "-Wdeadline=5"],
        &["-W", "deadline=5,"],
        &["-W", "libra_info=x"],
        &["-l", "walltime=60"],
    ] {
        assert_eq!(
            read(words, "echo\n#PBS -W deadline=5\n"),
            Ok(None),
            "{words:?}"
        );
    }
}

#[test]
fn scripts() {
    for (script, expected) in [
        (
            "#!/bin/sh\n#PBS -W deadline=20,budget=15,estimate=10\nhostname\n",
            "#!/bin/sh\n#PBS -l deadline=20,budget=15,estimate=10\nhostname\n",
        ),
        (
            "  #PBS  -N 'a b' -zWdeadline=1h  -o x  \nx\n",
            "  #PBS  -N 'a b' -z -l deadline=3600  -o x  \nx\n",
        ),
        (
            "#PBS -W \"depend=afterok:1, deadline=5\"\n",
            "#PBS -l deadline=5 -W depend=afterok:1\n",
        ),
        (
            "#PBS -W 'stagein=\"a b=c\",deadline=5'",
            "#PBS -l deadline=5 -W stagein=\\\"a\\ b=c\\\"",
        ),
        (
            "#PBS -W deadline=5,\\\nbudget=6,\\\nblock=true\n#PBS -z\n",
            "#PBS -l deadline=5,budget=6 -W block=true\n#PBS -z\n",
        ),
        // Later lines win.
        (
            "#PBS -W deadline=5\n#PBS -W deadline=6\n",
            "#PBS \n#PBS -l deadline=6\n",
        ),
        ("#PBS -W deadline=5\r\n", "#PBS -l deadline=5\r\n"),
        (
            "#PBS -W deadline=5\n# ä\x01\necho \\\n#PBS -W budget=1\n",
            "#PBS -l deadline=5\n# ä\x01\necho \\\n#PBS -W budget=1\n",
        ),
    ] {
        assert_eq!(script_of(script), expected, "{script}");
    }
}

#[test]
fn the_command_line_beats_the_script_key_by_key() {
    let script = "#PBS -W deadline=5,budget=6,umask=22\n";
    let (words, changed) = read(&["-W", "deadline=7", "x"], script)
        .expect("valid")
        .expect("of Libra");
    assert_eq!(words, ["-l", "deadline=7", "x"]);
    assert_eq!(changed.as_deref(), Some("#PBS -l budget=6 -W umask=22\n"));
    // A resource on the command line counts as well; what is beaten is not even read.
    let (words, changed) = read(&["-l", "deadline=7", "x"], "#PBS -W deadline=soon\n")
        .expect("valid")
        .expect("of Libra");
    assert_eq!(words, ["-l", "deadline=7", "x"]);
    assert_eq!(changed.as_deref(), Some("#PBS \n"));
    // qsub lets the command line win over a resource of the script.
    let (words, changed) = read(&["-W", "deadline=7", "x"], "#PBS -l deadline=9\n")
        .expect("valid")
        .expect("of Libra");
    assert_eq!(words, ["-l", "deadline=7", "x"]);
    assert_eq!(changed, None);
}

#[test]
fn what_is_wrong_is_said_with_its_place() {
    for (words, script, parts) in [
        (
            &["-W", "deadline=soon"][..],
            "",
            &["-W: deadline: 'soon'", "HH:MM:SS"][..],
        ),
        (&["-W", "budget=-1"], "", &["-W: budget", "credits"]),
        (&["-W", "estimate=0"], "", &["-W: estimate is 0"]),
        (&["-W", "estimate=1,2"], "", &["-W: estimate: '1,2'"]),
        (
            &["-W", "estimate=1,deadline=2,estimate=3"],
            "",
            &["-W: estimate is given twice"],
        ),
        (
            &["-W", "deadline=20", "-l", "ncpus=1,deadline=30"],
            "",
            &["deadline is also given as a resource"],
        ),
        (
            &["x"],
            "#!/bin/sh\n\n#PBS -W deadline=1:30\n",
            &["job.sh, line 3: -W: deadline: '1:30'"],
        ),
        (
            &["x"],
            "#PBS -l budget=1\n#PBS -W budget=2\n",
            &["job.sh, line 2: -W: budget is also given"],
        ),
    ] {
        let error = read(words, script).expect_err("wrong");
        for part in parts {
            assert!(error.contains(part), "{words:?}: {error}");
        }
    }
}

#[test]
fn interactive_jobs() {
    for (words, expected) in [
        (&["-I"][..], true),
        (&["-zIX"], true),
        (&["-W", "block=false,interactive=TRUE"], true),
        (&["-W", "interactive=false"], false),
        (&["-N", "I"], false),
    ] {
        let words: Vec<&[u8]> = words.iter().map(|word| word.as_bytes()).collect();
        let line = parse(&words).expect("valid");
        assert_eq!(interactive(&[&line]), expected, "{words:?}");
    }
}

#[test]
fn a_slip_is_named() {
    for (list, name, key) in [
        ("deadlin=20,budget=15,estimate=10", "deadlin", "deadline"),
        ("deadline=20,bugdet=15,estimate=10", "bugdet", "budget"),
        ("qoute=7", "qoute", "quote"),
        ("deadline_typ=soft", "deadline_typ", "deadline_type"),
    ] {
        let error = read(&["-W", list, "job.sh"], "").expect_err(list);
        let wanted = format!("-W: there is no '{name}'; did you mean {key}?");
        assert_eq!(error, wanted);
        let script = format!("#PBS -W {list}\n");
        let error = read(&["job.sh"], &script).expect_err(list);
        assert!(error.contains("line 1: -W: there is no"), "{error}");
    }
    // PBS's own, and what is like none of ours, is PBS's to judge.
    for list in OF_PBS {
        let list = format!("{list}=x");
        assert_eq!(read(&["-W", &list, "job.sh"], ""), Ok(None), "{list}");
    }
    assert_eq!(read(&["-W", "colour=red", "job.sh"], ""), Ok(None));
}

#[test]
fn a_class_of_service_that_there_is_not_is_refused_wherever_it_stands() {
    for (list, said) in [
        ("deadline=20,class=best-effort", "a job without terms"),
        ("Class=urgent", "'urgent' is no class of service"),
    ] {
        let error = read(&["-W", list, "job.sh"], "").expect_err(list);
        assert!(
            error.starts_with("-W: class") && error.contains(said),
            "{error}"
        );
        let script = format!("#PBS -W {list}\n");
        let error = read(&["job.sh"], &script).expect_err(list);
        assert!(error.starts_with("job.sh, line 1: -W: class"), "{error}");
    }
}
