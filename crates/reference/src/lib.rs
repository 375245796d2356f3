//! Readers of `reference/`, the facts recorded from Kubernetes that tests compare Setpoint with.
//!
//! Only tests may depend on this crate. The folder is part of the repository, so a file that is missing or unreadable
//! is a broken checkout: every function panics with the path instead of letting a test pass without a comparison.
//! `reference/README.md` describes the files.
//!
//! Start reading at [`transcript`], then [`golden`].

#![warn(missing_docs)]

mod golden;
mod tsv;

use std::fs;
use std::io::Read as _;
use std::path::{Path, PathBuf};

use flate2::read::GzDecoder;

pub use golden::{Golden, golden};
pub use tsv::{Row, rows};

const TRANSCRIPT_SUFFIX: &str = ".jsonl.gz";

/// Path of the `reference/` folder of this checkout.
pub fn folder() -> PathBuf {
    let workspace = Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().nth(2);
    workspace
        .expect("the crate lies two folders below the workspace root")
        .join("reference")
}

/// Content of one text file, by its path below `reference/`.
pub fn text(name: &str) -> String {
    let path = folder().join(name);
    String::from_utf8(read(&path)).unwrap_or_else(|error| panic!("{} is not UTF-8: {error}", path.display()))
}

/// Recorded requests and responses of one area, such as `update`: one JSON case per line.
pub fn transcript(area: &str) -> String {
    let path = folder()
        .join("transcripts")
        .join(format!("{area}{TRANSCRIPT_SUFFIX}"));
    let mut text = String::new();
    GzDecoder::new(read(&path).as_slice())
        .read_to_string(&mut text)
        .unwrap_or_else(|error| panic!("cannot decompress {}: {error}", path.display()));
    text
}

/// Names of all recorded areas, sorted.
pub fn areas() -> Vec<String> {
    let names = file_names(&folder().join("transcripts"));
    let areas = names
        .iter()
        .filter_map(|name| name.strip_suffix(TRANSCRIPT_SUFFIX));
    areas.map(ToOwned::to_owned).collect()
}

/// JSON of the objects that a new cluster starts with.
pub fn bootstrap_objects() -> String {
    text("bootstrap-objects.json")
}

/// JSON of the aggregated discovery document of `api` or `apis`, with default flags.
pub fn discovery(root: &str) -> String {
    text(&format!("discovery-default-{root}.json"))
}

/// JSON of the printer columns of every listable resource.
pub fn table_columns() -> String {
    text("table-columns.json")
}

fn read(path: &Path) -> Vec<u8> {
    fs::read(path).unwrap_or_else(|error| panic!("cannot read reference data {}: {error}", path.display()))
}

/// Names of the files in a folder, sorted.
fn file_names(folder: &Path) -> Vec<String> {
    let entries = fs::read_dir(folder)
        .unwrap_or_else(|error| panic!("cannot read reference data {}: {error}", folder.display()));
    let names = entries.map(|entry| {
        let entry = entry.expect("an entry of a readable folder can be read");
        entry.file_name().to_string_lossy().into_owned()
    });
    let mut names: Vec<String> = names.collect();
    names.sort();
    names
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_transcript_has_cases_of_its_own_area() {
        let areas = areas();
        assert!(areas.iter().any(|area| area == "update"), "{areas:?}");
        for area in areas {
            let text = transcript(&area);
            let id = format!("{{\"id\": \"{area}.");
            assert!(text.lines().all(|line| line.starts_with(&id)), "{area}");
            assert!(text.ends_with('\n'), "{area}");
        }
    }

    #[test]
    #[should_panic(expected = "cannot read reference data")]
    fn a_missing_file_is_a_broken_checkout() {
        transcript("no-such-area");
    }
}
