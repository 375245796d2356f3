//! `--feature-gates`: the gates of kube-apiserver 1.37 are known and have no effect, others are rejected as upstream does
//! (component-base `featuregate`).

use std::collections::BTreeMap;

use anyhow::{Result, bail};

use crate::flag_set::Values;

/// The gates: name, and the value that a locked gate is fixed to.
const GATES: &str = include_str!("feature_gates.txt");

/// The only component with gates.
const COMPONENT: &str = "kube";

/// Fails if a gate is unknown, has no valid value, or is locked to another one.
pub(super) fn check(values: &Values) -> Result<()> {
    check_list(&values.list("feature-gates"))
}

fn check_list(list: &[String]) -> Result<()> {
    let known: BTreeMap<&str, Option<&str>> = GATES.lines().map(gate).collect();
    let mut has_prefix = None;
    let mut settings = Vec::new();
    for setting in list
        .iter()
        .map(|setting| setting.trim())
        .filter(|setting| !setting.is_empty())
    {
        let (component, setting) = match setting.split_once(':') {
            Some((component, setting)) => (Some(component), setting),
            None => (None, setting),
        };
        if let Some(component) = component.filter(|component| *component != COMPONENT) {
            bail!("component not registered: {component}");
        }
        if *has_prefix.get_or_insert(component.is_some()) != component.is_some() {
            bail!(
                "set kube feature gates with default empty prefix or kube: prefix consistently, do not mix use"
            );
        }
        settings.push(setting);
    }
    for setting in settings {
        let Some((name, value)) = setting.split_once('=') else {
            bail!("missing bool value for {setting}");
        };
        let (name, value) = (name.trim(), value.trim());
        let Some(parsed) = parse_bool(value) else {
            bail!(
                "invalid value of {name}={value}, err: strconv.ParseBool: parsing {value:?}: invalid syntax"
            );
        };
        match known.get(name) {
            None => bail!("unrecognized feature gate: {name}"),
            Some(Some(locked)) if *locked != parsed.to_string() => {
                bail!("cannot set feature gate {name} to {parsed}, feature is locked to {locked}");
            }
            Some(_) => {}
        }
    }
    Ok(())
}

fn gate(line: &str) -> (&str, Option<&str>) {
    match line.split_once(' ') {
        Some((name, locked)) => (name, Some(locked)),
        None => (line, None),
    }
}

/// The texts that Go reads as a boolean.
pub(super) fn parse_bool(text: &str) -> Option<bool> {
    match text {
        "1" | "t" | "T" | "true" | "TRUE" | "True" => Some(true),
        "0" | "f" | "F" | "false" | "FALSE" | "False" => Some(false),
        _ => None,
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
    fn known_gates_are_accepted() {
        check("", "");
        check("AllAlpha=true, AllBeta=f", "");
        check("kube:AllAlpha=true", "");
    }

    #[test]
    fn unknown_gates_and_values_are_rejected() {
        check("AllAlpha=true,Foo=true", "unrecognized feature gate: Foo");
        check("Foo", "missing bool value for Foo");
        check(
            "AllAlpha=maybe",
            "invalid value of AllAlpha=maybe, err: strconv.ParseBool: parsing \"maybe\": invalid syntax",
        );
        check("other:Foo=true", "component not registered: other");
        check(
            "kube:AllAlpha=true,AllBeta=true",
            "set kube feature gates with default empty prefix or kube: prefix consistently, do not mix use",
        );
    }

    #[test]
    fn locked_gates_keep_their_value() {
        let locked = GATES
            .lines()
            .map(gate)
            .find_map(|(name, locked)| Some((name, locked?)));
        let (name, locked) = locked.unwrap();
        check(&format!("{name}={locked}"), "");
        let other = locked != "true";
        check(
            &format!("{name}={other}"),
            &format!("cannot set feature gate {name} to {other}, feature is locked to {locked}"),
        );
    }
}
