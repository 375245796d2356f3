//! Files of a case: which step each belongs to, and what it is for.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

/// The end of the names of templates.
const TEMPLATE: &str = ".gotmpl.yaml";

/// A file of a step.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct StepFile {
    pub(crate) path: PathBuf,
    pub(crate) role: Role,
    /// Whether it is a Go template, by its name.
    pub(crate) is_template: bool,
}

/// What a file of a step is for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Role {
    /// Its objects are applied. The name is that of the step.
    Apply(String),
    /// Its objects must exist after the step.
    Assert,
    /// Its objects must not exist after the step.
    Errors,
}

impl StepFile {
    fn new(path: PathBuf, role: Role) -> Self {
        let is_template = path.to_string_lossy().ends_with(TEMPLATE);
        Self {
            path,
            role,
            is_template,
        }
    }
}

/// The files of a case by the index of their step. A directory `NN-name` has the files of one step.
pub(crate) fn collect(dir: &Path) -> Result<BTreeMap<u32, Vec<StepFile>>> {
    let mut steps: BTreeMap<u32, Vec<StepFile>> = BTreeMap::new();
    for path in entries(dir)? {
        let Some((Some(index), role)) = parse(&path) else {
            continue;
        };
        let files = steps.entry(index).or_default();
        if !path.is_dir() {
            files.push(StepFile::new(path, role));
            continue;
        }
        for path in entries(&path)? {
            if let Some((_, role)) = parse(&path) {
                files.push(StepFile::new(path, role));
            }
        }
    }
    Ok(steps)
}

fn entries(dir: &Path) -> Result<Vec<PathBuf>> {
    let mut paths = Vec::new();
    for entry in std::fs::read_dir(dir).with_context(|| format!("cannot read {}", dir.display()))? {
        paths.push(entry?.path());
    }
    paths.sort();
    Ok(paths)
}

/// The index and the role of a file or directory; `None` if it is no part of a step.
fn parse(path: &Path) -> Option<(Option<u32>, Role)> {
    let name = path.file_name()?.to_str()?;
    let stem = match name.strip_suffix(TEMPLATE).or(name.strip_suffix(".yaml")) {
        Some(stem) => stem,
        None if path.is_dir() => name,
        None => return None,
    };
    let digits = stem.split('-').next().unwrap_or_default();
    let is_index = !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit());
    let (index, rest) = match (is_index, stem.split_once('-')) {
        (true, Some((digits, rest))) => (Some(digits.parse().ok()?), rest),
        _ => (None, stem),
    };
    if rest.is_empty() || rest.contains('.') {
        return None;
    }
    let role = match rest.split('-').next().unwrap_or_default().to_lowercase().as_str() {
        "assert" => Role::Assert,
        "errors" => Role::Errors,
        _ => Role::Apply(rest.to_owned()),
    };
    Some((index, role))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(name: &str, expected: Option<(Option<u32>, Role)>) {
        assert_eq!(parse(Path::new(name)), expected);
    }

    #[test]
    fn the_name_of_a_file_has_index_and_role() {
        check("00-assert.yaml", Some((Some(0), Role::Assert)));
        check("01-errors-more.yaml", Some((Some(1), Role::Errors)));
        check(
            "12-install-it.yaml",
            Some((Some(12), Role::Apply("install-it".to_owned()))),
        );
        check("service.yaml", Some((None, Role::Apply("service".to_owned()))));
        check("02-assert.gotmpl.yaml", Some((Some(2), Role::Assert)));
    }

    #[test]
    fn files_of_other_formats_are_no_step() {
        check("README.md", None);
        check("00-install.json", None);
        check("00-install.other.yaml", None);
    }
}
