//! Label selectors: `app=web,tier in (a, b),!canary`.

use std::fmt;
use std::str::FromStr;

use compact_str::CompactString;
use k8s_openapi::apimachinery::pkg::apis::meta::v1 as meta;

use super::{BadSelector, parse};

/// Requirements that must all hold. The empty selector selects everything.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct LabelSelector {
    pub requirements: Vec<Requirement>,
}

/// What one label must be.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Requirement {
    pub label: CompactString,
    pub operator: Operator,
}

/// How a label's value is judged. Only the first two fail when the label is absent but are about its value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Operator {
    In(Vec<CompactString>),
    /// Holds when the label is absent, too.
    NotIn(Vec<CompactString>),
    Exists,
    Absent,
    GreaterThan(i64),
    LessThan(i64),
}

// === impl LabelSelector ===

impl LabelSelector {
    /// Selects the objects with this label and value.
    pub fn equals(label: &str, value: &str) -> Self {
        let operator = Operator::In(vec![value.into()]);
        Self {
            requirements: vec![Requirement {
                label: label.into(),
                operator,
            }],
        }
    }

    pub fn is_empty(&self) -> bool {
        self.requirements.is_empty()
    }

    pub fn matches<'a>(&self, value_of: impl Fn(&str) -> Option<&'a str>) -> bool {
        self.requirements
            .iter()
            .all(|requirement| requirement.holds(value_of(&requirement.label)))
    }
}

/// The selector in objects. An absent one selects nothing, an empty one everything; the caller tells them apart.
impl TryFrom<&meta::LabelSelector> for LabelSelector {
    type Error = BadSelector;

    fn try_from(selector: &meta::LabelSelector) -> Result<Self, BadSelector> {
        let mut requirements = Vec::new();
        for (label, value) in selector.match_labels.iter().flatten() {
            let operator = Operator::In(vec![value.into()]);
            requirements.push(Requirement {
                label: label.into(),
                operator,
            });
        }
        for expression in selector.match_expressions.iter().flatten() {
            let values = || {
                expression
                    .values
                    .iter()
                    .flatten()
                    .map(CompactString::from)
                    .collect()
            };
            let operator = match expression.operator.as_str() {
                "In" => Operator::In(values()),
                "NotIn" => Operator::NotIn(values()),
                "Exists" => Operator::Exists,
                "DoesNotExist" => Operator::Absent,
                other => {
                    return Err(BadSelector(format!(
                        "{other:?} is not a valid label selector operator"
                    )));
                }
            };
            requirements.push(Requirement {
                label: expression.key.as_str().into(),
                operator,
            });
        }
        Ok(Self { requirements })
    }
}

impl fmt::Display for LabelSelector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (n, requirement) in self.requirements.iter().enumerate() {
            if n > 0 {
                f.write_str(",")?;
            }
            requirement.fmt(f)?;
        }
        Ok(())
    }
}

impl FromStr for LabelSelector {
    type Err = BadSelector;

    fn from_str(text: &str) -> Result<Self, BadSelector> {
        let requirements = parse::requirements(text).map_err(BadSelector)?;
        Ok(Self { requirements })
    }
}

// === impl Requirement ===

impl Requirement {
    fn holds(&self, value: Option<&str>) -> bool {
        match (&self.operator, value) {
            (Operator::In(values), Some(value)) => values.iter().any(|own| own == value),
            (Operator::NotIn(values), Some(value)) => values.iter().all(|own| own != value),
            (Operator::GreaterThan(limit), Some(value)) => value.parse().is_ok_and(|n: i64| n > *limit),
            (Operator::LessThan(limit), Some(value)) => value.parse().is_ok_and(|n: i64| n < *limit),
            (Operator::Exists, value) => value.is_some(),
            (Operator::Absent, value) => value.is_none(),
            (Operator::NotIn(_), None) => true,
            (Operator::In(_) | Operator::GreaterThan(_) | Operator::LessThan(_), None) => false,
        }
    }
}

impl fmt::Display for Requirement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let label = &self.label;
        match &self.operator {
            Operator::In(values) if values.len() == 1 => write!(f, "{label}={}", values[0]),
            Operator::NotIn(values) if values.len() == 1 => write!(f, "{label}!={}", values[0]),
            Operator::In(values) => write!(f, "{label} in ({})", values.join(",")),
            Operator::NotIn(values) => write!(f, "{label} notin ({})", values.join(",")),
            Operator::Exists => write!(f, "{label}"),
            Operator::Absent => write!(f, "!{label}"),
            Operator::GreaterThan(limit) => write!(f, "{label}>{limit}"),
            Operator::LessThan(limit) => write!(f, "{label}<{limit}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(selector: &str, labels: &[(&str, &'static str)], expected: bool) {
        let selector: LabelSelector = selector.parse().unwrap();
        let value = |name: &str| {
            labels
                .iter()
                .find(|(own, _)| *own == name)
                .map(|(_, value)| *value)
        };
        assert_eq!(selector.matches(value), expected);
    }

    #[test]
    fn every_requirement_must_hold() {
        let web = &[("app", "web"), ("tier", "front"), ("size", "7")];
        check("", web, true);
        check("app", web, true);
        check("app=web,tier==front", web, true);
        check("app = web , tier != back", web, true);
        check("app in (db, web),!canary", web, true);
        check("app notin (web)", web, false);
        check("size>6,size<8", web, true);
        check("!app", web, false);
    }

    #[test]
    fn an_absent_label_fulfils_only_the_negative_forms() {
        check("a!=x", &[], true);
        check("a notin (x)", &[], true);
        check("!a", &[], true);
        check("a=x", &[], false);
        check("a", &[], false);
        check("a<3", &[], false);
    }

    #[test]
    fn a_selector_prints_as_it_reads() {
        let text = "a=x,b!=y,c in (p,q),d,!e,f>3";
        assert_eq!(text.parse::<LabelSelector>().unwrap().to_string(), text);
    }
}
