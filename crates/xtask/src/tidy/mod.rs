//! `cargo xtask tidy`: checks of the repository's own rules (layers, naming, file sizes, docs).
//!
//! A rule is a file in `rules/` and one line in `rules::ALL`. Rules read text, never the network or the compiler's
//! output, and never change a file. Start reading at `rules/mod.rs`; `layers.rs` is the table of allowed dependencies.

pub(crate) mod layers;
mod lexer;
#[cfg(test)]
mod planted;
mod public_api;
mod report;
mod rules;
mod source;
mod tree;

use std::path::Path;
use std::process::ExitCode;

use anyhow::Result;

use report::Report;
use tree::Tree;

/// Checks the tree and prints one line per finding.
pub(crate) fn run(root: &Path) -> Result<ExitCode> {
    let report = inspect(&Tree::load(root)?);
    for line in report.lines() {
        println!("{line}");
    }
    println!(
        "tidy: {} rules, {} violations",
        rules::ALL.len(),
        report.violations()
    );
    Ok(if report.violations() == 0 {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    })
}

/// Writes the snapshots of the libraries' public items, which a rule compares.
pub(crate) fn write_public_api(root: &Path) -> Result<ExitCode> {
    public_api::write(root)?;
    Ok(ExitCode::SUCCESS)
}

/// Runs every rule over a tree.
fn inspect(tree: &Tree) -> Report {
    let mut report = Report::default();
    for (name, check) in rules::ALL {
        report.begin(name);
        check(tree, &mut report);
    }
    report
}

#[cfg(test)]
mod tests {
    use super::*;
    use planted::PlantedTree;

    #[test]
    fn a_finding_has_its_position_rule_and_remedy() {
        let planted =
            PlantedTree::new(&[("crates/store/src/lib.rs", "//! A.\nfn f() { Instant::now(); }\n")]);
        let report = inspect(&Tree::load(planted.root()).unwrap());
        let lines: Vec<String> = report.lines().filter(|line| !line.contains("(advice)")).collect();
        assert_eq!(
            lines,
            ["crates/store/src/lib.rs:2: time: `Instant::now`: ask the clock that was handed in"]
        );
    }

    #[test]
    fn a_clean_tree_has_no_violation() {
        let planted = PlantedTree::new(&[
            ("crates/store/Cargo.toml", "[lints]\nworkspace = true\n"),
            ("crates/store/src/lib.rs", "//! Keeps bytes.\n\nfn keep() {}\n"),
        ]);
        assert_eq!(inspect(&Tree::load(planted.root()).unwrap()).violations(), 0);
    }
}
