//! Table columns: what `kubectl get` shows of a kind.

use std::borrow::Cow;

use jiff::Timestamp;

use setpoint_api::table::{Cell, ColumnDefinition};

use crate::at::At;

/// What stands in a cell whose value is not there.
pub const NONE: &str = "<none>";
/// What stands in a cell whose value nobody has reported.
pub const UNKNOWN: &str = "<unknown>";

/// What stands in a cell whose value nobody has chosen.
pub const UNSET: &str = "<unset>";

/// The object's name.
pub const NAME: Column = {
    let mut column = Column::text("Name", |object, _| {
        Cell::from(object.at("metadata").at("name").str())
    })
    .about("The name of the object.");
    column.definition.format = "name";
    column
};

/// How long ago the object was created.
pub const AGE: Column = Column::text("Age", |object, now| {
    since(&object.at("metadata").at("creationTimestamp"), now)
})
.about("The time since the object was created.");

/// When the object was created, for kinds that have no columns of their own upstream.
pub const CREATED_AT: Column = Column::new("Created At", "date", |object, _| {
    or_empty(&object.at("metadata").at("creationTimestamp"))
})
.about("When the object was created.");

/// A column, and how its cell follows from an object.
#[derive(Debug, Clone, Copy)]
pub struct Column {
    pub definition: Definition,
    pub cell: fn(&At<'_>, Timestamp) -> Cell,
}

/// What a column is called and how to show it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Definition {
    pub name: &'static str,
    pub kind: &'static str,
    pub format: &'static str,
    pub description: &'static str,
    pub priority: i32,
}

impl Column {
    pub const fn text(name: &'static str, cell: fn(&At<'_>, Timestamp) -> Cell) -> Self {
        Self::new(name, "string", cell)
    }

    pub const fn number(name: &'static str, cell: fn(&At<'_>, Timestamp) -> Cell) -> Self {
        Self::new(name, "integer", cell)
    }

    pub const fn boolean(name: &'static str, cell: fn(&At<'_>, Timestamp) -> Cell) -> Self {
        Self::new(name, "boolean", cell)
    }

    /// A moment, which clients show as an age.
    pub const fn date(name: &'static str, cell: fn(&At<'_>, Timestamp) -> Cell) -> Self {
        Self::new(name, "date", cell)
    }

    /// The same column, shown only in wide output.
    #[must_use]
    pub const fn wide(mut self) -> Self {
        self.definition.priority = 1;
        self
    }

    /// The same column with words on what it shows.
    #[must_use]
    pub const fn about(mut self, description: &'static str) -> Self {
        self.definition.description = description;
        self
    }

    const fn new(name: &'static str, kind: &'static str, cell: fn(&At<'_>, Timestamp) -> Cell) -> Self {
        Self {
            definition: Definition {
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

impl From<Definition> for ColumnDefinition {
    fn from(definition: Definition) -> Self {
        Self {
            name: Cow::Borrowed(definition.name),
            kind: Cow::Borrowed(definition.kind),
            format: Cow::Borrowed(definition.format),
            description: Cow::Borrowed(definition.description),
            priority: definition.priority,
        }
    }
}

/// The time since then, as people read it.
pub fn since(then: &At<'_>, now: Timestamp) -> Cell {
    Cell::from(
        then.time()
            .map_or_else(|| UNKNOWN.to_owned(), |then| ago(then, now)),
    )
}

/// The time between two moments, as people read it.
pub fn ago(then: Timestamp, now: Timestamp) -> String {
    human(now.duration_since(then).as_secs())
}

/// The text, or a word for its absence.
pub fn or_none(text: &At<'_>) -> Cell {
    Cell::from(if text.is_empty() { NONE } else { text.str() })
}

/// The text, or nothing.
pub fn or_empty(text: &At<'_>) -> Cell {
    Cell::from(text.str())
}

/// Labels with commas between, or a word for their absence.
pub fn labels(labels: &At<'_>) -> String {
    let pairs: Vec<String> = labels
        .entries()
        .map(|(label, value)| format!("{label}={}", value.str()))
        .collect();
    match pairs.is_empty() {
        true => NONE.to_owned(),
        false => pairs.join(","),
    }
}

/// The first few of many texts, and how many more there are.
pub fn first_few(texts: &[String], most: usize) -> String {
    if texts.len() > most {
        return format!("{} + {} more...", texts[..most].join(","), texts.len() - most);
    }
    match texts.join(",") {
        none if none.is_empty() => UNSET.to_owned(),
        all => all,
    }
}

/// A number of seconds in two units at most, coarser the longer it is: `119s`, `5m3s`, `7h59m`, `3d4h`, `400d`.
pub fn human(seconds: i64) -> String {
    let (minutes, hours, days) = (seconds / 60, seconds / 3600, seconds / 86_400);
    match seconds {
        ..-1 => "<invalid>".to_owned(),
        -1 => "0s".to_owned(),
        0..120 => format!("{seconds}s"),
        120..600 => two(minutes, 'm', seconds % 60, 's'),
        600..10_800 => format!("{minutes}m"),
        10_800..28_800 => two(hours, 'h', minutes % 60, 'm'),
        28_800..172_800 => format!("{hours}h"),
        172_800..691_200 => two(days, 'd', hours % 24, 'h'),
        691_200..63_072_000 => format!("{days}d"),
        63_072_000..252_288_000 => two(days / 365, 'y', days % 365, 'd'),
        _ => format!("{}y", days / 365),
    }
}

fn two(big: i64, unit: char, small: i64, small_unit: char) -> String {
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
        assert_eq!(human(seconds), expected);
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
