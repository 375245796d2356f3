//! Commands and arguments, with references to the environment expanded.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1;

use super::expansion::{expand, unresolved};

/// The command and the arguments of a container.
pub(super) fn command(
    container: &v1::Container,
    env: &BTreeMap<String, String>,
) -> (Vec<String>, Vec<String>) {
    let value = |name: &str| env.get(name).cloned().unwrap_or_else(|| unresolved(name));
    let all = |texts: &Option<Vec<String>>| {
        let texts = texts.iter().flatten();
        texts.map(|text| expand(text, value)).collect()
    };
    (all(&container.command), all(&container.args))
}
