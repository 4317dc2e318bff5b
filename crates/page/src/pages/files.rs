//! The user's files below home: a script is chosen for the form, or a directory to work in.

use super::note;
use crate::address::InAddress;
use crate::system::files::{Listing, MOST};
use libra_plots::markup::Escaped;
use maud::{Markup, html};
use std::path::Path;

/// The page, and the part of it that the form shows beside itself.
pub fn body(listing: &Listing) -> Markup {
    let address = |path: &Path| InAddress(&path.display().to_string()).to_string();
    let inside = |name: &str| address(&listing.path.join(name));
    html! {
        section #files {
            p { "In " code { (Escaped(listing.path.display().to_string())) } }
            p.actions {
                @if let Some(above) = &listing.above {
                    a.button href={ "files?in=" (address(above)) } data-in { "One up" }
                }
                a.button href={ "submit?directory=" (address(&listing.path)) } data-directory=(Escaped(listing.path.display().to_string())) { "Work in this directory" }
            }
            ul.names {
                @for name in &listing.directories {
                    li { a href={ "files?in=" (inside(name)) } data-in { (Escaped(name)) "/" } }
                }
                @for name in &listing.files {
                    li { a href={ "submit?file=" (inside(name)) } data-file { (Escaped(name)) } }
                }
            }
            @if listing.directories.is_empty() && listing.files.is_empty() {
                (note("Nothing here that could be a script: no file of up to 1 MiB, and no directory."))
            }
            @if listing.more {
                p.small { "There are more; the first " (MOST) " are shown." }
            }
        }
    }
}
