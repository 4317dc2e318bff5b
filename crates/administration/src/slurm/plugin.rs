//! A plugin, a program or a library of Slurm, read as a file: its symbols say for which Slurm it was built and what it needs
//! from its host. Nothing is loaded: loading runs code.

use object::elf::{DT_NEEDED, DT_RPATH, DT_RUNPATH, FileHeader64, SHT_DYNSYM, STB_WEAK};
use object::read::elf::{Dyn, FileHeader, Sym};
use object::{Endianness, Object, ObjectSection, SectionIndex};
use std::collections::BTreeSet;
use std::fmt;
use std::path::Path;

/// A version of Slurm.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Version {
    pub major: u32,
    pub minor: u32,
    pub micro: u32,
}

impl Version {
    /// Of the number in Slurm's header, 0x160508 for 22.05.8.
    pub fn of(number: u32) -> Version {
        Version {
            major: number >> 16 & 0xff,
            minor: number >> 8 & 0xff,
            micro: number & 0xff,
        }
    }

    /// Finds `22.05.8` in what a program says about itself, such as `slurm-wlm 22.05.8`.
    pub fn find(text: &str) -> Option<Version> {
        text.split_whitespace().find_map(|word| {
            let mut parts = word.split('.');
            let mut next = || parts.next().map(str::to_string);
            let (major, minor, micro) = (next()?, next()?, next()?);
            // A release candidate is 23.11.0-0rc1.
            let micro: String = micro.chars().take_while(char::is_ascii_digit).collect();
            Some(Version {
                major: major.parse().ok()?,
                minor: minor.parse().ok()?,
                micro: micro.parse().ok()?,
            })
        })
    }

    /// Major and minor, which is all that a SPANK plugin must match.
    pub fn release(self) -> (u32, u32) {
        (self.major, self.minor)
    }
}

impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&format!("{}.{:02}.{}", self.major, self.minor, self.micro))
    }
}

/// What is in a file.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Binary {
    /// Number of the processor's kind.
    pub machine: u16,
    /// `plugin_type`: `job_submit/libra`, `spank`.
    pub kind: Option<String>,
    /// `plugin_version`.
    pub version: Option<u32>,
    /// Symbols that it has.
    pub exports: BTreeSet<String>,
    /// Symbols that it needs from whoever loads it: those of no library that it names.
    pub imports: BTreeSet<String>,
    /// Versions that it needs of libraries: `libc.so.6`, `GLIBC_2.34`.
    pub needs: BTreeSet<(String, String)>,
    /// Versions that it has, as a library.
    pub has: BTreeSet<String>,
    /// Libraries that it is linked with.
    pub libraries: Vec<String>,
    /// Directories in which it looks for libraries.
    pub paths: Vec<String>,
}

impl Binary {
    /// Reads a file.
    ///
    /// # Errors
    /// It cannot be read, or is no 64 bit ELF file.
    pub fn read(path: &Path) -> Result<Binary, String> {
        let bytes = std::fs::read(path).map_err(|error| error.to_string())?;
        Binary::parse(&bytes).map_err(|error| format!("no plugin, program or library: {error}"))
    }

    /// Takes a file's bytes apart.
    pub fn parse(data: &[u8]) -> object::read::Result<Binary> {
        let header = FileHeader64::<Endianness>::parse(data)?;
        let endian = header.endian()?;
        let sections = header.sections(endian, data)?;
        let symbols = sections.symbols(endian, data, SHT_DYNSYM)?;
        let versions = sections.versions(endian, data)?.unwrap_or_default();
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        let mut binary = Binary {
            machine: header.e_machine(endian),
            ..Binary::default()
        };
        let file = object::File::parse(data)?;
        // What a symbol that is data stands for: its bytes up to the end of its section.
        let content = |index: SectionIndex, address: u64| {
            let section = file.section_by_index(index).ok()?;
            let at = usize::try_from(address.checked_sub(section.address())?).ok()?;
            section.data().ok()?.get(at..)
        };
        for (index, symbol) in symbols.enumerate() {
            let name = text(symbol.name(endian, symbols.strings())?);
            if name.is_empty() {
                continue;
            }
            if !symbol.is_undefined(endian) {
                let bytes = content(
                    SectionIndex(usize::from(symbol.st_shndx(endian))),
                    symbol.st_value(endian),
                );
                match name.as_str() {
                    "plugin_version" => {
                        let number = bytes.and_then(|b| b.get(..4)?.try_into().ok());
                        binary.version = number.map(|b| match header.is_little_endian() {
                            true => u32::from_le_bytes(b),
                            false => u32::from_be_bytes(b),
                        });
                    }
                    "plugin_type" => {
                        let until = |b: &[u8]| b.iter().position(|b| *b == 0);
                        binary.kind = bytes.and_then(|b| Some(text(&b[..until(b)?])));
                    }
                    _ => {}
                }
                binary.exports.insert(name);
                continue;
            }
            let version = versions.version(versions.version_index(endian, index))?;
            match version.and_then(|v| Some((text(v.file()?), text(v.name())))) {
                Some(need) => {
                    binary.needs.insert(need);
                }
                None if symbol.st_bind() == STB_WEAK => {}
                None => {
                    binary.imports.insert(name);
                }
            }
        }
        if let Some((mut definitions, link)) = sections.gnu_verdef(endian, data)? {
            let strings = sections.strings(endian, data, link)?;
            while let Some((_, mut names)) = definitions.next()? {
                if let Some(name) = names.next()? {
                    binary.has.insert(text(name.name(endian, strings)?));
                }
            }
        }
        if let Some((entries, link)) = sections.dynamic(endian, data)? {
            let strings = sections.strings(endian, data, link)?;
            for entry in entries {
                let list = match entry.tag32(endian) {
                    Some(DT_NEEDED) => &mut binary.libraries,
                    Some(DT_RPATH | DT_RUNPATH) => &mut binary.paths,
                    _ => continue,
                };
                let value = text(entry.string(endian, strings)?);
                list.extend(value.split(':').map(str::to_string));
            }
        }
        Ok(binary)
    }
}

