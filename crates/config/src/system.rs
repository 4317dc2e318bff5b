//! Who admits jobs: a host alone, and every batch system that Libra works in.

/// One of them. Its name is that of its section in the configuration (`[local]` has none), of its files of metrics, of what is typed behind
/// `libra quote --system`, and of its kind on the page.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum System {
    /// `libra run` on one host.
    Local,
    /// OpenPBS, by its hooks.
    Pbs,
    /// Slurm, by its plugins.
    Slurm,
    /// Grid Engine, by its verifier.
    GridEngine,
}

impl System {
    /// All of them.
    pub const ALL: [System; 4] = [
        System::Local,
        System::Pbs,
        System::Slurm,
        System::GridEngine,
    ];

    /// Those that are batch systems.
    pub fn batch() -> impl Iterator<Item = System> {
        (System::ALL.into_iter()).filter(|system| *system != System::Local)
    }

    /// `local`, `pbs`, `slurm`, `gridengine`.
    pub fn name(self) -> &'static str {
        match self {
            System::Local => "local",
            System::Pbs => "pbs",
            System::Slurm => "slurm",
            System::GridEngine => "gridengine",
        }
    }

    /// The one of this name.
    pub fn named(name: &str) -> Option<System> {
        (System::ALL.into_iter()).find(|system| system.name() == name)
    }
}
