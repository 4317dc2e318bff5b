//! slurm.conf, read as Slurm reads it: comments, continued lines, `Include`, keys in any case, the last value counts. Pure:
//! files are opened by the caller.

use std::io;
use std::path::{Path, PathBuf};

/// Includes in includes, at most: more is a circle.
const DEEPEST: usize = 16;

/// A line that says something.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Line {
    pub file: PathBuf,
    /// Number of its first line in the file, from 1.
    pub number: usize,
    /// `key=value`, in order; keys as written.
    pub pairs: Vec<(String, String)>,
}

impl Line {
    /// The value of a key on this line.
    pub fn get(&self, key: &str) -> Option<&str> {
        let found = self.pairs.iter().rev();
        let mut found = found.filter(|(k, _)| k.eq_ignore_ascii_case(key));
        found.next().map(|(_, value)| value.as_str())
    }

    /// `slurm.conf:12`.
    pub fn place(&self) -> String {
        format!("{}:{}", self.file.display(), self.number)
    }
}

/// All of a slurm.conf.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Conf {
    /// The file itself, then what it includes.
    pub files: Vec<PathBuf>,
    pub lines: Vec<Line>,
    /// What could not be read.
    pub problems: Vec<String>,
}

/// Lines that begin so are records of their own, whose other keys are not the cluster's.
const RECORDS: [&str; 6] = [
    "NodeName",
    "PartitionName",
    "NodeSet",
    "DownNodes",
    "FrontendName",
    "SwitchName",
];

impl Conf {
    /// Reads a file and what it includes.
    ///
    /// # Errors
    /// The file itself cannot be read. What it includes and is not there is among the problems.
    pub fn read(path: &Path, open: &dyn Fn(&Path) -> io::Result<String>) -> io::Result<Conf> {
        let mut conf = Conf::default();
        let text = open(path)?;
        let directory = path.parent().unwrap_or(Path::new("/")).to_path_buf();
        conf.take(path, &text, &directory, open, 0);
        Ok(conf)
    }

    fn take(
        &mut self,
        path: &Path,
        text: &str,
        directory: &Path,
        open: &dyn Fn(&Path) -> io::Result<String>,
        depth: usize,
    ) {
        self.files.push(path.to_path_buf());
        for (number, line) in logical(text) {
            let place = format!("{}:{number}", path.display());
            let word = line.split_whitespace().next().unwrap_or_default();
            if word.eq_ignore_ascii_case("include") {
                let name = line.trim()[word.len()..].trim();
                // %c is the cluster's name, which stands before it.
                let name = name.replace("%c", self.get("ClusterName").unwrap_or_default());
                let file = directory.join(name);
                match open(&file) {
                    _ if depth >= DEEPEST => self
                        .problems
                        .push(format!("{place}: too many includes in one another")),
                    Ok(text) => self.take(&file, &text, directory, open, depth + 1),
                    Err(error) => self
                        .problems
                        .push(format!("{place}: {}: {error}", file.display())),
                }
                continue;
            }
            match pairs(&line) {
                Ok(pairs) if pairs.is_empty() => {}
                Ok(pairs) => self.lines.push(Line {
                    file: path.to_path_buf(),
                    number,
                    pairs,
                }),
                Err(why) => self.problems.push(format!("{place}: {why}")),
            }
        }
    }

    fn records(&self, kind: &str) -> impl Iterator<Item = &Line> {
        (self.lines.iter()).filter(move |line| line.pairs[0].0.eq_ignore_ascii_case(kind))
    }

    fn settings(&self) -> impl Iterator<Item = &Line> {
        let record = |line: &&Line| {
            RECORDS
                .iter()
                .any(|r| line.pairs[0].0.eq_ignore_ascii_case(r))
        };
        self.lines.iter().filter(move |line| !record(line))
    }

