//! The work tree as the rules see it: every text file, read once.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use anyhow::{Context, Result};

use super::source::Source;

/// What is built or fetched, never written by us.
const NOT_OURS: &[&str] = &["target", "node_modules", ".git", ".venv"];

/// All text files, in path order, so that findings come in the same order everywhere.
#[derive(Debug, Default)]
pub(crate) struct Tree {
    pub(crate) sources: Vec<Source>,
    /// Folders below the root, relative, in order.
    pub(crate) folders: Vec<String>,
}

impl Tree {
    pub(crate) fn load(root: &Path) -> Result<Self> {
        let mut tree = Self::default();
        tree.read_folder(root, "")?;
        tree.sources.sort_by(|a, b| a.path.cmp(&b.path));
        tree.folders.sort();
        tree.mark_test_modules();
        Ok(tree)
    }

    pub(crate) fn rust(&self) -> impl Iterator<Item = &Source> {
        self.sources
            .iter()
            .filter(|source| source.is_rust() && source.krate().is_some())
    }

    pub(crate) fn find(&self, path: &str) -> Option<&Source> {
        self.sources.iter().find(|source| source.path == path)
    }

    fn read_folder(&mut self, root: &Path, folder: &str) -> Result<()> {
        let full = root.join(folder);
        for entry in fs::read_dir(&full).with_context(|| format!("read folder {}", full.display()))? {
            let entry = entry?;
            let name = entry.file_name().to_string_lossy().into_owned();
            let path = if folder.is_empty() {
                name.clone()
            } else {
                format!("{folder}/{name}")
            };
            let file_type = entry.file_type()?;
            if file_type.is_dir() && !NOT_OURS.contains(&name.as_str()) {
                self.read_folder(root, &path)?;
                self.folders.push(path);
            } else if file_type.is_file() && !NOT_OURS.contains(&name.as_str()) {
                self.read_file(&entry.path(), &path)?;
            }
        }
        Ok(())
    }

    /// Files that are not UTF-8 are data, not text: no rule reads them.
    fn read_file(&mut self, full: &Path, path: &str) -> Result<()> {
        let bytes = fs::read(full).with_context(|| format!("read file {path}"))?;
        if let Ok(text) = String::from_utf8(bytes) {
            self.sources.push(Source::new(path, &text));
        }
        Ok(())
    }

    /// A file that its parent declares under `#[cfg(test)]` is a test, and so is all below it.
    fn mark_test_modules(&mut self) {
        let mut stems = BTreeSet::new();
        for source in &self.sources {
            let folder = module_folder(&source.path);
            stems.extend(
                source
                    .test_modules()
                    .into_iter()
                    .map(|name| format!("{folder}/{name}")),
            );
        }
        let is_below = |path: &str, stem: &String| {
            path.strip_prefix(stem.as_str())
                .is_some_and(|rest| rest == ".rs" || rest.starts_with('/'))
        };
        for source in &mut self.sources {
            if source.is_rust() && stems.iter().any(|stem| is_below(&source.path, stem)) {
                source.mark_test();
            }
        }
    }
}

/// Where the modules that a file declares live.
fn module_folder(path: &str) -> &str {
    let stem = path.strip_suffix(".rs").unwrap_or(path);
    let (folder, name) = stem.rsplit_once('/').unwrap_or(("", stem));
    if matches!(name, "lib" | "main" | "mod") {
        folder
    } else {
        stem
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tidy::planted::PlantedTree;

    #[test]
    fn built_folders_and_data_files_are_not_read() {
        let planted = PlantedTree::new(&[("target/a.rs", "x"), ("crates/a/src/lib.rs", "y")]);
        std::fs::write(planted.root().join("crates/a/blob"), [0xff, 0xfe]).unwrap();
        let tree = Tree::load(planted.root()).unwrap();
        let paths: Vec<&str> = tree.sources.iter().map(|source| source.path.as_str()).collect();
        assert_eq!(paths, ["crates/a/src/lib.rs"]);
    }

    #[test]
    fn a_module_declared_for_tests_is_a_test_with_all_below_it() {
        let planted = PlantedTree::new(&[
            ("crates/a/src/lib.rs", "#[cfg(test)]\nmod script;\nmod other;\n"),
            ("crates/a/src/script.rs", "fn a() {}"),
            ("crates/a/src/script/step.rs", "fn a() {}"),
            ("crates/a/src/other.rs", "fn a() {}"),
        ]);
        let tree = Tree::load(planted.root()).unwrap();
        let tests: Vec<&str> = tree
            .rust()
            .filter(|source| source.is_all_test())
            .map(|s| s.path.as_str())
            .collect();
        assert_eq!(tests, ["crates/a/src/script.rs", "crates/a/src/script/step.rs"]);
    }
}
