//! [`PodSelector`]: a label selector of a pod term, hashable so that equal selectors share one counter.

use std::collections::BTreeMap;
use std::hash::{Hash, Hasher};

use compact_str::{CompactString, ToCompactString};
use serde::Deserialize;
use setpoint_api::selector::{LabelSelector, Operator, Requirement};

/// A label selector by its canonical text. The selector of an absent field matches nothing, the empty one everything.
#[derive(Debug, Clone)]
pub struct PodSelector {
    /// The requirements in order of their labels, as text.
    text: CompactString,
    /// `None` matches nothing.
    selector: Option<LabelSelector>,
}

/// A `LabelSelector` as in the objects.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(crate) struct RawSelector {
    match_labels: BTreeMap<CompactString, CompactString>,
    match_expressions: Vec<RawRequirement>,
}

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
struct RawRequirement {
    key: CompactString,
    operator: CompactString,
    values: Vec<CompactString>,
}

impl PodSelector {
    /// The selector that matches nothing.
    pub fn nothing() -> Self {
        Self {
            text: "<none>".into(),
            selector: None,
        }
    }

    /// A selector with these requirements.
    pub fn new(mut requirements: Vec<Requirement>) -> Self {
        requirements.sort_by_cached_key(ToCompactString::to_compact_string);
        let selector = LabelSelector { requirements };
        Self {
            text: selector.to_compact_string(),
            selector: Some(selector),
        }
    }

    /// The selector of an object's field; an absent one matches nothing.
    pub(crate) fn from_raw(raw: Option<RawSelector>) -> Self {
        let Some(raw) = raw else {
            return Self::nothing();
        };
        let equals = raw.match_labels.into_iter().map(|(label, value)| Requirement {
            label,
            operator: Operator::In(vec![value]),
        });
        let expressions: Result<Vec<Requirement>, _> = raw
            .match_expressions
            .iter()
            .map(|one| {
                let values = one.values.iter().map(CompactString::as_str);
                Requirement::from_expression(&one.key, &one.operator, values)
            })
            .collect();
        match expressions {
            Ok(expressions) => Self::new(equals.chain(expressions).collect()),
            Err(_) => Self::nothing(),
        }
    }

    /// The selector with one more requirement.
    #[must_use]
    pub fn and(&self, requirement: Requirement) -> Self {
        match &self.selector {
            None => Self::nothing(),
            Some(selector) => {
                let mut requirements = selector.requirements.clone();
                requirements.push(requirement);
                Self::new(requirements)
            }
        }
    }

    /// The selector of objects that both match.
    #[must_use]
    pub fn and_all(&self, other: &Self) -> Self {
        match (&self.selector, &other.selector) {
            (Some(own), Some(other)) => {
                let requirements = own.requirements.iter().chain(&other.requirements);
                Self::new(requirements.cloned().collect())
            }
            _ => Self::nothing(),
        }
    }

    /// Whether it matches every object.
    pub fn is_everything(&self) -> bool {
        self.selector.as_ref().is_some_and(LabelSelector::is_empty)
    }

    /// Whether it matches an object with these labels.
    pub fn matches_labels<'a>(&self, label: &dyn Fn(&str) -> Option<&'a str>) -> bool {
        let selector = self.selector.as_ref();
        selector.is_some_and(|selector| selector.matches(|name| label(name)))
    }

    pub fn matches(&self, labels: &[(CompactString, CompactString)]) -> bool {
        self.selector.as_ref().is_some_and(|selector| {
            selector.matches(|name| {
                let found = labels.binary_search_by(|(own, _)| own.as_str().cmp(name)).ok()?;
                Some(labels[found].1.as_str())
            })
        })
    }
}

impl PartialEq for PodSelector {
    fn eq(&self, other: &Self) -> bool {
        self.text == other.text
    }
}

impl Eq for PodSelector {}

impl Hash for PodSelector {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.text.hash(state);
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn read(selector: Value) -> PodSelector {
        PodSelector::from_raw(serde_json::from_value(selector).unwrap())
    }

    #[track_caller]
    fn check(selector: Value, expected: bool) {
        let labels = [("app".into(), "web".into()), ("tier".into(), "front".into())];
        assert_eq!(read(selector).matches(&labels), expected);
    }

    #[test]
    fn an_absent_selector_matches_nothing_and_an_empty_one_everything() {
        check(Value::Null, false);
        check(json!({}), true);
        check(json!({"matchLabels": {"app": "web"}}), true);
        check(json!({"matchLabels": {"app": "db"}}), false);
        check(
            json!({"matchExpressions": [{"key": "tier", "operator": "NotIn", "values": ["front"]}]}),
            false,
        );
    }

    #[test]
    fn selectors_are_equal_whatever_the_order_of_their_requirements() {
        let app = json!({"key": "app", "operator": "Exists"});
        let tier = json!({"key": "tier", "operator": "Exists"});
        let first = read(json!({"matchExpressions": [app, tier]}));
        assert_eq!(first, read(json!({"matchExpressions": [tier, app]})));
        assert_ne!(first, read(json!({"matchExpressions": [tier]})));
    }
}
