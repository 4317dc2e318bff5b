//! Grid Engine's own commands, run with a limit, and where they are.

use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::mpsc;
use std::time::Duration;

/// Variables that say which cell is meant.
const VARIABLES: [&str; 5] = [
    "SGE_ROOT",
    "SGE_CELL",
    "SGE_ARCH",
    "SGE_QMASTER_PORT",
    "SGE_EXECD_PORT",
];

/// Where Debian has Grid Engine's programs, and where its own cell is.
const DEBIAN_PROGRAMS: &str = "/usr/lib/gridengine";
const DEBIAN_ROOT: &str = "/var/lib/gridengine";

/// A cell of Grid Engine, as the environment says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Cell {
    /// `SGE_ROOT`
    pub root: PathBuf,
    /// `SGE_CELL`
    pub name: String,
    arch: Option<String>,
    environment: Vec<(&'static str, String)>,
}

/// Why a command has no answer.
#[derive(Debug, thiserror::Error)]
pub enum CommandError {
    /// It is not there.
    #[error("there is no {0} in Grid Engine's usual places; set SGE_ROOT and SGE_ARCH")]
    NotFound(String),
    /// It cannot be run.
    #[error("{0}: {1}")]
    Run(PathBuf, std::io::Error),
    /// It was ended.
    #[error("{0} did not answer in {1} s")]
    Slow(String, u64),
    /// It failed; what it said.
    #[error("{0}: {1}")]
    Failed(String, String),
    /// It failed since there is no such cell.
    #[error(
        "there is no cell of Grid Engine here: {} does not exist; SGE_ROOT and SGE_CELL name the cell", .0.display()
    )]
    NoCell(PathBuf),
}

