//! Dependencies of operators: the packages of KudoOperator tasks, resolved one by one and checked for cycles.

use std::collections::{BTreeMap, BTreeSet};

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

    /// Visits each package once: packages that share dependencies have a number of paths that doubles with each level.
    fn reaches(&self, from: &str, to: &str) -> bool {
        let (mut open, mut visited) = (vec![from], BTreeSet::new());
        while let Some(package) = open.pop() {
            if package == to {
                return true;
            }
            if visited.insert(package) {
                open.extend(self.edges.get(package).into_iter().flatten().map(String::as_str));
            }
        }
        false
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

    /// Each path through the graph would take longer than any test.
    #[test]
    fn shared_dependencies_are_visited_once() {
        let mut graph = DependencyGraph::default();
        for level in (0..60).rev() {
            for (parent, child) in [("a", "a"), ("a", "b"), ("b", "a"), ("b", "b")] {
                let (parent, child) = (format!("{parent}{level}"), format!("{child}{}", level + 1));
                graph.add(&parent, &child).unwrap();
            }
        }
        assert!(graph.add("root", "a0").is_ok());
        assert!(graph.add("b60", "root").is_err());
    }
}
