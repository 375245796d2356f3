//! Nothing committed knows the machine it was written on, nor the host a package came from.

use crate::tidy::report::Report;
use crate::tidy::tree::Tree;

/// Absolute folders of one machine. Written in two halves, so that this table does not find itself.
const FOLDERS: &[&str] = &[
    concat!("/ro", "ot/"),
    concat!("/wo", "rk/"),
    concat!("/ho", "me/"),
];

/// Hosts that package managers talk to by themselves.
const HOSTS: &[&str] = &[
    concat!("crates", ".io/"),
    concat!("index.crates", ".io"),
    concat!("static.crates", ".io"),
    concat!("deb.debian", ".org"),
    concat!("files.python", "hosted.org"),
    concat!("proxy.golang", ".org"),
    concat!("pypi", ".org"),
    concat!("registry.npm", "js.org"),
];

/// The ending of names that only one network knows.
const INTERNAL: &str = concat!(".inter", "nal");

pub(super) fn check(tree: &Tree, report: &mut Report) {
    for source in &tree.sources {
        for (offset, position) in positions(&source.text) {
            report.violation(
                source,
                offset,
                format!("`{position}` is known on one machine only: leave it out"),
            );
        }
    }
}

fn positions(text: &str) -> Vec<(usize, &str)> {
    let folders = FOLDERS
        .iter()
        .flat_map(|word| text.match_indices(word))
        .filter(|(offset, _)| begins(text, *offset));
    let hosts = HOSTS.iter().flat_map(|word| text.match_indices(word));
    let internal = text
        .match_indices(INTERNAL)
        .filter(|(offset, _)| is_host_ending(text, *offset));
    let mut found: Vec<(usize, &str)> = folders.chain(hosts).chain(internal).collect();
    found.sort_unstable();
    found
}

/// An absolute path follows a quote, a space or a sign, never a name that it would continue.
fn begins(text: &str, offset: usize) -> bool {
    !text[..offset].ends_with(|letter: char| letter.is_alphanumeric() || "._-/*}".contains(letter))
}

/// A host name, not a field or a function: letters before it, and nothing that goes on after it.
fn is_host_ending(text: &str, offset: usize) -> bool {
    let after = text[offset + INTERNAL.len()..].chars().next();
    let goes_on = after.is_some_and(|letter| letter.is_alphanumeric() || "_(.,;)?".contains(letter));
    text[..offset].ends_with(|letter: char| letter.is_ascii_alphanumeric()) && !goes_on
}

#[cfg(test)]
mod tests {
    use super::{FOLDERS, HOSTS, INTERNAL, check};
    use crate::tidy::planted;

    #[test]
    fn every_folder_and_host_of_the_table_is_found() {
        for position in FOLDERS.iter().chain(HOSTS) {
            planted::check(
                check,
                &[("docs/a.md", &format!("\nsee {position}x"))],
                &["docs/a.md:2"],
            );
        }
    }

    #[test]
    fn a_name_of_one_network_is_found() {
        planted::check(
            check,
            &[(".ci/run", &format!("curl https://cache{INTERNAL}/x"))],
            &[".ci/run:1"],
        );
    }

    #[test]
    fn a_folder_inside_another_passes() {
        planted::check(
            check,
            &[(
                "docs/a.md",
                &format!("example.org{}x ..{}y", FOLDERS[2], FOLDERS[1]),
            )],
            &[],
        );
    }

    #[test]
    fn a_function_of_that_name_passes() {
        planted::check(
            check,
            &[(
                "crates/a/src/b.rs",
                &format!("status{INTERNAL}(); status{INTERNAL}_error"),
            )],
            &[],
        );
    }
}
