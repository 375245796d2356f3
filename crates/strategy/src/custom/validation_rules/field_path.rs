//! Field paths of rules: `.spec['a.b'].c`, relative to the value of the rule.

use setpoint_schema::custom::Schema;

/// Why a path leads to no field of a schema.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum FieldPathError {
    #[error("does not refer to a valid field")]
    NoField,
    #[error("array notation is not allowed")]
    ArrayNotation,
    #[error("unexpected end of JSON path")]
    End,
    #[error("expected single quoted string but got {0}")]
    NotQuoted(String),
    #[error("invalid string literal: invalid escape char {0}")]
    Escape(String),
    #[error("expected ] but got {0}")]
    NotClosed(String),
    #[error("expected [ or . but got: {0}")]
    Unexpected(String),
}

/// Resolves a path to the schema of its field, and to the form in which errors print it: `spec.a.b[key]`. Only field names
/// are accepted unless `allow_keys`.
pub fn resolve_field_path<'a>(
    path: &str,
    schema: &'a Schema,
    allow_keys: bool,
) -> Result<(String, &'a Schema), FieldPathError> {
    let mut tokens = Tokens { rest: path };
    let (mut printed, mut schema) = (String::new(), schema);
    while let Some(token) = tokens.next() {
        let name = match token {
            "[" if !allow_keys => return Err(FieldPathError::ArrayNotation),
            "[" => tokens.quoted()?,
            "." => tokens.next().ok_or(FieldPathError::End)?.to_owned(),
            other => return Err(FieldPathError::Unexpected(other.to_owned())),
        };
        if schema.properties.is_empty() {
            let values = schema.additional_properties.as_deref();
            schema = values.ok_or(FieldPathError::NoField)?;
            printed.push_str(&format!("[{name}]"));
        } else {
            schema = schema.property(&name).ok_or(FieldPathError::NoField)?;
            if !printed.is_empty() {
                printed.push('.');
            }
            printed.push_str(&name);
        }
        if token == "[" {
            match tokens.next() {
                Some("]") => {}
                Some(other) => return Err(FieldPathError::NotClosed(other.to_owned())),
                None => return Err(FieldPathError::End),
            }
        }
    }
    Ok((printed, schema))
}

/// The tokens of a path: `.`, `[`, `]`, quoted strings, and the text between them.
struct Tokens<'a> {
    rest: &'a str,
}

impl<'a> Tokens<'a> {
    fn next(&mut self) -> Option<&'a str> {
        let first = self.rest.chars().next()?;
        let length = match first {
            '.' | '[' | ']' => 1,
            '\'' => {
                let bytes = self.rest.as_bytes();
                let end = (1..bytes.len()).find(|at| bytes[*at] == b'\'' && bytes[at - 1] != b'\\');
                end.map_or(bytes.len(), |end| end + 1)
            }
            _ => self.rest.find(['.', '[', ']']).unwrap_or(self.rest.len()),
        };
        let (token, rest) = self.rest.split_at(length);
        self.rest = rest;
        Some(token)
    }

    fn quoted(&mut self) -> Result<String, FieldPathError> {
        let token = self.next().ok_or(FieldPathError::End)?;
        let inner = token
            .strip_prefix('\'')
            .and_then(|token| token.strip_suffix('\''));
        unescape(inner.ok_or_else(|| FieldPathError::NotQuoted(token.to_owned()))?)
    }
}

fn unescape(text: &str) -> Result<String, FieldPathError> {
    let mut unescaped = String::with_capacity(text.len());
    let mut rest = text.chars();
    while let Some(character) = rest.next() {
        if character != '\\' {
            unescaped.push(character);
            continue;
        }
        unescaped.push(match rest.next() {
            Some('a') => '\x07',
            Some('b') => '\x08',
            Some('f') => '\x0c',
            Some('n') => '\n',
            Some('r') => '\r',
            Some('t') => '\t',
            Some('v') => '\x0b',
            Some(quoted @ ('\'' | '\\')) => quoted,
            Some(other) => return Err(FieldPathError::Escape(format!("\\{other}"))),
            None => '\\',
        });
    }
    Ok(unescaped)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(path: &str, expected: Result<&str, &str>) {
        let schema = r#"{"type": "object", "properties": {"a": {"type": "object", "properties": {"b.c": {"type": "string"}}},
            "m": {"type": "object", "additionalProperties": {"type": "string"}}}}"#;
        let schema = Schema::compile(&setpoint_codec::json::parse(schema.as_bytes()).unwrap());
        let found = resolve_field_path(path, &schema, true).map(|(printed, _)| printed);
        let found = found.as_deref().map_err(ToString::to_string);
        assert_eq!(
            found,
            expected.map_err(str::to_owned).as_deref().map_err(Clone::clone)
        );
    }

    #[test]
    fn a_path_leads_to_a_field() {
        check(".a", Ok("a"));
        check(".a['b.c']", Ok("a.b.c"));
        check(".m.x", Ok("m[x]"));
        check(".m['a\\'b']", Ok("m[a'b]"));
        check("", Ok(""));
    }

    #[test]
    fn a_path_that_leads_nowhere_is_an_error() {
        check(".b", Err("does not refer to a valid field"));
        check(".a.", Err("unexpected end of JSON path"));
        check("a", Err("expected [ or . but got: a"));
        check(".a[0]", Err("expected single quoted string but got 0"));
        check(".a['b.c'", Err("unexpected end of JSON path"));
        check(
            ".a['b\\q']",
            Err("invalid string literal: invalid escape char \\q"),
        );
    }
}
