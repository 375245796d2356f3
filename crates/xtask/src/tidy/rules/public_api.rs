//! The public items of a library crate are those of its snapshot in `docs/public-api/`: a change of an interface that
//! others depend on is seen in review.

use std::collections::BTreeSet;

use crate::tidy::public_api::{self, FOLDER, Snapshot};
use crate::tidy::report::Report;
use crate::tidy::tree::Tree;

pub(super) fn check(tree: &Tree, report: &mut Report) {
    let snapshots = public_api::snapshots(tree);
    for snapshot in &snapshots {
        let committed = tree
            .find(&snapshot.path)
            .map_or("", |source| source.text.as_str());
        if committed != snapshot.text {
            report.violation_of(&snapshot.path, difference(committed, snapshot));
        }
    }
    for source in &tree.sources {
        let is_snapshot = source.path.starts_with(&format!("{FOLDER}/"));
        if is_snapshot && snapshots.iter().all(|snapshot| snapshot.path != source.path) {
            report.violation_of(&source.path, "no library crate has this name: delete the file");
        }
    }
}

/// What has changed, and what to do.
fn difference(committed: &str, snapshot: &Snapshot) -> String {
    let (old, new) = (line_set(committed), line_set(&snapshot.text));
    let added = new.difference(&old).map(|line| ("+", *line));
    let removed = old.difference(&new).map(|line| ("-", *line));
    let changes: Vec<(&str, &str)> = removed.chain(added).collect();
    let (sign, line) = changes.first().copied().unwrap_or(("", "order of the lines"));
    format!(
        "{} public items differ, first `{sign} {line}`: if that is intended, run `cargo xtask public-api` and commit the file",
        changes.len()
    )
}

fn line_set(text: &str) -> BTreeSet<&str> {
    text.lines().filter(|line| !line.starts_with('#')).collect()
}

#[cfg(test)]
mod tests {
    use super::check;
    use crate::tidy::planted::{self, PlantedTree};
    use crate::tidy::public_api;
    use crate::tidy::tree::Tree;

    const SNAPSHOT: &str = "docs/public-api/api.txt";

    /// The lines of the snapshot of `api` with these files below `src`.
    #[track_caller]
    fn check_lines(files: &[(&str, &str)], expected: &[&str]) {
        let files: Vec<(String, &str)> = files
            .iter()
            .map(|(path, text)| (format!("crates/api/src/{path}"), *text))
            .collect();
        let files: Vec<(&str, &str)> = files.iter().map(|(path, text)| (path.as_str(), *text)).collect();
        let planted = PlantedTree::new(&files);
        let snapshots = public_api::snapshots(&Tree::load(planted.root()).unwrap());
        let lines: Vec<&str> = snapshots[0].text.lines().skip(1).collect();
        assert_eq!(lines, expected);
    }

    #[test]
    fn a_public_item_that_the_snapshot_lacks_is_found() {
        let lib = ("crates/api/src/lib.rs", "pub fn f() {}\n");
        planted::check(check, &[lib], &[SNAPSHOT]);
        let old = "# Public items of setpoint-api, written by `cargo xtask public-api`.\n";
        planted::check(check, &[lib, (SNAPSHOT, old)], &[SNAPSHOT]);
        let new = format!("{old}setpoint_api: pub fn f()\n");
        planted::check(check, &[lib, (SNAPSHOT, &new)], &[]);
    }

    #[test]
    fn a_snapshot_of_no_library_is_found() {
        planted::check(
            check,
            &[("docs/public-api/old.txt", "")],
            &["docs/public-api/old.txt"],
        );
    }

    #[test]
    fn private_and_test_items_are_left_out() {
        check_lines(
            &[
                (
                    "lib.rs",
                    "mod a;\npub(crate) fn g() {}\nfn h() { pub fn inner() {} }\n#[cfg(test)]\npub fn t() {}\n",
                ),
                ("a.rs", "pub fn f() {}\n"),
            ],
            &[],
        );
    }

    #[test]
    fn what_a_private_module_has_is_listed_where_it_is_re_exported() {
        check_lines(
            &[
                ("lib.rs", "mod a;\npub use a::{B, c as d};\n"),
                ("a.rs", "mod b;\npub use b::B;\npub fn c() {}\npub fn e() {}\n"),
                (
                    "a/b.rs",
                    "pub struct B(pub u8, u8);\nimpl B { pub fn f(&self) {} fn g() {} }\n",
                ),
            ],
            &[
                "setpoint_api: pub fn c()",
                "setpoint_api: pub struct B(pub u8, _)",
                "setpoint_api: pub use a::B",
                "setpoint_api: pub use a::c as d",
                "setpoint_api::B: pub fn f(&self)",
            ],
        );
    }

    #[test]
    fn fields_variants_and_members_are_listed() {
        let text = "#[derive(Clone)]\npub struct S<T> {\n  pub a: Vec<(T, u8)>,\n  b: u8,\n}\n\
            pub enum E {\n  /// Doc.\n  A,\n  #[x]\n  B { c: u8, },\n}\n\
            pub trait T {\n  const N: u8 = 1;\n  fn f(&self);\n  fn g(&self) {}\n}\n\
            impl<X> T for S<X> {\n  fn f(&self) {}\n}\n\
            pub const C: [u8; 2] = [1, 2];\n";
        check_lines(
            &[("lib.rs", "pub mod m;\n"), ("m/mod.rs", text)],
            &[
                "setpoint_api: pub mod m",
                "setpoint_api::m: pub const C: [u8; 2]",
                "setpoint_api::m: pub enum E",
                "setpoint_api::m: pub struct S<T>",
                "setpoint_api::m: pub trait T",
                "setpoint_api::m::E: A",
                "setpoint_api::m::E: B { c: u8 }",
                "setpoint_api::m::S: (private fields)",
                "setpoint_api::m::S: impl Clone",
                "setpoint_api::m::S: impl<X> T for S<X>",
                "setpoint_api::m::S: pub a: Vec<(T, u8)>",
                "setpoint_api::m::T: const N: u8",
                "setpoint_api::m::T: fn f(&self)",
                "setpoint_api::m::T: fn g(&self) { .. }",
            ],
        );
    }

    #[test]
    fn an_implementation_of_a_private_trait_is_left_out() {
        check_lines(
            &[(
                "lib.rs",
                "pub struct S;\ntrait P {}\nimpl P for S {}\nimpl Drop for S { fn drop(&mut self) {} }\n",
            )],
            &["setpoint_api: pub struct S", "setpoint_api::S: impl Drop for S"],
        );
    }
}
