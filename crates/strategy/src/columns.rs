//! Printer columns: the table that `kubectl get` shows of a kind.

use std::borrow::Cow;

use jiff::Timestamp;

use setpoint_api::table::{Cell, ColumnDefinition};
use setpoint_schema::fields;

use crate::field::FieldRef;

/// The cell of an absent value.
pub const NONE: &str = "<none>";
/// The cell of a value that has not been reported.
pub const UNKNOWN: &str = "<unknown>";

/// The cell of a value that has not been set.
pub const UNSET: &str = "<unset>";

/// The object's name.
pub const NAME: Column = {
    let mut column = Column::text("Name", |object, _| {
        Cell::from(object.at(fields::METADATA).at(fields::NAME).str())
    })
    .description("The name of the object.");
    column.header.format = "name";
    column
};

/// How long ago the object was created.
pub const AGE: Column = Column::text("Age", |object, now| {
    age_cell(&object.at(fields::METADATA).at(fields::CREATION_TIMESTAMP), now)
})
.description("The time since the object was created.");

/// When the object was created, for kinds without printer columns upstream.
pub const CREATED_AT: Column = Column::new("Created At", "date", |object, _| {
    or_empty(&object.at(fields::METADATA).at(fields::CREATION_TIMESTAMP))
})
.description("When the object was created.");

/// A printer column: its header, and the function that computes its cell.
#[derive(Debug, Clone, Copy)]
pub struct Column {
    pub header: ColumnHeader,
    pub cell: fn(&FieldRef<'_>, Timestamp) -> Cell,
}

/// The header of a column.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ColumnHeader {
    pub name: &'static str,
    pub kind: &'static str,
    pub format: &'static str,
    pub description: &'static str,
    pub priority: i32,
}

impl Column {
    pub const fn text(name: &'static str, cell: fn(&FieldRef<'_>, Timestamp) -> Cell) -> Self {
        Self::new(name, "string", cell)
    }

    pub const fn number(name: &'static str, cell: fn(&FieldRef<'_>, Timestamp) -> Cell) -> Self {
        Self::new(name, "integer", cell)
    }

    pub const fn boolean(name: &'static str, cell: fn(&FieldRef<'_>, Timestamp) -> Cell) -> Self {
        Self::new(name, "boolean", cell)
    }

    /// A timestamp, which clients show as an age.
    pub const fn date(name: &'static str, cell: fn(&FieldRef<'_>, Timestamp) -> Cell) -> Self {
        Self::new(name, "date", cell)
    }

    /// The same column, shown only in wide output.
    #[must_use]
    pub const fn wide(mut self) -> Self {
        self.header.priority = 1;
        self
    }

    /// The same column with a description.
    #[must_use]
    pub const fn description(mut self, description: &'static str) -> Self {
        self.header.description = description;
        self
    }

    const fn new(name: &'static str, kind: &'static str, cell: fn(&FieldRef<'_>, Timestamp) -> Cell) -> Self {
        Self {
            header: ColumnHeader {
                name,
                kind,
                format: "",
                description: "",
                priority: 0,
            },
            cell,
        }
    }
}

impl From<ColumnHeader> for ColumnDefinition {
    fn from(header: ColumnHeader) -> Self {
        Self {
            name: Cow::Borrowed(header.name),
            kind: Cow::Borrowed(header.kind),
            format: Cow::Borrowed(header.format),
            description: Cow::Borrowed(header.description),
            priority: header.priority,
        }
    }
}

/// The age of a timestamp, in human-readable form.
pub fn age_cell(then: &FieldRef<'_>, now: Timestamp) -> Cell {
    Cell::from(
        then.time()
            .map_or_else(|| UNKNOWN.to_owned(), |then| human_age(then, now)),
    )
}

/// The time between two timestamps, in human-readable form.
pub fn human_age(then: Timestamp, now: Timestamp) -> String {
    human_duration(now.duration_since(then).as_secs())
}

/// The string, or `<none>`.
pub fn or_none(text: &FieldRef<'_>) -> Cell {
    Cell::from(if text.is_empty() { NONE } else { text.str() })
}

/// The string, possibly empty.
pub fn or_empty(text: &FieldRef<'_>) -> Cell {
    Cell::from(text.str())
}

/// Labels as `key=value`, separated by commas, or `<none>`.
pub fn labels(labels: &FieldRef<'_>) -> String {
    let pairs: Vec<String> = labels
        .entries()
        .map(|(label, value)| format!("{label}={}", value.str()))
        .collect();
    match pairs.is_empty() {
        true => NONE.to_owned(),
        false => pairs.join(","),
    }
}

/// The first few strings, and how many more there are.
pub fn first_few(texts: &[String], max: usize) -> String {
    if texts.len() > max {
        return format!("{} + {} more...", texts[..max].join(","), texts.len() - max);
    }
    match texts.join(",") {
        none if none.is_empty() => UNSET.to_owned(),
        all => all,
    }
}

/// A duration in at most two units, coarser the longer it is: `119s`, `5m3s`, `7h59m`, `3d4h`, `400d`.
pub fn human_duration(seconds: i64) -> String {
    let (minutes, hours, days) = (seconds / 60, seconds / 3600, seconds / 86_400);
    match seconds {
        ..-1 => "<invalid>".to_owned(),
        -1 => "0s".to_owned(),
        0..120 => format!("{seconds}s"),
        120..600 => two_units(minutes, 'm', seconds % 60, 's'),
        600..10_800 => format!("{minutes}m"),
        10_800..28_800 => two_units(hours, 'h', minutes % 60, 'm'),
        28_800..172_800 => format!("{hours}h"),
        172_800..691_200 => two_units(days, 'd', hours % 24, 'h'),
        691_200..63_072_000 => format!("{days}d"),
        63_072_000..252_288_000 => two_units(days / 365, 'y', days % 365, 'd'),
        _ => format!("{}y", days / 365),
    }
}

fn two_units(big: i64, unit: char, small: i64, small_unit: char) -> String {
    match small {
        0 => format!("{big}{unit}"),
        small => format!("{big}{unit}{small}{small_unit}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(seconds: i64, expected: &str) {
        assert_eq!(human_duration(seconds), expected);
    }

    #[test]
    fn ages_get_coarser_the_longer_they_are() {
        check(-5, "<invalid>");
        check(-1, "0s");
        check(0, "0s");
        check(119, "119s");
        check(120, "2m");
        check(187, "3m7s");
        check(600, "10m");
        check(3 * 3600 - 1, "179m");
        check(3 * 3600, "3h");
        check(3 * 3600 + 61, "3h1m");
        check(8 * 3600, "8h");
        check(47 * 3600, "47h");
        check(48 * 3600, "2d");
        check(51 * 3600, "2d3h");
        check(8 * 86_400, "8d");
        check(729 * 86_400, "729d");
        check(730 * 86_400, "2y");
        check(731 * 86_400, "2y1d");
        check(9 * 365 * 86_400, "9y");
    }
}
