//! The public items of the library crates, read from their source.
//!
//! An approximation by text, enough to see each change of an interface in review: it follows `pub mod` from `lib.rs` and
//! `pub use` into private modules, and does not see what a macro generates. `cargo xtask public-api` writes the snapshots
//! that the rule `public-api` compares. Start reading at `modules.rs`, then `lines.rs`.

mod lines;
mod modules;
mod scan;
mod text;
mod uses;

use std::fs;
use std::path::Path;

use anyhow::{Context, Result};

use super::layers::{LIBRARIES, LIBRARIES_IN_SOURCE};
use super::tree::Tree;
use modules::Modules;

/// Where the snapshots are.
pub(crate) const FOLDER: &str = "docs/public-api";

/// The public items of one crate.
#[derive(Debug)]
pub(crate) struct Snapshot {
    /// The file that has it, from the root.
    pub(crate) path: String,
    pub(crate) text: String,
}

/// The snapshots of all library crates that the tree has.
pub(crate) fn snapshots(tree: &Tree) -> Vec<Snapshot> {
    let libraries = LIBRARIES.iter().chain(LIBRARIES_IN_SOURCE);
    libraries.filter_map(|krate| snapshot(tree, krate)).collect()
}

fn snapshot(tree: &Tree, krate: &str) -> Option<Snapshot> {
    let modules = Modules::load(tree, krate)?;
    let mut text = format!("# Public items of setpoint-{krate}, written by `cargo xtask public-api`.\n");
    for line in lines::lines(&modules, &format!("setpoint_{krate}")) {
        text.push_str(&line);
        text.push('\n');
    }
    Some(Snapshot {
        path: format!("{FOLDER}/{krate}.txt"),
        text,
    })
}

/// Writes the snapshots.
pub(crate) fn write(root: &Path) -> Result<()> {
    fs::create_dir_all(root.join(FOLDER)).with_context(|| format!("cannot create {FOLDER}"))?;
    for snapshot in snapshots(&Tree::load(root)?) {
        let path = root.join(&snapshot.path);
        fs::write(&path, snapshot.text).with_context(|| format!("cannot write {}", path.display()))?;
        println!("{}", snapshot.path);
    }
    Ok(())
}