    /// The line that says a setting of the cluster; of several the last counts.
    pub fn line(&self, key: &str) -> Option<&Line> {
        self.settings()
            .filter(|line| line.get(key).is_some())
            .last()
    }

    /// The value of a setting of the cluster.
    pub fn get(&self, key: &str) -> Option<&str> {
        self.line(key)?.get(key)
    }

    /// Every value of a setting that may be given several times.
    pub fn all(&self, key: &str) -> Vec<&str> {
        self.settings().filter_map(|line| line.get(key)).collect()
    }

    /// The words of a setting that is a list.
    pub fn list(&self, key: &str) -> Vec<&str> {
        words(self.get(key).unwrap_or_default())
    }

    /// Lines about nodes or partitions (`NodeName`, `PartitionName`), with what `DEFAULT` lines before them say.
    pub fn described(&self, kind: &str) -> Vec<Line> {
        let (mut default, mut found) = (Vec::new(), Vec::new());
        for line in self.records(kind) {
            if line.pairs[0].1.eq_ignore_ascii_case("default") {
                default.extend(line.pairs[1..].iter().cloned());
            } else {
                let mut line = line.clone();
                let own = line.pairs.split_off(1);
                line.pairs.extend(default.iter().cloned());
                line.pairs.extend(own);
                found.push(line);
            }
        }
        found
    }
}

/// The words of a list with commas.
pub fn words(list: &str) -> Vec<&str> {
    let words = list.split(',').map(str::trim);
    words.filter(|word| !word.is_empty()).collect()
}

/// Lines as Slurm joins them, each with the number of its first one. A comment ends a line, and a continuation behind it
/// is none.
pub fn logical(text: &str) -> Vec<(usize, String)> {
    let (mut lines, mut begun) = (Vec::new(), None::<(usize, String)>);
    for (index, raw) in text.lines().enumerate() {
        let line = without_comment(raw);
        let (first, mut joined) = begun.take().unwrap_or((index + 1, String::new()));
        match continued(line) {
            Some(part) => {
                joined.push_str(part);
                begun = Some((first, joined));
            }
            None => {
                joined.push_str(line);
                lines.push((first, joined));
            }
        }
    }
    lines.extend(begun);
    lines
}

/// What is before a '\' at the end.
pub fn continued(line: &str) -> Option<&str> {
    let line = line.trim_end();
    let slashes = line.len() - line.trim_end_matches('\\').len();
    (slashes % 2 == 1).then(|| &line[..line.len() - 1])
}

/// What is before a '#' that no '\' takes its meaning from.
pub fn without_comment(line: &str) -> &str {
    let mut escaped = false;
    for (at, c) in line.char_indices() {
        match c {
            '#' if !escaped => return &line[..at],
            '\\' => escaped = !escaped,
            _ => escaped = false,
        }
    }
    line
}

