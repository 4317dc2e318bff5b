//! Which interface the site's Slurm has.

use std::env;

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    println!("cargo::rustc-check-cfg=cfg(slurm_modify_without_text)");
    let number: u32 = env::var("DEP_SLURM_VERSION_NUMBER")
        .ok()
        .and_then(|number| number.parse().ok())
        .expect("libra-slurm-sys says which Slurm it was built for");
    // 23.02: job_modify has a text for the user.
    if number < 23 << 16 | 2 << 8 {
        println!("cargo:rustc-cfg=slurm_modify_without_text");
    }
    // A symbol that this Slurm does not have is to be found when slurmctld starts, not in the middle of a submission.
    println!("cargo:rustc-cdylib-link-arg=-Wl,-z,now");
    // The thread's code must stay where it is when slurmctld drops its plugins.
    println!("cargo:rustc-cdylib-link-arg=-Wl,-z,nodelete");
}
