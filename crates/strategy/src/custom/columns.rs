//! `additionalPrinterColumns` of a CRD.

use std::borrow::Cow;

use jiff::Timestamp;

use setpoint_api::table::{Cell, ColumnDefinition};
use setpoint_schema::{Tree, fields};

use super::json_path::JsonPath;
use crate::columns::{UNKNOWN, human_age};

/// A printer column and the path of its value.
#[derive(Debug)]
pub(super) struct Column {
    pub(super) header: ColumnDefinition,
    path: JsonPath,
}

/// The name column and the CRD's columns; without any, the age column.
pub(super) fn of(listed: &[Tree]) -> Vec<Column> {
    let text = |column: &Tree, field: &str| column.str_at(&[field]).unwrap_or_default().to_owned();
    let mut columns = vec![plain("Name", "string", "name", ".metadata.name")];
    for column in listed {
        let path = text(column, fields::JSON_PATH).parse();
        let Ok(path) = path else { continue };
        columns.push(Column {
            header: ColumnDefinition {
                name: Cow::Owned(text(column, fields::NAME)),
                kind: Cow::Owned(text(column, fields::TYPE)),
                format: Cow::Owned(text(column, fields::FORMAT)),
                description: Cow::Owned(match text(column, fields::DESCRIPTION) {
                    empty if empty.is_empty() => {
                        let path = text(column, fields::JSON_PATH);
                        format!("Custom resource definition column (in JSONPath format): {path}")
                    }
                    description => description,
                }),
                priority: column
                    .get(fields::PRIORITY)
                    .and_then(Tree::as_i64)
                    .and_then(|priority| i32::try_from(priority).ok())
                    .unwrap_or_default(),
            },
            path,
        });
    }
    if listed.is_empty() {
        columns.push(plain("Age", "date", "", ".metadata.creationTimestamp"));
    }
    columns
}

fn plain(name: &'static str, kind: &'static str, format: &'static str, path: &str) -> Column {
    Column {
        header: ColumnDefinition {
            name: Cow::Borrowed(name),
            kind: Cow::Borrowed(kind),
            format: Cow::Borrowed(format),
            description: Cow::Borrowed(""),
            priority: 0,
        },
        path: path.parse().expect("constant paths are valid"),
    }
}

impl Column {
    /// The value at the path, converted to the column's type.
    pub(super) fn cell(&self, object: &Tree, now: Timestamp) -> Cell {
        let found = self.path.find(object);
        let Some(value) = found.first().filter(|value| !value.is_null()) else {
            return Cell::Null(());
        };
        match (self.header.kind.as_ref(), value) {
            ("integer", Tree::Int(number)) => Cell::from(*number),
            ("integer", Tree::Float(number)) => Cell::Integer(*number as i64),
            ("number", Tree::Int(number)) => Cell::Number(*number as f64),
            ("number", Tree::Float(number)) => Cell::Number(*number),
            ("boolean", Tree::Bool(value)) => Cell::Boolean(*value),
            ("date", Tree::Str(text)) => match text.parse() {
                Ok(then) => Cell::from(human_age(then, now)),
                Err(_) => Cell::from(UNKNOWN),
            },
            ("string", _) => Cell::from(print(&found)),
            _ => Cell::Null(()),
        }
    }
}

/// Strings as they are, other values as JSON; several are separated by spaces.
fn print(found: &[&Tree]) -> String {
    let texts: Vec<String> = found
        .iter()
        .map(|value| match value {
            Tree::Str(text) => text.to_string(),
            other => {
                let mut text = Vec::new();
                setpoint_schema::write::write_tree(other, &mut text);
                String::from_utf8(text).unwrap_or_default()
            }
        })
        .collect();
    texts.join(" ")
}
