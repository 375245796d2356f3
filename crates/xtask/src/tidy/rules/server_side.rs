//! Controllers, the scheduler and the node use the server through its API like any client: they cannot name its crates.

use crate::tidy::report::Report;
use crate::tidy::tree::Tree;

const OUTSIDE: &[&str] = &["controllers", "node", "scheduler"];
const INSIDES: &[&str] = &["setpoint_store", "setpoint_registry", "setpoint_apiserver"];

pub(super) fn check(tree: &Tree, report: &mut Report) {
    for source in tree
        .rust()
        .filter(|source| source.krate().is_some_and(|name| OUTSIDE.contains(&name)))
    {
        for (offset, inside) in source.production_any(INSIDES) {
            report.violation(
                source,
                offset,
                format!("`{inside}` is the server's inside: go through `runtime`"),
            );
        }
    }
}

#[cfg(test)]
mod tests {
    use super::check;
    use crate::tidy::planted;

    #[test]
    fn a_controller_that_names_the_registry_is_found() {
        let files = [(
            "crates/controllers/src/a/mod.rs",
            "fn f(r: &setpoint_registry::Registry) {}\n",
        )];
        planted::check(check, &files, &["crates/controllers/src/a/mod.rs:1"]);
    }

    #[test]
    fn a_controllers_tests_and_the_binary_may() {
        let files = [
            (
                "crates/controllers/src/a/tests.rs",
                "use setpoint_registry::Registry;\n",
            ),
            (
                "crates/setpoint/src/main.rs",
                "use setpoint_registry::Registry;\n",
            ),
        ];
        planted::check(check, &files, &[]);
    }
}
