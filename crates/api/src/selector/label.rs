//! Label selectors: `app=web,tier in (a, b),!canary`.

use std::fmt;
use std::str::FromStr;

use compact_str::CompactString;

use super::{ParseSelectorError, parse};

/// Requirements that must all match. The empty selector matches every object.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct LabelSelector {
    pub requirements: Vec<Requirement>,
}

/// One requirement on a label.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Requirement {
    pub label: CompactString,
    pub operator: Operator,
}

/// The operator of a requirement, with its values.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Operator {
    In(Vec<CompactString>),
    /// Also matches if the label is absent.
    NotIn(Vec<CompactString>),
    Exists,
    DoesNotExist,
    GreaterThan(i64),
    LessThan(i64),
}

// === impl LabelSelector ===

impl LabelSelector {
    /// A selector of the objects with this label and value.
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
    type Err = ParseSelectorError;

    fn from_str(text: &str) -> Result<Self, ParseSelectorError> {
        let requirements = parse::requirements(text).map_err(ParseSelectorError)?;
        Ok(Self { requirements })
    }
}

// === impl Requirement ===

impl Requirement {
    /// A requirement of `matchExpressions`: its operator is one of `In`, `NotIn`, `Exists` and `DoesNotExist`.
    pub fn from_expression<'a>(
        label: &str,
        operator: &str,
        values: impl Iterator<Item = &'a str>,
    ) -> Result<Self, ParseSelectorError> {
        let operator = match operator {
            "In" => Operator::In(values.map(CompactString::from).collect()),
            "NotIn" => Operator::NotIn(values.map(CompactString::from).collect()),
            "Exists" => Operator::Exists,
            "DoesNotExist" => Operator::DoesNotExist,
            other => {
                let message = format!("{other:?} is not a valid label selector operator");
                return Err(ParseSelectorError(message));
            }
        };
        Ok(Self {
            label: label.into(),
            operator,
        })
    }

    fn holds(&self, value: Option<&str>) -> bool {
        match (&self.operator, value) {
            (Operator::In(values), Some(value)) => values.iter().any(|own| own == value),
            (Operator::NotIn(values), Some(value)) => values.iter().all(|own| own != value),
            (Operator::GreaterThan(limit), Some(value)) => value.parse().is_ok_and(|n: i64| n > *limit),
            (Operator::LessThan(limit), Some(value)) => value.parse().is_ok_and(|n: i64| n < *limit),
            (Operator::Exists, value) => value.is_some(),
            (Operator::DoesNotExist, value) => value.is_none(),
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
            Operator::DoesNotExist => write!(f, "!{label}"),
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
    fn an_absent_label_matches_only_the_negative_operators() {
        check("a!=x", &[], true);
        check("a notin (x)", &[], true);
        check("!a", &[], true);
        check("a=x", &[], false);
        check("a", &[], false);
        check("a<3", &[], false);
    }

    #[test]
    fn a_selector_prints_as_it_parses() {
        let text = "a=x,b!=y,c in (p,q),d,!e,f>3";
        assert_eq!(text.parse::<LabelSelector>().unwrap().to_string(), text);
    }
}
