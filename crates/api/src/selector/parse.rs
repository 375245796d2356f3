//! Parser of label selectors. Its error messages are Kubernetes', since callers see them.

use compact_str::CompactString;

use super::label::{Operator, Requirement};
use crate::field::DisplayJson;
use crate::name;

const OPERATORS: &str = "in, notin, =, ==, !=, gt, lt";

/// The requirements of a selector, sorted by label.
pub(super) fn requirements(text: &str) -> Result<Vec<Requirement>, String> {
    let mut parser = Parser {
        tokens: tokens(text),
        at: 0,
    };
    let mut requirements = Vec::new();
    loop {
        match parser.peek() {
            "" => break,
            token if is_word(token) || token == "!" => {
                let requirement = parser.requirement();
                requirements.push(requirement.map_err(|why| format!("unable to parse requirement: {why}"))?);
                if !parser.has_next()? {
                    break;
                }
            }
            token => {
                return Err(format!(
                    "found '{token}', expected: !, identifier, or 'end of string'"
                ));
            }
        }
    }
    requirements.sort_by(|left, right| left.label.cmp(&right.label));
    Ok(requirements)
}

/// The identifiers and symbols of a text. Of adjacent symbol characters, the longest known symbol is a token.
fn tokens(text: &str) -> Vec<&str> {
    let mut tokens = Vec::new();
    let mut rest = text.trim_start_matches(is_blank);
    while !rest.is_empty() {
        let symbol = ["==", "!=", "=", "!", "(", ")", ",", ">", "<"];
        let length = match symbol.iter().find(|symbol| rest.starts_with(**symbol)) {
            Some(symbol) => symbol.len(),
            None => rest
                .find(|next| is_blank(next) || is_symbol(next))
                .unwrap_or(rest.len()),
        };
        let (token, behind) = rest.split_at(length);
        tokens.push(token);
        rest = behind.trim_start_matches(is_blank);
    }
    tokens
}

fn is_blank(character: char) -> bool {
    matches!(character, ' ' | '\t' | '\r' | '\n')
}

fn is_symbol(character: char) -> bool {
    matches!(character, '=' | '!' | '(' | ')' | ',' | '>' | '<')
}

/// Whether a token is an identifier: a key, a value, or the name of an operator.
fn is_word(token: &str) -> bool {
    !token.is_empty() && !token.starts_with(is_symbol)
}

/// A cursor over the tokens. After the last token it returns empty ones.
struct Parser<'a> {
    tokens: Vec<&'a str>,
    at: usize,
}