/// `key=value` pairs; a value may be in quotes, and blanks may be around '='.
fn pairs(line: &str) -> Result<Vec<(String, String)>, String> {
    let mut pairs = Vec::new();
    let mut rest = line.trim();
    while !rest.is_empty() {
        let cut = || rest.chars().take(40).collect::<String>();
        let Some((key, after)) = rest.split_once('=') else {
            return Err(format!("'{}' is not of the form key=value", cut()));
        };
        // Slurm has += and the like for some keys.
        let key = key.trim().trim_end_matches(['+', '-', '*', '/']);
        if key.is_empty() || key.contains(char::is_whitespace) {
            return Err(format!("'{}' is not of the form key=value", cut()));
        }
        let after = after.trim_start();
        let (value, left) = match after.strip_prefix('"') {
            Some(quoted) => match quoted.split_once('"') {
                Some(parts) => parts,
                None => return Err(format!("'{}': a quote is not closed", cut())),
            },
            None => after.split_at(after.find(char::is_whitespace).unwrap_or(after.len())),
        };
        pairs.push((key.to_string(), value.to_string()));
        rest = left.trim_start();
    }
    Ok(pairs)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(files: &[(&str, &str)]) -> Conf {
        let open = |path: &Path| {
            let found = files.iter().find(|(name, _)| Path::new(name) == path);
            found
                .map(|(_, text)| text.to_string())
                .ok_or_else(|| io::Error::from(io::ErrorKind::NotFound))
        };
        Conf::read(Path::new("/etc/slurm/slurm.conf"), &open).expect("there")
    }

    #[test]
    fn keys_have_no_case_and_the_last_value_counts() {
        let conf = read(&[(
            "/etc/slurm/slurm.conf",
            "ClusterName=a # x\njobsubmitPLUGINS=lua , all\nSlurmctldHost=h(10.0.0.1)\nSLURMCTLDHOST=b\n\
             # PluginDir=/no\nPluginDir = \"/a b\"\nplugindir=/usr/lib/x MailProg=/bin/true\nJobCompLoc=a\\#b\n",
        )]);
        // Slurm ends a value at a blank: what follows is no key.
        assert_eq!(conf.problems.len(), 1, "{:?}", conf.problems);
        assert_eq!(conf.get("PluginDir"), Some("/usr/lib/x"));
        assert_eq!(conf.get("mailprog"), Some("/bin/true"));
        assert_eq!(conf.all("SlurmctldHost"), ["h(10.0.0.1)", "b"]);
        assert_eq!(conf.get("JobCompLoc"), Some("a\\#b"));
    }

    #[test]
    fn lines_go_on_and_comments_do_not() {
        let conf = read(&[(
            "/etc/slurm/slurm.conf",
            "A=1\nSchedulerParameters=defer,\\\nbatch_sched_delay=1\\\n,x\nB=2 # no \\\nC=3\nD=4 \\\n E=5\nF=6 \\",
        )]);
        assert_eq!(
            conf.list("SchedulerParameters"),
            ["defer", "batch_sched_delay=1", "x"]
        );
        assert_eq!(conf.line("SchedulerParameters").map(|l| l.number), Some(2));
        assert_eq!((conf.get("C"), conf.get("E")), (Some("3"), Some("5")));
        assert_eq!(conf.line("c").map(|line| line.number), Some(6));
        assert_eq!(conf.get("F"), Some("6"));
    }

    #[test]
    fn what_is_included_is_read_where_it_stands() {
        let conf = read(&[
            (
                "/etc/slurm/slurm.conf",
                "ClusterName=c1\ninclude nodes-%c.conf\nInclude /else/p.conf\nINCLUDE gone.conf\nA=2\n",
            ),
            (
                "/etc/slurm/nodes-c1.conf",
                "A=1\nNodeName=DEFAULT CPUs=2\nNodeName=n[1-2] RealMemory=5\n",
            ),
            (
                "/else/p.conf",
                "PartitionName=p Nodes=ALL OverSubscribe=FORCE:20\n",
            ),
        ]);
        assert_eq!(conf.files.len(), 3);
        assert_eq!(conf.get("A"), Some("2"));
        assert!(
            conf.problems[0].contains("slurm.conf:4"),
            "{:?}",
            conf.problems
        );
        let nodes = conf.described("NodeName");
        assert_eq!(nodes[0].get("cpus"), Some("2"));
        assert_eq!(nodes[0].place(), "/etc/slurm/nodes-c1.conf:3");
        let partitions = conf.described("PartitionName");
        assert_eq!(partitions[0].get("Oversubscribe"), Some("FORCE:20"));
        // A partition's keys are none of the cluster's.
        assert_eq!(conf.get("OverSubscribe"), None);
    }

    #[test]
    fn a_file_that_includes_itself_comes_to_an_end() {
        let conf = read(&[("/etc/slurm/slurm.conf", "include slurm.conf\nA=1\n")]);
        assert_eq!(conf.get("A"), Some("1"));
        assert!(!conf.problems.is_empty());
    }
}
