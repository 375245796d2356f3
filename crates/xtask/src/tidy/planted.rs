//! Temporary trees with planted violations, for the rules' tests.

use std::path::Path;

use tempfile::TempDir;

use super::report::Report;
use super::rules::Check;
use super::tree::Tree;

/// A tree on disk that goes away with its value.
#[derive(Debug)]
pub(crate) struct Planted {
    folder: TempDir,
}

impl Planted {
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

/// Runs one rule over a planted tree and compares the places it complains about.
#[track_caller]
pub(crate) fn check(rule: Check, files: &[(&str, &str)], places: &[&str]) {
    let report = report(rule, files);
    let found: Vec<String> = report
        .lines()
        .map(|line| line.split(": ").next().unwrap_or_default().to_owned())
        .collect();
    assert_eq!(found, places, "{:#?}", report.lines().collect::<Vec<_>>());
    assert_eq!(report.violations(), places.len());
}

/// What one rule says about a planted tree.
pub(crate) fn report(rule: Check, files: &[(&str, &str)]) -> Report {
    let planted = Planted::new(files);
    let mut report = Report::default();
    report.begin("planted");
    rule(&Tree::load(planted.root()).unwrap(), &mut report);
    report
}
