//! Makes the Rust side of the site's own Slurm headers: structures differ from version to version, and slurmctld loads only
//! what was built for it.

#[path = "../../build/bindings.rs"]
mod bindings;

use std::env;
use std::path::{Path, PathBuf};
use std::process::Command;

fn main() {
    println!("cargo:rerun-if-env-changed=SLURM_INCLUDE");
    // What is in the headers, by scripts/slurm-plugins: times alone do not tell those of another Slurm at the same path, which may be older.
    println!("cargo:rerun-if-env-changed=LIBRA_SLURM_HEADERS");
    println!("cargo:rerun-if-env-changed=CC");
    println!("cargo:rerun-if-changed=build.rs");
    println!("cargo:rerun-if-changed=../../build/bindings.rs");
    println!("cargo:rerun-if-changed=wrapper.h");
    let include = env::var("SLURM_INCLUDE").unwrap_or_else(|_| "/usr/include".to_string());
    let header = format!("{include}/slurm/spank.h");
    println!("cargo:rerun-if-changed={header}");
    println!("cargo:rerun-if-changed={include}/slurm/slurm.h");
    println!("cargo:rerun-if-changed={include}/slurm/slurm_version.h");
    let Some(number) = version(&include) else {
        return;
    };
    println!("cargo:VERSION_NUMBER={number}");
    let out = PathBuf::from(env::var_os("OUT_DIR").expect("cargo sets OUT_DIR"));
    own_unwinder(&out);
    let made = bindgen::Builder::default()
        .header("wrapper.h")
        .clang_arg(format!("-I{include}"))
        .allowlist_function("slurm_(load|free)_(job|jobs|job_info_msg|node|node_info_msg|partitions|partition_info_msg|ctl_conf|conf|reservations|reservation_info_msg)")
        .allowlist_function("slurm_(init|update_job2|suspend2|resume2|free_job_array_resp|init_job_desc_msg)")
        .allowlist_function("slurm_hostlist_(create|shift|destroy)")
        .allowlist_function("slurm_(info|error|debug|verbose)|slurm_strerror|slurm_spank_log|spank_.*")
        .allowlist_type("job_desc_msg_t|job_info_msg_t|node_info_msg_t|partition_info_msg_t|reserve_info_msg_t|spank_.*")
        .allowlist_type("job_states|node_states|job_state_reason")
        .allowlist_var("SLURM_VERSION_NUMBER|SLURM_BATCH_SCRIPT|NO_VAL.*|INFINITE.*|JOB_.*|NODE_STATE_.*|PART_FLAG_.*|JOB_SHARED_.*|GRES_ENFORCE_BIND|PARTITION_.*|SHARED_FORCE|MEM_PER_CPU|SHOW_.*|ESLURM_ACCESS_DENIED|ESLURM_INVALID_JOB_ID|SLURM_NO_CHANGE_IN_DATA|SLURM_(SUCCESS|ERROR)|ESPANK_.*|PRIORITY_.*")
        .default_enum_style(bindgen::EnumVariation::Consts)
        .prepend_enum_name(false)
        // State flags are written as SLURM_BIT(n).
        .clang_macro_fallback()
        .clang_macro_fallback_build_dir(&out)
        .size_t_is_usize(true)
        .rust_edition(bindgen::RustEdition::Edition2024)
        .merge_extern_blocks(true)
        .derive_default(false)
        .layout_tests(false);
    let file = out.join("slurm.rs");
    bindings::write(
        made,
        &file,
        &format!("{include}/slurm"),
        ". It needs Slurm's headers (Debian: libslurm-dev; others: SLURM_INCLUDE=DIR)",
    );
    // Where it could not be written, cargo has been told why.
    find_interface(&std::fs::read_to_string(file).unwrap_or_default());
}

/// Which of its interfaces this Slurm has: told by what is declared, not by the version, which says nothing of what a distribution has
/// put in.
fn find_interface(made: &str) {
    println!("cargo::rustc-check-cfg=cfg(slurm_load_job_by_step_id)");
    let declared = made.split("fn slurm_load_job(").nth(1).unwrap_or_default();
    let arguments = declared.split(';').next().unwrap_or_default();
    // 26.05: a job is named by its number, or by its SLUID.
    if arguments.contains("slurm_step_id_t") {
        println!("cargo::rustc-cfg=slurm_load_job_by_step_id");
    }
    // Texts of jobs that came after 22.05.
    for text in ["resv_ports", "licenses_allocated"] {
        println!("cargo::rustc-check-cfg=cfg(slurm_job_{text})");
        if made.contains(&format!("pub {text}: *mut")) {
            println!("cargo::rustc-cfg=slurm_job_{text}");
        }
    }
    println!("cargo::rustc-check-cfg=cfg(slurm_free_conf)");
    // 25.05: another name of the same function.
    if made.contains("fn slurm_free_conf(") {
        println!("cargo::rustc-cfg=slurm_free_conf");
    }
}

/// Puts what catches panics into the plugins themselves. By default it is in libgcc_s.so, which every sbatch would load just for a
/// plugin, twice: Slurm opens each to look at it, closes it, and opens it again. That is more than half of what opening takes
/// (docs/performance.md). Where the C compiler has no static one, the default stays. What that one asks of glibc, `find_object.c` answers.
fn own_unwinder(out: &Path) {
    println!("cargo:rerun-if-changed=find_object.c");
    let compiler = env::var_os("CC").unwrap_or_else(|| "cc".into());
    let found = Command::new(&compiler)
        .arg("-print-file-name=libgcc_eh.a")
        .output();
    // Where there is none, the bare name is printed.
    let there = found.is_ok_and(|found| found.stdout.starts_with(b"/"));
    let directory = out.join("unwinder");
    let script = directory.join("libgcc_s.so");
    if !there {
        return;
    }
    std::fs::create_dir_all(&directory).expect("OUT_DIR can be written");
    let object = directory.join("find_object.o");
    let compiled = Command::new(&compiler)
        .args(["-c", "-O2", "-fPIC", "-fvisibility=hidden", "-o"])
        .arg(&object)
        .arg("find_object.c")
        .status();
    if !compiled.is_ok_and(|status| status.success()) {
        println!(
            "cargo::error={} cannot compile slurm-plugins/sys/find_object.c; what it said is above. Install a C compiler with its headers (Debian: gcc, libc6-dev), or say CC=COMPILER",
            Path::new(&compiler).display()
        );
        return;
    }
    let input = format!(
        "INPUT(\"{}\" -l:libgcc_eh.a -l:libgcc.a)\n",
        object.display()
    );
    std::fs::write(&script, input).expect("OUT_DIR can be written");
    println!("cargo:rustc-link-search=native={}", directory.display());
}

/// SLURM_VERSION_NUMBER of the headers, as a decimal number. What is wrong with them is told to cargo, which then ends the build.
fn version(include: &str) -> Option<u32> {
    let path = format!("{include}/slurm/slurm_version.h");
    let found = std::fs::read_to_string(&path)
        .map_err(|error| format!("cannot be read: {error}"))
        .and_then(|text| {
            (text.lines())
                .filter_map(|line| line.strip_prefix("#define SLURM_VERSION_NUMBER"))
                .find_map(|number| {
                    u32::from_str_radix(number.trim().trim_start_matches("0x"), 16).ok()
                })
                .ok_or_else(|| "has no SLURM_VERSION_NUMBER".to_string())
        });
    found
        .map_err(|problem| {
            println!("cargo::error={path} {problem}. Install Slurm's headers (Debian: apt-get install libslurm-dev), or say SLURM_INCLUDE=DIR, the directory in which slurm/ is");
        })
        .ok()
}
