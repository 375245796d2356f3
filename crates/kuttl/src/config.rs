//! The kinds of test files (`kuttl.dev/v1beta1`): TestSuite, TestStep and TestAssert.

use std::collections::BTreeMap;

use serde::Deserialize;

use crate::expressions::{Assertion, ResourceRef};

/// Which cases to run, and what to prepare before.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct TestSuite {
    pub(crate) crd_dir: String,
    pub(crate) manifest_dirs: Vec<String>,
    pub(crate) test_dirs: Vec<String>,
    pub(crate) start_control_plane: bool,
    #[serde(rename = "startKIND")]
    pub(crate) start_kind: bool,
    pub(crate) skip_delete: bool,
    pub(crate) timeout: u64,
    pub(crate) parallel: usize,
    pub(crate) artifacts_dir: String,
    pub(crate) commands: Vec<Command>,
    pub(crate) report_format: String,
    pub(crate) report_name: String,
    pub(crate) namespace: String,
}

/// What a step does before its objects are applied.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct TestStep {
    pub(crate) apply: Vec<String>,
    pub(crate) assert: Vec<String>,
    pub(crate) error: Vec<String>,
    pub(crate) delete: Vec<ObjectReference>,
    pub(crate) commands: Vec<Command>,
    pub(crate) kubeconfig: String,
}

/// How the result of a step is checked.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct TestAssert {
    pub(crate) timeout: u64,
    pub(crate) collectors: Vec<Collector>,
    pub(crate) commands: Vec<Command>,
    pub(crate) resource_refs: Vec<ResourceRef>,
    pub(crate) assert_any: Vec<Assertion>,
    pub(crate) assert_all: Vec<Assertion>,
}

/// A command line or a shell script.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct Command {
    pub(crate) command: String,
    pub(crate) script: String,
    /// The flag `--namespace` is appended.
    pub(crate) namespaced: bool,
    pub(crate) ignore_failure: bool,
    pub(crate) background: bool,
    /// In seconds. Zero: that of the suite. Negative: none.
    pub(crate) timeout: i64,
    pub(crate) skip_log_output: bool,
}

/// A command that runs after a failure, for the log.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct Collector {
    #[serde(rename = "type")]
    pub(crate) kind: String,
    pub(crate) pod: String,
    pub(crate) namespace: String,
    pub(crate) container: String,
    pub(crate) selector: String,
    pub(crate) tail: i64,
    pub(crate) command: String,
}

/// An object, or the objects with these labels.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct ObjectReference {
    pub(crate) api_version: String,
    pub(crate) kind: String,
    pub(crate) name: String,
    pub(crate) namespace: String,
    pub(crate) labels: Option<BTreeMap<String, String>>,
}

impl Collector {
    /// The command line, if the collector has what its type needs.
    pub(crate) fn command_line(&self) -> Option<String> {
        match self.kind.as_str() {
            "command" => Some(self.command.clone()).filter(|command| !command.is_empty()),
            "events" => Some(self.event_command()),
            "" if !self.command.is_empty() => Some(self.command.clone()),
            "" | "pod" => self.pod_command(),
            _ => None,
        }
    }

    fn event_command(&self) -> String {
        let mut line = "kubectl get events".to_owned();
        if !self.pod.is_empty() {
            line.push_str(&format!(" {}", self.pod));
        }
        line + &self.namespace_flag()
    }

    fn pod_command(&self) -> Option<String> {
        let mut line = match (self.pod.is_empty(), self.selector.is_empty()) {
            (false, _) => format!("kubectl logs --prefix {}", self.pod),
            (true, false) => format!("kubectl logs --prefix -l {}", self.selector),
            (true, true) => return None,
        };
        line.push_str(&self.namespace_flag());
        match self.container.is_empty() {
            true => line.push_str(" --all-containers"),
            false => line.push_str(&format!(" -c {}", self.container)),
        }
        let tail = match (self.tail, self.pod.is_empty()) {
            (0, true) => 10,
            (0, false) => -1,
            (lines, _) => lines,
        };
        Some(format!("{line} --tail={tail}"))
    }

    fn namespace_flag(&self) -> String {
        match self.namespace.is_empty() {
            true => " -n $NAMESPACE".to_owned(),
            false => format!(" -n {}", self.namespace),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(yaml: &str, expected: Option<&str>) {
        let value = crate::manifest::parse_value(yaml).unwrap();
        let collector: Collector = serde_json::from_value(value).unwrap();
        assert_eq!(collector.command_line().as_deref(), expected);
    }

    #[test]
    fn a_collector_is_a_command_line() {
        check("command: ls", Some("ls"));
        check(
            "pod: web",
            Some("kubectl logs --prefix web -n $NAMESPACE --all-containers --tail=-1"),
        );
        check(
            "{selector: app=web, namespace: a, container: c, tail: 3}",
            Some("kubectl logs --prefix -l app=web -n a -c c --tail=3"),
        );
        check("type: events", Some("kubectl get events -n $NAMESPACE"));
    }

    #[test]
    fn a_collector_without_its_fields_is_none() {
        check("type: pod", None);
        check("type: command", None);
    }
}
