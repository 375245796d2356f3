//! Temporary trees with planted violations, for the rules' tests.

use std::path::Path;

use tempfile::TempDir;

use super::report::Report;
use super::rules::Check;
use super::tree::Tree;

/// A source tree in a temporary folder, which is removed with the value.
#[derive(Debug)]
pub(crate) struct PlantedTree {
    folder: TempDir,
}

impl PlantedTree {
    pub(crate) fn new(files: &[(&str, &str)]) -> Self {
        let folder = tempfile::tempdir().unwrap();
        for (path, text) in files {
            let full = folder.path().join(path);
            std::fs::create_dir_all(full.parent().unwrap()).unwrap();
            std::fs::write(full, text).unwrap();
        }
        Self { folder }
    }

    pub(crate) fn root(&self) -> &Path {
        self.folder.path()
    }
}

/// Runs one rule over a planted tree and compares the positions it complains about.
#[track_caller]
pub(crate) fn check(rule: Check, files: &[(&str, &str)], positions: &[&str]) {
    let report = report(rule, files);
    let found: Vec<String> = report
        .lines()
        .map(|line| line.split(": ").next().unwrap_or_default().to_owned())
        .collect();
    assert_eq!(found, positions, "{:#?}", report.lines().collect::<Vec<_>>());
    assert_eq!(report.violations(), positions.len());
}

/// The report of one rule about a planted tree.
pub(crate) fn report(rule: Check, files: &[(&str, &str)]) -> Report {
    let planted = PlantedTree::new(files);
    let mut report = Report::default();
    report.begin("planted");
    rule(&Tree::load(planted.root()).unwrap(), &mut report);
    report
}