impl<'a> Parser<'a> {
    fn peek(&self) -> &'a str {
        self.tokens.get(self.at).copied().unwrap_or_default()
    }

    fn next(&mut self) -> &'a str {
        let token = self.peek();
        self.at += 1;
        token
    }

    /// Whether another requirement follows the one just parsed.
    fn has_next(&mut self) -> Result<bool, String> {
        match self.next() {
            "" => Ok(false),
            "," => match self.peek() {
                token if is_word(token) || token == "!" => Ok(true),
                token => Err(format!("found '{token}', expected: identifier after ','")),
            },
            token => Err(format!("found '{token}', expected: ',' or 'end of string'")),
        }
    }

    fn requirement(&mut self) -> Result<Requirement, String> {
        let mut label = self.next();
        let absent = label == "!";
        if absent {
            label = self.next();
        }
        if !is_word(label) {
            return Err(format!("found '{label}', expected: identifier"));
        }
        check(label, name::check_qualified_name(label), "<nil>")?;
        let operator = match (matches!(self.peek(), "" | ","), absent) {
            (true, true) => Operator::DoesNotExist,
            (true, false) => Operator::Exists,
            (false, _) => self.operator(label)?,
        };
        Ok(Requirement {
            label: label.into(),
            operator,
        })
    }

    fn operator(&mut self, label: &str) -> Result<Operator, String> {
        match self.next() {
            "in" => Ok(Operator::In(self.values(label)?)),
            "notin" => Ok(Operator::NotIn(self.values(label)?)),
            "=" | "==" => Ok(Operator::In(vec![self.value(label)?])),
            "!=" => Ok(Operator::NotIn(vec![self.value(label)?])),
            ">" => Ok(Operator::GreaterThan(self.number(label)?)),
            "<" => Ok(Operator::LessThan(self.number(label)?)),
            token => Err(format!("found '{token}', expected: {OPERATORS}")),
        }
    }

    /// A single value; an omitted one is the empty value.
    fn value(&mut self, label: &str) -> Result<CompactString, String> {
        let value = match self.peek() {
            "" | "," => "",
            token if is_word(token) => self.next(),
            token => return Err(format!("found '{token}', expected: identifier")),
        };
        check_value(label, value)?;
        Ok(value.into())
    }

    fn number(&mut self, label: &str) -> Result<i64, String> {
        let value = self.value(label)?;
        value.parse().map_err(|_| {
            let why = "for 'Gt', 'Lt' operators, the value must be an integer";
            format!("values[0]: Invalid value: {}: {why}", value.display_json())
        })
    }

    /// Values in parentheses; one omitted between commas is the empty value.
    fn values(&mut self, label: &str) -> Result<Vec<CompactString>, String> {
        match self.next() {
            "(" => {}
            token => return Err(format!("found '{token}' expected: '('")),
        }
        let mut values: Vec<CompactString> = Vec::new();
        let mut expects_value = true;
        loop {
            match self.next() {
                "," if expects_value => values.push(CompactString::default()),
                "," => expects_value = true,
                ")" => {
                    if expects_value {
                        values.push(CompactString::default());
                    }
                    break;
                }
                token if is_word(token) && expects_value => {
                    values.push(token.into());
                    expects_value = false;
                }
                token if expects_value && values.is_empty() => {
                    return Err(format!("found '{token}', expected: ',', ')' or identifier"));
                }
                token if expects_value => {
                    return Err(format!("found '{token}', expected: ',', or identifier"));
                }
                token => return Err(format!("found '{token}', expected: ',' or ')'")),
            }
        }
        values.sort();
        values.dedup();
        values.iter().try_for_each(|value| check_value(label, value))?;
        Ok(values)
    }
}

fn check_value(label: &str, value: &str) -> Result<(), String> {
    check(
        value,
        name::check_label_value(value),
        &format!("values[0][{label}]"),
    )
}

fn check(text: &str, violations: name::Violations, path: &str) -> Result<(), String> {
    if violations.is_empty() {
        return Ok(());
    }
    let why = violations.join("; ");
    Err(format!("{path}: Invalid value: {}: {why}", text.display_json()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(text: &str, expected: &str) {
        assert_eq!(requirements(text).unwrap_err(), expected);
    }

    #[test]
    fn an_invalid_selector_is_rejected_with_kubernetes_message() {
        check("a=b=x", "found '=', expected: ',' or 'end of string'");
        check(
            "a in (",
            "unable to parse requirement: found '', expected: ',', ')' or identifier",
        );
        check(
            "a in (b",
            "unable to parse requirement: found '', expected: ',' or ')'",
        );
        check("=x", "found '=', expected: !, identifier, or 'end of string'");
        check(
            "a b",
            "unable to parse requirement: found 'b', expected: in, notin, =, ==, !=, gt, lt",
        );
        check("!", "unable to parse requirement: found '', expected: identifier");
        check("a=b,", "found '', expected: identifier after ','");
        check("a notin", "unable to parse requirement: found '' expected: '('");
        check(
            "a===b",
            "unable to parse requirement: found '=', expected: identifier",
        );
        check(
            "/x=y",
            "unable to parse requirement: <nil>: Invalid value: \"/x\": prefix part must be non-empty",
        );
    }

    #[test]
    fn values_may_be_left_out() {
        let Operator::In(values) = &requirements("a in (,b,)").unwrap()[0].operator else {
            panic!("not a set");
        };
        assert_eq!(values, &["", "b"]);
    }
}
