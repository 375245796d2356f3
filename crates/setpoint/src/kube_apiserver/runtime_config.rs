//! `--runtime-config`: every API of Kubernetes' default configuration is served. Groups that do not exist and values that
//! are no boolean are rejected as kube-apiserver does.

use std::collections::BTreeSet;

use anyhow::{Result, bail};

use super::feature_gates::parse_bool;
use crate::flag_set::Values;

/// Keys for the versions of all groups.
const MATCHERS: [&str; 5] = ["api/all", "api/legacy", "api/ga", "api/beta", "api/alpha"];

/// The keys of the core group.
const CORE: [&str; 2] = ["v1", "api/v1"];

/// Fails if a key names no group, or its value is no boolean.
pub(super) fn check(values: &Values) -> Result<()> {
    check_list(&values.list("runtime-config"))
}

fn check_list(list: &[String]) -> Result<()> {
    let kinds = setpoint_kinds::builtin();
    let groups: BTreeSet<&str> = kinds.iter().map(|kind| kind.info().gvk.group.as_str()).collect();
    let mut unknown = BTreeSet::new();
    for setting in list
        .iter()
        .map(|setting| setting.trim())
        .filter(|setting| !setting.is_empty())
    {
        let (key, value) = setting.split_once('=').unwrap_or((setting, "true"));
        if !value.is_empty() && parse_bool(value).is_none() {
            bail!("invalid value {key}={value}");
        }
        if MATCHERS.contains(&key) || CORE.contains(&key) {
            continue;
        }
        let parts: Vec<&str> = key.split('/').collect();
        if !(2..=3).contains(&parts.len()) {
            bail!("runtime-config invalid key {key}");
        }
        if !groups.contains(parts[0]) {
            unknown.insert(key);
        }
    }
    match unknown.is_empty() {
        true => Ok(()),
        false => bail!(
            "unknown api groups {}",
            unknown.into_iter().collect::<Vec<_>>().join(",")
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(list: &str, expected: &str) {
        let list: Vec<String> = list.split(',').map(str::to_owned).collect();
        let outcome = check_list(&list).map_err(|error| error.to_string());
        assert_eq!(outcome.err().unwrap_or_default(), expected);
    }

    #[test]
    fn keys_name_a_group_or_a_set_of_versions() {
        check("api/all=true,apps/v1=true,v1,batch/v1=", "");
        check("foo=true", "runtime-config invalid key foo");
        check("foo.k8s.io/v1=true", "unknown api groups foo.k8s.io/v1");
        check("api/all=maybe", "invalid value api/all=maybe");
    }
}
