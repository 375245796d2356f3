//! Helpers of the checks: containers that violate a rule, and their messages.

use std::collections::BTreeSet;
use std::fmt;

use setpoint_schema::{Tree, fields};

/// A violation of a level: the reason, and the containers and values.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Violation {
    pub reason: String,
    pub detail: String,
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.detail.as_str() {
            "" => f.write_str(&self.reason),
            detail => write!(f, "{} ({detail})", self.reason),
        }
    }
}

/// A violation with its reason and detail.
pub(super) fn violation(reason: &str, detail: impl Into<String>) -> Option<Violation> {
    Some(Violation {
        reason: reason.to_owned(),
        detail: detail.into(),
    })
}

/// All containers of a pod, in the order that messages list them.
pub(super) fn containers(spec: &Tree) -> impl Iterator<Item = &Tree> {
    let lists = ["initContainers", "containers", "ephemeralContainers"];
    lists.into_iter().flat_map(|list| spec.items(list))
}

/// The names of the containers that match.
pub(super) fn offenders(spec: &Tree, predicate: impl Fn(&Tree) -> bool) -> Vec<&str> {
    containers(spec)
        .filter(|container| predicate(container))
        .map(name)
        .collect()
}

pub(super) fn name(container: &Tree) -> &str {
    container.str_at(&[fields::NAME]).unwrap_or_default()
}

/// A field of a container's or a pod's security context.
pub(super) fn context<'a>(object: &'a Tree, field: &str) -> Option<&'a Tree> {
    object
        .at(&[fields::SECURITY_CONTEXT, field])
        .filter(|value| !value.is_null())
}

/// `"a", "b"`.
pub(super) fn quoted<T: AsRef<str>>(items: impl IntoIterator<Item = T>) -> String {
    let items: Vec<String> = items
        .into_iter()
        .map(|item| format!("\"{}\"", item.as_ref()))
        .collect();
    items.join(", ")
}

/// `container "a"` or `containers "a", "b"`.
pub(super) fn containers_text(names: &[&str]) -> String {
    format!(
        "{} {}",
        plural("container", "containers", names.len()),
        quoted(names)
    )
}

pub(super) fn plural<'a>(one: &'a str, many: &'a str, count: usize) -> &'a str {
    if count == 1 { one } else { many }
}

/// The pod and the containers that set a forbidden value, and the values.
#[derive(Debug, Default)]
pub(super) struct Setters {
    pub who: Vec<String>,
    pub values: BTreeSet<String>,
}

impl Setters {
    /// Collects the values of one field in the security contexts that are not `allowed`.
    pub(super) fn of(spec: &Tree, path: [&str; 2], allowed: impl Fn(&str) -> bool) -> Self {
        let mut setters = Self::default();
        let wrong = |object: &Tree| {
            let own = context(object, path[0])?;
            let text = own.str_at(&[path[1]]).unwrap_or_default();
            (!allowed(text)).then(|| text.to_owned())
        };
        if let Some(text) = wrong(spec) {
            setters.who.push("pod".to_owned());
            setters.values.insert(text);
        }
        let mut names = Vec::new();
        for container in containers(spec) {
            if let Some(text) = wrong(container) {
                names.push(name(container));
                setters.values.insert(text);
            }
        }
        if !names.is_empty() {
            setters.who.push(containers_text(&names));
        }
        setters
    }

    /// The pod and the containers that match.
    pub(super) fn matching(spec: &Tree, predicate: impl Fn(&Tree) -> bool) -> Self {
        let mut setters = Self::default();
        if predicate(spec) {
            setters.who.push("pod".to_owned());
        }
        let names = offenders(spec, predicate);
        if !names.is_empty() {
            setters.who.push(containers_text(&names));
        }
        setters
    }

    pub(super) fn subjects(&self) -> String {
        self.who.join(" and ")
    }
}
