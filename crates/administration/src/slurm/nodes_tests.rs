use super::*;
use std::path::PathBuf;

fn finding(level: Level, text: &str) -> Finding {
    Finding {
        level,
        text: text.to_string(),
        node: None,
    }
}

fn held(node: &str, version: &str, hash: &str) -> Finding {
    Finding {
        node: Some(Running {
            name: node.to_string(),
            version: version.to_string(),
            configuration: PathBuf::from("/c"),
            hash: Some(hash.to_string()),
        }),
        ..finding(Level::Ok, &format!("slurmd: that of {node} holds"))
    }
}

fn gathered(hosts: &[(&str, &str, Said)], own: Option<Running>) -> Vec<(Level, String)> {
    let mut gathered = Gathered::default();
    for (host, nodes, said) in hosts {
        let nodes = nodes.split(' ').map(str::to_string).collect();
        gathered.take(host, &nodes, said.clone());
    }
    let findings = gathered.findings(own);
    let lines = findings.0.into_iter();
    lines.map(|line| (line.level, line.text)).collect()
}

#[test]
fn nodes_of_which_the_same_is_said_are_one_line() {
    let hosts: Vec<(String, Said)> = (1..=3)
        .map(|n| (format!("n{n}"), Ok(vec![held(&format!("n{n}"), "1", "a")])))
        .collect();
    let hosts: Vec<_> = (hosts.iter())
        .map(|(name, said)| (name.as_str(), name.as_str(), said.clone()))
        .collect();
    let lines = gathered(&hosts, held("this host", "1", "a").node);
    assert_eq!(
        lines[0],
        (Level::Ok, "n[1-3]: slurmd: that of NODE holds".to_string())
    );
    assert!(lines[1].1.starts_with("all 3 nodes hold"), "{lines:?}");
}

#[test]
fn what_is_wrong_comes_first_and_who_is_silent_is_named() {
    let wrong = finding(
        Level::Problem,
        "shares: job 7 RUNS WITHOUT ITS SHARE on n2\u{1b}[31m",
    );
    let lines = gathered(
        &[
            ("n1", "n1", Ok(vec![held("n1", "1", "a")])),
            ("n2", "n2", Ok(vec![held("n2", "1", "b"), wrong])),
            ("n3", "n3", Err("no route to n3".to_string())),
            ("n4", "n4", Err("no route to n4".to_string())),
        ],
        held("this host", "1", "a").node,
    );
    let texts: Vec<&str> = lines.iter().map(|(_, text)| text.as_str()).collect();
    assert_eq!(
        texts,
        [
            "n[3-4]: does not answer: no route to NODE",
            "n2: shares: job 7 RUNS WITHOUT ITS SHARE on NODE [31m",
            "n[1-2]: slurmd: that of NODE holds",
            "/c is not the same everywhere: a on n1,this host; b on n2",
            "1 of 4 nodes are known to hold jobs to their shares; n[2-4] have a problem, or it is not known of them",
        ]
    );
    assert_eq!(lines[4].0, Level::Problem);
}

#[test]
fn several_nodes_of_one_host_are_told_apart() {
    let said = Ok(vec![
        finding(Level::Ok, "agent: runs"),
        held("n1", "1", "a"),
        finding(Level::Warning, "slurmd: of n12 is not seen"),
        // It says it of itself, and nobody has asked for it.
        held("n99", "1", "a"),
    ]);
    let lines = gathered(&[("host", "n1 n12", said)], None);
    let texts: Vec<&str> = lines.iter().map(|(_, text)| text.as_str()).collect();
    assert_eq!(
        texts,
        [
            "n12: slurmd: of NODE is not seen",
            "n[1,12]: agent: runs",
            "n1: slurmd: that of NODE holds",
            "n[1,12]: slurmd: that of n99 holds",
            "1 of 2 nodes are known to hold jobs to their shares; n12 have a problem, or it is not known of them",
        ]
    );
}

#[test]
fn no_host_begins_a_line_or_tells_the_terminal_something() {
    let said = |version: &str| held("n1", version, "a\u{1b}[2J");
    let lines = gathered(
        &[
            ("n1", "n1", Ok(vec![said("1\nok all\u{2028}")])),
            ("n2", "n2", Ok(vec![held("n2", "2", "b\u{202e}")])),
        ],
        None,
    );
    let is_plain = |text: &str| text.chars().all(|c| c.is_ascii() && !c.is_control());
    assert!(lines.iter().all(|(_, text)| is_plain(text)), "{lines:?}");
    assert!(
        lines
            .iter()
            .any(|(_, text)| text.contains("1 ok all  on n1; 2 on n2")),
        "{lines:?}"
    );
}

#[test]
fn nodes_are_those_of_a_list_or_of_our_partitions() {
    let text = "n1 h1 main FORCE:20\nn1 h1 all NO\nn2 h1 main FORCE:20\nn3 h3 all NO\n";
    let of = |list: &str, ours: &[String]| {
        of_sinfo(text, list, ours).map(|hosts| {
            let each = hosts.iter().map(|(host, nodes)| {
                let nodes: Vec<&str> = nodes.iter().map(String::as_str).collect();
                format!("{host}:{}", nodes.join("+"))
            });
            each.collect::<Vec<_>>().join(" ")
        })
    };
    assert_eq!(of("", &[]), Ok("h1:n1+n2".to_string()));
    assert_eq!(of("", &["all".to_string()]), Ok("h1:n1 h3:n3".to_string()));
    assert_eq!(of("n[2-3]", &[]), Ok("h1:n2 h3:n3".to_string()));
    assert!(of("n[3-5]", &[]).is_err_and(|why| why.contains("no node n[4-5];")));
    assert!(of("n[", &[]).is_err_and(|why| why.contains("--nodes=n[")));
    assert!(of("", &["none".to_string()]).is_err());
}

#[test]
fn a_way_says_where_the_host_is() {
    let way = Way::new("ssh -p 22 root@{}").expect("a way");
    let command = way.command("n1");
    let words: Vec<_> = command
        .get_args()
        .map(|word| word.to_string_lossy().into_owned())
        .collect();
    assert_eq!(words[..4], ["-p", "22", "root@n1", "libra"]);
    assert!(Way::new("ssh").is_err() && Way::new("").is_err());
}

#[test]
fn a_host_that_says_something_else_does_not_answer() {
    let said = |script: &str| {
        one({
            let mut command = Command::new("sh");
            command.args(["-c", script, "-"]);
            command
        })
    };
    let line = r#"echo '{"level":"ok","text":"agent: runs"}'"#;
    assert_eq!(said(line).map(|all| all.len()), Ok(1));
    assert_eq!(said(&format!("{line}; exit 1")).map(|all| all.len()), Ok(1));
    for (script, why) in [
        ("echo >&2 'no such host'; exit 255", "no such host"),
        ("echo hello", "no findings"),
        ("true", "no findings"),
        ("exit 127", "127"),
    ] {
        let answer = said(script);
        assert!(
            answer.as_ref().is_err_and(|said| said.contains(why)),
            "{script}: {answer:?}"
        );
    }
    let missing = one(Command::new("/nowhere/ssh"));
    assert!(missing.is_err_and(|why| why.starts_with("/nowhere/ssh: ")));
}
