//! Command lines of jobs. A job's file can be read by everybody; its arguments, where passwords and names of files are, only by
//! the registry's owner.

use super::{Registry, RegistryError, failed};
use std::fs;
use std::os::unix::fs::DirBuilderExt;
use std::path::PathBuf;

pub(crate) const COMMANDS: &str = "commands";
/// Stands for the arguments.
const MORE: &str = " …";

/// What everybody may see of a command line: its program.
pub(crate) fn program(command: &str) -> String {
    match command.split_once(char::is_whitespace) {
        Some((program, _)) => format!("{program}{MORE}"),
        None => command.to_string(),
    }
}

/// Returns true if this command line has its arguments.
fn is_whole(command: &str) -> bool {
    !command.ends_with(MORE)
}

impl Registry {
    fn command_file(&self, id: &str) -> PathBuf {
        self.directory().join(COMMANDS).join(id)
    }

    /// Keeps a command line, where it has arguments.
    pub(crate) fn keep_command(&self, id: &str, command: &str) -> Result<(), RegistryError> {
        let file = self.command_file(id);
        if !is_whole(command) || program(command) == command {
            return Ok(());
        }
        if fs::read(&file).is_ok_and(|kept| kept == command.as_bytes()) {
            return Ok(());
        }
        let directory = self.directory().join(COMMANDS);
        fs::DirBuilder::new()
            .recursive(true)
            .mode(0o700)
            .create(&directory)
            .map_err(failed("make", &directory))?;
        self.replace(&file, command.as_bytes())
    }

    /// The whole command line of a job; what is in its file where it has no arguments or this user may not see them.
    pub(crate) fn command(&self, id: &str, shown: &str) -> String {
        if is_whole(shown) {
            return shown.to_string();
        }
        fs::read_to_string(self.command_file(id))
            .ok()
            // One of an earlier job of this id does not count.
            .filter(|command| program(command) == shown)
            .unwrap_or_else(|| shown.to_string())
    }

    /// Forgets it; best effort, the next job of this id writes its own.
    pub(crate) fn drop_command(&self, id: &str) {
        let _ = fs::remove_file(self.command_file(id));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::MetadataExt;

    #[test]
    fn arguments_are_for_the_owner_alone() {
        let directory = tempfile::tempdir().expect("a directory");
        let registry = Registry::open(directory.path()).expect("a registry");
        registry
            .keep_command("1", "mysql --password=secret")
            .expect("kept");
        assert_eq!(program("mysql --password=secret"), "mysql …");
        assert_eq!(registry.command("1", "mysql …"), "mysql --password=secret");
        let commands = directory.path().join(COMMANDS);
        assert_eq!(fs::metadata(&commands).expect("made").mode() & 0o777, 0o700);
        // What is short already is not taken for the whole.
        registry
            .keep_command("1", "mysql …")
            .expect("nothing to keep");
        assert_eq!(registry.command("1", "mysql …"), "mysql --password=secret");
        assert_eq!(registry.command("1", "other …"), "other …");
        assert_eq!(registry.command("1", "true"), "true");
        registry.drop_command("1");
        assert_eq!(registry.command("1", "mysql …"), "mysql …");
    }
}