/// Which of the two plugins.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Which {
    JobSubmit,
    Spank,
}

impl Which {
    pub const BOTH: [Which; 2] = [Which::JobSubmit, Which::Spank];

    pub fn file(self) -> &'static str {
        match self {
            Which::JobSubmit => "job_submit_libra.so",
            Which::Spank => super::plugstack::SPANK,
        }
    }

    fn kind(self) -> &'static str {
        match self {
            Which::JobSubmit => "job_submit/libra",
            Which::Spank => "spank",
        }
    }

    /// Returns true if Slurm `slurm` loads a plugin that was built for `built`.
    pub fn fits(self, built: Version, slurm: Version) -> bool {
        match self {
            Which::JobSubmit => built == slurm,
            Which::Spank => built.release() == slurm.release(),
        }
    }

    /// What Slurm would do with a plugin of another version.
    pub fn mismatch(self) -> &'static str {
        match self {
            Which::JobSubmit => "slurmctld would not start with it",
            Which::Spank => {
                "Slurm would not load it: the options --budget … would be unknown, and shares not held"
            }
        }
    }
}

/// What is wrong with a plugin for a Slurm; `host` has the symbols of the programs that would load it, `libraries` looks up
/// a library.
pub fn faults(
    which: Which,
    plugin: &Binary,
    slurm: Option<Version>,
    host: Option<&Binary>,
    libraries: &dyn Fn(&str) -> Option<Binary>,
) -> Vec<String> {
    let mut faults = Vec::new();
    match (plugin.kind.as_deref(), plugin.version) {
        (Some(kind), Some(version)) if kind == which.kind() => {
            let built = Version::of(version);
            if let Some(slurm) = slurm.filter(|slurm| !which.fits(built, *slurm)) {
                faults.push(format!(
                    "it was built for Slurm {built}, and this is {slurm}: {}",
                    which.mismatch()
                ));
            }
        }
        (Some(_), None) | (None, _) => faults.push(
            "it is not a plugin of Slurm: it has no plugin_type and plugin_version".to_string(),
        ),
        (Some(kind), _) => {
            faults.push(format!("it is of the type {kind}, not {}", which.kind()));
        }
    }
    if let Some(host) = host {
        if host.machine != plugin.machine {
            faults.push("it was built for another kind of processor".to_string());
        }
        let missing: Vec<&str> = (plugin.imports.difference(&host.exports))
            .map(String::as_str)
            .collect();
        if !missing.is_empty() {
            faults.push(format!(
                "it needs what this Slurm does not have: {}",
                some(&missing)
            ));
        }
    }
    for library in &plugin.libraries {
        let needs = plugin.needs.iter().filter(|(file, _)| file == library);
        let Some(there) = libraries(library) else {
            continue;
        };
        let missing: Vec<&str> = (needs.map(|(_, version)| version.as_str()))
            .filter(|version| !there.has.contains(*version))
            .collect();
        if !missing.is_empty() {
            faults.push(format!(
                "it needs {} of {library}, which is older here: build it on a system like this one",
                some(&missing)
            ));
        }
    }
    faults
}

