//! Completions as the shells themselves take them: bash, zsh and fish, each with the script that is installed for it.

use crate::support::{Site, stderr, wait_for};
use std::fs;
use std::path::PathBuf;
use std::process::{Command, Stdio};

/// A host with a job, and its completions.
struct Shells {
    site: Site,
    scripts: PathBuf,
}

impl Shells {
    fn new() -> Shells {
        let site = Site::new("[accounts]\nmode = \"off\"");
        let scripts = site.path("completions");
        let made = site
            .libra(&["generate", "completions"])
            .arg(&scripts)
            .output()
            .expect("libra");
        assert!(made.status.success(), "{}", stderr(&made));
        Shells { site, scripts }
    }

    /// What a shell's script says; None if there is no such shell.
    fn said(&self, program: &str, arguments: &[&str]) -> Option<String> {
        let there = Command::new(program)
            .arg("--version")
            .stdout(Stdio::null())
            .status();
        if !there.is_ok_and(|status| status.success()) {
            println!("not run: {program} is not installed");
            return None;
        }
        let libra = PathBuf::from(env!("CARGO_BIN_EXE_libra"));
        let directory = libra.parent().expect("a directory").display().to_string();
        let path = std::env::var("PATH").unwrap_or_default();
        let output = Command::new(program)
            .args(arguments)
            .env("PATH", format!("{directory}:{path}"))
            .env("LIBRA_CONFIG", self.site.path("libra.toml"))
            .env("HOME", self.site.path(""))
            .env("TERM", "dumb")
            .env("LC_ALL", "C.UTF-8")
            .stdin(Stdio::null())
            .output()
            .expect("a shell");
        let said = String::from_utf8_lossy(&output.stdout).into_owned();
        assert!(
            output.status.success(),
            "{program}: {said}{}",
            stderr(&output)
        );
        Some(said)
    }

    /// What bash makes of a line, a word in a line.
    fn bash(&self, line: &str) -> Option<Vec<String>> {
        let script = self.scripts.join("libra.bash");
        // As bash calls it: words are split at ':' and '=' as well, which it does itself where a line is typed.
        let call = format!(
            "source {}; COMP_LINE={line:?}; COMP_POINT=${{#COMP_LINE}}; \
             read -r -a COMP_WORDS <<<\"$(sed 's/[:=]/ & /g' <<<\"$COMP_LINE\")\"; \
             [[ $COMP_LINE == *[[:space:]] ]] && COMP_WORDS+=(''); COMP_CWORD=$((${{#COMP_WORDS[@]}} - 1)); \
             _libra_and_values libra \"${{COMP_WORDS[COMP_CWORD]}}\" \"${{COMP_WORDS[COMP_CWORD-1]}}\"; printf '%s\\n' \"${{COMPREPLY[@]}}\"",
            script.display()
        );
        let said = self.said("bash", &["--norc", "-c", &call])?;
        Some(said.lines().map(str::to_string).collect())
    }

    /// The same by fish, which asks itself.
    fn fish(&self, line: &str) -> Option<Vec<String>> {
        let script = self.scripts.join("libra.fish");
        let call = format!("source {}; complete -C {line:?}", script.display());
        let said = self.said("fish", &["--no-config", "-c", &call])?;
        let values = said
            .lines()
            .map(|line| line.split('\t').next().unwrap_or(line));
        Some(values.map(str::to_string).collect())
    }

    /// The same by zsh, which completes only where somebody types: on a terminal of its own module's making.
    fn zsh(&self, line: &str) -> Option<Vec<String>> {
        let typing = self.site.path("typing.zsh");
        fs::write(&typing, include_str!("typing.zsh")).expect("a file");
        let scripts = self.scripts.display().to_string();
        let typing = typing.display().to_string();
        let said = self.said("zsh", &["-f", &typing, &scripts, line])?;
        Some(said.lines().map(|line| line.trim().to_string()).collect())
    }

    /// All of these are offered by every shell, and none of those.
    fn all_offer(&self, line: &str, wanted: &[&str], unwanted: &[&str]) {
        for (shell, found) in [
            ("bash", self.bash(line)),
            ("zsh", self.zsh(line)),
            ("fish", self.fish(line)),
        ] {
            let Some(found) = found else {
                continue;
            };
            let has = |value: &&str| found.iter().any(|one| one == value);
            assert!(
                wanted.iter().all(&has),
                "{shell}: {line}: {found:?}, wanted {wanted:?}"
            );
            assert!(
                !unwanted.iter().any(has),
                "{shell}: {line}: {found:?}, not {unwanted:?}"
            );
        }
    }
}

#[test]
fn jobs_policies_and_accounts_are_completed_in_every_shell() {
    let shells = Shells::new();
    let site = &shells.site;
    let ended = site
        .run("deadline=60000,budget=9000,estimate=1000", "true")
        .output()
        .expect("libra");
    assert!(ended.status.success(), "{}", stderr(&ended));
    let gate = site.gate();
    let mut job = site
        .libra(&[
            "run",
            "--name",
            "fit",
            "-W",
            "deadline=600000,budget=unlimited,estimate=60000",
            "--",
        ])
        .args(["sh", "-c", &gate.until_open()])
        .stderr(Stdio::null())
        .spawn()
        .expect("libra");
    wait_for("the job to run", || {
        site.jobs().iter().any(|job| job["phase"] == "running")
    });
    shells.all_offer(
        "libra ",
        &["run", "status", "cancel"],
        &["generate", "complete"],
    );
    shells.all_offer("libra cancel ", &["2"], &["1"]);
    shells.all_offer("libra status ", &["1", "2"], &[]);
    shells.all_offer(
        "libra simulate --policy ",
        &["libra", "easy", "libra-risk"],
        &["1"],
    );
    shells.all_offer("libra status --so", &["--sort"], &["1"]);
    gate.open();
    assert!(job.wait().expect("libra").success());

    // Behind a comma another policy, where the shell is one that puts whole words in.
    for (shell, found) in [
        ("bash", shells.bash("libra simulate --policy libra,eas")),
        ("fish", shells.fish("libra simulate --policy libra,eas")),
    ] {
        if let Some(found) = found {
            assert!(
                found.iter().any(|value| value == "libra,easy"),
                "{shell}: {found:?}"
            );
        }
    }

    let text = fs::read_to_string(site.path("libra.toml")).expect("a file");
    let accounts = format!(
        "mode = \"on\"\nledger = \"{0}/ledger.sqlite\"\nlive = \"{0}/live\"",
        site.path("accounts").display()
    );
    fs::write(
        site.path("libra.toml"),
        text.replace("mode = \"off\"", &accounts),
    )
    .expect("a file");
    for words in [
        &["account", "init"][..],
        &["account", "create", "project:chem"],
        &["account", "create", "alice"],
    ] {
        let done = site.libra(words).output().expect("libra");
        assert!(done.status.success(), "{words:?}: {}", stderr(&done));
    }
    shells.all_offer(
        "libra account balance ",
        &["project:chem", "user:alice"],
        &["1"],
    );
    shells.all_offer("libra run --project ", &["chem"], &["alice"]);
    // Bash has 'project', ':' and what follows as three words, and puts in the last one.
    if let Some(found) = shells.bash("libra account deposit project:c") {
        assert_eq!(found, ["chem"]);
    }
}
