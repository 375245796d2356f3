//! Dependencies of operators: the packages of KudoOperator tasks, resolved one by one and checked for cycles.

use std::collections::BTreeMap;

use crate::api::{OperatorVersion, TaskSpec};

/// The operators that an operator depends on, while they are resolved. A name is that of an OperatorVersion.
#[derive(Debug, Default)]
pub(crate) struct DependencyGraph {
    edges: BTreeMap<String, Vec<String>>,
}

impl DependencyGraph {
    /// Adds a dependency. Returns whether it is new; an error if the graph would have a cycle.
    pub(crate) fn add(&mut self, parent: &str, child: &str) -> Result<bool, String> {
        let is_new = child != parent && !self.edges.contains_key(child);
        self.edges.entry(child.to_owned()).or_default();
        self.edges
            .entry(parent.to_owned())
            .or_default()
            .push(child.to_owned());
        match self.reaches(child, parent) {
            true => Err(format!(
                "cyclic package dependency found when adding package {parent} -> {child}"
            )),
            false => Ok(is_new),
        }
    }

    fn reaches(&self, from: &str, to: &str) -> bool {
        from == to
            || self
                .edges
                .get(from)
                .is_some_and(|children| children.iter().any(|child| self.reaches(child, to)))
    }
}

/// The tasks that install other operators.
pub(crate) fn tasks(version: &OperatorVersion) -> impl Iterator<Item = (usize, &TaskSpec)> {
    let tasks = version.spec.tasks.iter().enumerate();
    tasks
        .filter(|(_, task)| task.kind == "KudoOperator")
        .map(|(i, task)| (i, &task.spec))
}

/// The error for a dependency that does not exist.
pub(crate) fn resolve_error(spec: &TaskSpec, parent: &str, error: &str) -> String {
    let any = |version: &String| match version.is_empty() {
        true => "any".to_owned(),
        false => version.clone(),
    };
    format!(
        "failed to resolve package Operator: {:?}, OperatorVersion: {:?}, AppVersion {:?}, dependency of package {parent}: {error}",
        spec.package,
        any(&spec.operator_version),
        any(&spec.app_version),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(edges: &[(&str, &str)], expected: Result<bool, &str>) {
        let mut graph = DependencyGraph::default();
        let mut last = Ok(false);
        for (parent, child) in edges {
            last = graph.add(parent, child);
        }
        assert_eq!(
            last.as_ref().map(|is_new| *is_new).map_err(String::as_str),
            expected
        );
    }

    /// TO7
    #[test]
    fn a_cycle_is_an_error() {
        check(&[("a", "b"), ("b", "c")], Ok(true));
        check(&[("a", "b"), ("a", "c"), ("b", "c")], Ok(false));
        check(
            &[("a", "b"), ("b", "c"), ("c", "a")],
            Err("cyclic package dependency found when adding package c -> a"),
        );
        check(
            &[("a", "a")],
            Err("cyclic package dependency found when adding package a -> a"),
        );
    }
}