fn some(names: &[&str]) -> String {
    match names.len() {
        n if n > 5 => format!("{} and {} more", names[..5].join(", "), n - 5),
        _ => names.join(", "),
    }
}

#[cfg(test)]
pub mod tests {
    use super::*;
    use std::process::Command;

    /// A plugin made of C by this machine's compiler; None, with a line that says so, where there is none.
    pub fn built(directory: &Path, name: &str, text: &str) -> Option<std::path::PathBuf> {
        let source = directory.join(format!("{name}.c"));
        let file = directory.join(name);
        std::fs::write(&source, text).expect("written");
        let cc = std::env::var("CC").unwrap_or_else(|_| "cc".to_string());
        let done = Command::new(&cc)
            .args(["-shared", "-fPIC", "-o"])
            .args([&file, &source])
            .status();
        match done {
            Ok(status) => assert!(status.success(), "{cc} makes no shared object"),
            Err(error) => {
                eprintln!("not run: {cc}: {error}");
                return None;
            }
        }
        Some(file)
    }

    /// The text of a job_submit plugin.
    pub fn job_submit(version: u32) -> String {
        format!(
            "#include <stdint.h>\n#include <stdio.h>\nconst char plugin_name[] = \"x\";\n\
             const char plugin_type[] = \"job_submit/libra\";\nconst uint32_t plugin_version = {version};\n\
             extern void slurm_info(const char *, ...); extern void slurm_none(void);\n\
             extern void slurm_weak(void) __attribute__((weak));\n\
             int init(void) {{ slurm_info(\"x\"); slurm_none(); puts(\"x\"); return slurm_weak != 0; }}\n"
        )
    }

    #[test]
    fn a_plugin_says_for_whom_it_was_built_and_what_it_needs() {
        let directory = tempfile::tempdir().expect("a directory");
        let Some(file) = built(
            directory.path(),
            "job_submit_libra.so",
            &job_submit(0x160508),
        ) else {
            return;
        };
        let plugin = Binary::read(&file).expect("a plugin");
        assert_eq!(plugin.kind.as_deref(), Some("job_submit/libra"));
        assert_eq!(
            plugin.version.map(Version::of),
            Version::find("slurm-wlm 22.05.8")
        );
        assert_eq!(
            plugin.imports.iter().collect::<Vec<_>>(),
            ["slurm_info", "slurm_none"]
        );
        assert!(plugin.exports.contains("init"));
        assert!(
            plugin.libraries.iter().any(|l| l.starts_with("libc.")),
            "{plugin:?}"
        );
        let host = Binary {
            machine: plugin.machine,
            exports: ["slurm_info".to_string()].into(),
            ..Binary::default()
        };
        let faults = |slurm: &str, libraries: &dyn Fn(&str) -> Option<Binary>| {
            faults(
                Which::JobSubmit,
                &plugin,
                Version::find(slurm),
                Some(&host),
                libraries,
            )
        };
        assert_eq!(
            faults("22.05.8", &|_| None),
            ["it needs what this Slurm does not have: slurm_none"]
        );
        let other = faults("22.05.9", &|_| None);
        assert!(
            other[0].contains("built for Slurm 22.05.8, and this is 22.05.9"),
            "{other:?}"
        );
        // A C library of no version at all.
        let old = faults("22.05.8", &|_| Some(Binary::default()));
        assert!(old[1].contains("older here"), "{old:?}");
    }

    #[test]
    fn a_spank_plugin_may_be_of_another_micro_version() {
        let version = |text: &str| Version::find(text).expect("a version");
        assert!(Which::Spank.fits(version("22.05.2"), version("22.05.8")));
        assert!(!Which::Spank.fits(version("22.05.2"), version("23.02.2")));
        assert!(!Which::JobSubmit.fits(version("22.05.2"), version("22.05.8")));
        assert_eq!(version("slurm 23.11.0-0rc1").to_string(), "23.11.0");
        assert_eq!(Version::find("slurm unknown"), None);
    }

    #[test]
    fn what_is_no_plugin_is_said() {
        let directory = tempfile::tempdir().expect("a directory");
        let file = directory.path().join("x.so");
        std::fs::write(&file, "no ELF").expect("written");
        assert!(Binary::read(&file).expect_err("text").contains("no plugin"));
        let empty = Binary::default();
        let found = faults(Which::Spank, &empty, None, None, &|_| None);
        assert!(found[0].contains("not a plugin of Slurm"), "{found:?}");
        let Some(lib) = built(directory.path(), "y.so", "int x;\n") else {
            return;
        };
        let other = Binary::read(&lib).expect("a library");
        assert_eq!((other.kind.clone(), other.version), (None, None));
    }
}
