//! Rules of a schema that are expressions, its `x-kubernetes-validations`: where they stand, and who judges them.
//!
//! This room does not know the language of expressions. [`Schema::judge`] walks a document, asks a [`Judge`] about each
//! rule at its place, and puts what it says into the words of the reference server. A language joins by being a judge.

use std::fmt::Debug;

use compact_str::CompactString;

use super::validate::{join, word_of};
use super::{Report, Schema, Subject};
use crate::tree::Tree;

/// One rule, as the definition has it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Rule {
    pub expression: String,
    /// What to say when it does not hold.
    pub message: Option<String>,
    /// An expression that makes what to say.
    pub message_expression: Option<String>,
    /// The sort of error, such as `FieldValueForbidden`.
    pub reason: Option<CompactString>,
    /// The field that is to blame, from the place of the rule on: `.a.b`.
    pub field_path: Option<String>,
    /// Whether the rule holds for what is new as well, although it asks for the old.
    pub optional_old_self: bool,
}

/// What comes of a rule.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    Holds,
    /// It does not; with what its message expression makes, if it has one.
    Fails(Option<String>),
    /// It cannot be told, and why.
    Broken(String),
}

/// Judges rules. A rule that asks for the old value where there is none holds.
pub trait Judge: Debug + Send + Sync {
    fn judge(&self, rule: &Rule, value: &Tree, old: Option<&Tree>) -> Verdict;
}

impl Schema {
    /// Whether there is a rule anywhere below.
    pub fn has_expressions(&self) -> bool {
        let below = self.properties.iter().map(|(_, schema)| schema);
        let below = below
            .chain(self.additional.as_deref())
            .chain(self.items.as_deref());
        self.rules
            .as_ref()
            .is_some_and(|rules| !rules.expressions.is_empty())
            || below.into_iter().any(Schema::has_expressions)
    }

    /// Reports the rules that do not hold for a document. `old` is what was there before an update.
    pub fn judge(&self, judge: &dyn Judge, document: &Tree, old: Option<&Tree>) -> Vec<Report> {
        let mut reports = Vec::new();
        self.judge_at(judge, (document, old), "", &mut reports);
        reports
    }

    fn judge_at(
        &self,
        judge: &dyn Judge,
        (value, old): (&Tree, Option<&Tree>),
        path: &str,
        reports: &mut Vec<Report>,
    ) {
        let rules = self.rules.iter().flat_map(|rules| &rules.expressions);
        reports.extend(rules.filter_map(|rule| report(rule, judge.judge(rule, value, old), value, path)));
        match value {
            Tree::Map(map) => {
                for (key, value) in map.iter() {
                    let Some(schema) = self.under(key) else { continue };
                    let path = match self.property(key) {
                        Some(_) => join(path, key),
                        None => format!("{path}[{key}]"),
                    };
                    let old = old.and_then(|old| old.get(key));
                    schema.judge_at(judge, (value, old), &path, reports);
                }
            }
            Tree::List(items) => {
                let Some(schema) = &self.items else { return };
                for (at, item) in items.iter().enumerate() {
                    let old = self.counterpart(item, old);
                    schema.judge_at(judge, (item, old), &format!("{path}[{at}]"), reports);
                }
            }
            _ => {}
        }
    }
}

fn report(rule: &Rule, verdict: Verdict, value: &Tree, path: &str) -> Option<Report> {
    let said = match verdict {
        Verdict::Holds => return None,
        Verdict::Broken(why) => {
            let detail = format!("{why} evaluating rule: {}", rule.expression);
            let shown = Tree::from(word_of(value));
            return Some(Report {
                path: Some(path.to_owned()),
                subject: Subject::Invalid { shown, detail },
            });
        }
        Verdict::Fails(said) => said,
    };
    let own = said.or_else(|| rule.message.clone());
    let detail = own.unwrap_or_else(|| format!("failed rule: {}", rule.expression));
    let whole = matches!(value, Tree::Map(_) | Tree::List(_));
    let subject = match rule.reason.as_deref() {
        Some("FieldValueForbidden") => Subject::Forbidden { detail },
        Some("FieldValueRequired") => Subject::Missing { detail },
        Some("FieldValueDuplicate") => Subject::Duplicate { value: value.clone() },
        _ if whole => Subject::InvalidWhole { detail },
        _ => Subject::Invalid {
            shown: value.clone(),
            detail,
        },
    };
    let blamed = rule.field_path.as_deref().unwrap_or_default();
    Some(Report {
        path: Some(format!("{path}{blamed}")),
        subject,
    })
}
