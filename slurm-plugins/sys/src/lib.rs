//! Slurm's side of the plugins: the site's headers as Rust, and every unsafe step around them.

#[allow(
    non_camel_case_types,
    non_upper_case_globals,
    non_snake_case,
    missing_docs,
    unsafe_code,
    clippy::all
)]
pub mod slurm {
    //! What bindgen made of slurm.h and spank.h.
    include!(concat!(env!("OUT_DIR"), "/slurm.rs"));
}