impl Cell {
    /// The cell that the environment names, Debian's if it names none. `variable`: of the environment.
    pub fn new(variable: &dyn Fn(&str) -> Option<String>) -> Cell {
        let given =
            |name: &&'static str| Some((*name, variable(name).filter(|value| !value.is_empty())?));
        let mut environment: Vec<(&'static str, String)> =
            VARIABLES.iter().filter_map(given).collect();
        let find = |name: &str| {
            (environment.iter())
                .find(|(key, _)| *key == name)
                .map(|(_, value)| value.clone())
        };
        let root = find("SGE_ROOT");
        let cell = Cell {
            root: root
                .clone()
                .unwrap_or_else(|| DEBIAN_ROOT.to_string())
                .into(),
            name: find("SGE_CELL").unwrap_or_else(|| "default".to_string()),
            arch: find("SGE_ARCH"),
            environment: Vec::new(),
        };
        if root.is_none() {
            environment.push(("SGE_ROOT", DEBIAN_ROOT.to_string()));
        }
        Cell {
            environment,
            ..cell
        }
    }

    /// `$SGE_ROOT/$SGE_CELL/common`
    pub fn common(&self) -> PathBuf {
        self.root.join(&self.name).join("common")
    }

    /// A value of the cell's bootstrap file.
    pub fn bootstrap(&self, key: &str) -> Option<String> {
        let text = std::fs::read_to_string(self.common().join("bootstrap")).ok()?;
        bootstrap(&text, key).map(str::to_string)
    }

    /// One of Grid Engine's programs: in the cell's own directories, then where Debian has them.
    ///
    /// # Errors
    /// When it is in none of them.
    pub fn program(&self, name: &str) -> Result<PathBuf, CommandError> {
        let arch = self.arch.as_deref().unwrap_or("lx-amd64");
        let mut places = vec![self.root.join("bin").join(arch)];
        if let Some(binaries) = self.bootstrap("binary_path").map(PathBuf::from) {
            places.extend([binaries.join(arch), binaries]);
        }
        places.push(DEBIAN_PROGRAMS.into());
        (places.into_iter().map(|place| place.join(name)))
            .find(|path| path.is_file())
            .ok_or_else(|| CommandError::NotFound(name.to_string()))
    }

    /// What a program prints. Nothing but the cell's variables is handed to it. `within`: how long it may take.
    ///
    /// # Errors
    /// When it is not there, fails, or takes too long; it is ended then.
    pub fn run(
        &self,
        name: &str,
        arguments: &[&str],
        within: Duration,
    ) -> Result<String, CommandError> {
        let path = self.program(name)?;
        let failed = |error| CommandError::Run(path.clone(), error);
        let mut child = self
            .command(&path)
            .args(arguments)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .map_err(failed)?;
        let (tell, told) = mpsc::channel();
        let (output, errors) = (child.stdout.take(), child.stderr.take());
        let reader = move |pipe: Option<Box<dyn Read + Send>>| {
            let mut text = Vec::new();
            if let Some(mut pipe) = pipe {
                let _ = pipe.read_to_end(&mut text);
            }
            String::from_utf8_lossy(&text).into_owned()
        };
        let errors = std::thread::spawn(move || {
            reader(errors.map(|pipe| Box::new(pipe) as Box<dyn Read + Send>))
        });
        std::thread::spawn(move || {
            let _ = tell.send(reader(
                output.map(|pipe| Box::new(pipe) as Box<dyn Read + Send>),
            ));
        });
        let Ok(text) = told.recv_timeout(within) else {
            let _ = child.kill();
            let _ = child.wait();
            return Err(CommandError::Slow(name.to_string(), within.as_secs()));
        };
        let status = child.wait().map_err(failed)?;
        if status.success() {
            return Ok(text);
        }
        // Every client reads there which host it is to ask.
        let master = self.common().join("act_qmaster");
        if !master.exists() {
            return Err(CommandError::NoCell(master));
        }
        let said = errors.join().unwrap_or_default();
        let said = if said.trim().is_empty() { text } else { said };
        Err(CommandError::Failed(
            name.to_string(),
            libra_units::in_one_line(said.trim()),
        ))
    }

    /// A command with the cell's variables alone.
    pub fn command(&self, path: &Path) -> Command {
        let mut command = Command::new(path);
        command
            .env_clear()
            .env("PATH", "/usr/sbin:/usr/bin:/sbin:/bin")
            .env("LC_ALL", "C")
            .envs(self.environment.iter().map(|(key, value)| (key, value)));
        command
    }
}

fn bootstrap<'a>(text: &'a str, key: &str) -> Option<&'a str> {
    let value = |line: &'a str| line.strip_prefix(key)?.strip_prefix([' ', '\t']);
    text.lines().find_map(value).map(str::trim)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_cell_is_that_of_the_environment() {
        let directory = tempfile::tempdir().expect("a directory");
        let common = directory.path().join("west/common");
        std::fs::create_dir_all(&common).expect("ours");
        std::fs::write(
            common.join("bootstrap"),
            "Version: 6.2\nadmin_user   sgeadmin\n",
        )
        .expect("ours");
        let cell = Cell::new(&|name| match name {
            "SGE_ROOT" => Some(directory.path().display().to_string()),
            "SGE_CELL" => Some("west".to_string()),
            _ => None,
        });
        assert_eq!(cell.bootstrap("admin_user").as_deref(), Some("sgeadmin"));
        assert_eq!(cell.bootstrap("admin"), None);
        let bin = directory.path().join("bin/lx-amd64");
        std::fs::create_dir_all(&bin).expect("ours");
        std::os::unix::fs::symlink("/bin/sh", bin.join("qtest")).expect("ours");
        let within = |script: &str, patience| cell.run("qtest", &["-c", script], patience);
        let run = |script: &str| within(script, Duration::from_secs(120));
        assert_eq!(run("echo $SGE_CELL $HOME").expect("it runs"), "west\n");
        let fails = || run("echo no >&2; exit 1").expect_err("it fails");
        assert!(
            fails().to_string().contains("SGE_ROOT and SGE_CELL"),
            "{}",
            fails()
        );
        std::fs::write(common.join("act_qmaster"), "here\n").expect("ours");
        assert!(matches!(fails(), CommandError::Failed(_, said) if said == "no"));
        let slow = within("sleep 1000", Duration::from_millis(100));
        assert!(matches!(slow, Err(CommandError::Slow(..))), "{slow:?}");
        assert!(matches!(
            cell.program("nothing"),
            Err(CommandError::NotFound(_))
        ));
        assert_eq!(Cell::new(&|_| None).root, Path::new(DEBIAN_ROOT));
    }
}
