//! A revision becomes a resource version only in the registry: no other crate names the store.

use crate::tidy::report::Report;
use crate::tidy::tree::Tree;

/// The registry; the engine on etcd and the encryption of values; the binary that opens the store and the commands on its files; the crates that test and measure it.
const USERS: &[&str] = &[
    "bench",
    "cli",
    "encryption",
    "etcd",
    "fuzz",
    "registry",
    "setpoint",
    "store",
    "testkit",
];

pub(super) fn check(tree: &Tree, report: &mut Report) {
    for source in tree
        .rust()
        .filter(|source| !source.krate().is_some_and(|name| USERS.contains(&name)))
    {
        for offset in source.production("setpoint_store") {
            report.violation(
                source,
                offset,
                "the store is named outside `registry`: go through `api::Serve` or `cache`",
            );
        }
    }
}

#[cfg(test)]
mod tests {
    use super::check;
    use crate::tidy::planted;

    const USE: &str = "use setpoint_store::Revision;\n";

    #[test]
    fn the_registry_may_name_the_store() {
        planted::check(check, &[("crates/registry/src/lib.rs", USE)], &[]);
    }

    #[test]
    fn another_crate_that_names_the_store_is_found() {
        planted::check(
            check,
            &[("crates/cache/src/lib.rs", USE)],
            &["crates/cache/src/lib.rs:1"],
        );
    }
}
