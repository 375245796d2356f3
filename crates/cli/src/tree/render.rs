//! The tree as a text table.

use std::collections::HashMap;
use std::sync::Arc;

use jiff::Timestamp;
use serde_json::Value;
use setpoint_api::Stored;

use super::owner_tree::TreeNode;
use super::readiness::{Readiness, readiness};

/// One row of the table. Equal rows print the same text, except for the age.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Row {
    namespace: String,
    name: String,
    readiness: Readiness,
    created: Option<Timestamp>,
}

/// The rows of a tree, without objects that were deleted in between.
pub(super) fn rows(nodes: &[TreeNode<'_>], objects: &HashMap<String, Arc<Stored>>) -> Vec<Row> {
    let mut lines: Vec<bool> = Vec::new();
    let mut rows = Vec::new();
    for node in nodes {
        lines.truncate(node.depth);
        let name = format!("{}{}", indent(&lines, node), title(node));
        // Below the last dependent of an owner no vertical line continues.
        lines.resize(node.depth, false);
        lines.push(!node.is_last);
        let Some(object) = objects.get(node.item.object.uid()) else {
            continue;
        };
        let value: Value = object.decode().unwrap_or_default();
        let created = value
            .pointer("/metadata/creationTimestamp")
            .and_then(Value::as_str);
        rows.push(Row {
            namespace: object.key().namespace().to_owned(),
            name,
            readiness: readiness(&value),
            created: created.and_then(|text| text.parse().ok()),
        });
    }
    rows
}

/// The rows with headings. The namespace column is printed if there is more than one namespace.
pub(super) fn table(rows: &[Row], now: Timestamp) -> String {
    let several = rows.iter().any(|row| row.namespace != rows[0].namespace);
    let mut lines = vec![cells(
        several,
        ["NAMESPACE", "NAME", "READY", "REASON", "AGE"].map(str::to_owned),
    )];
    for row in rows {
        let age = row.created.map_or("-".to_owned(), |created| age(created, now));
        let row = [
            &row.namespace,
            &row.name,
            &row.readiness.ready,
            &row.readiness.reason,
            &age,
        ];
        lines.push(cells(several, row.map(Clone::clone)));
    }
    let columns = lines[0].len();
    let width = |column: usize| lines.iter().map(|line| line[column].chars().count()).max();
    let widths: Vec<usize> = (0..columns).filter_map(width).collect();
    let mut text = String::new();
    for line in &lines {
        let padded = line
            .iter()
            .zip(&widths)
            .map(|(cell, width)| format!("{cell:<width$}"));
        let padded: Vec<String> = padded.collect();
        text.push_str(padded.join("   ").trim_end());
        text.push('\n');
    }
    text
}

fn cells(several: bool, all: [String; 5]) -> Vec<String> {
    all.into_iter().skip(usize::from(!several)).collect()
}

fn title(node: &TreeNode<'_>) -> String {
    format!(
        "{}/{}",
        node.item.resource.gvk.kind,
        node.item.object.key().name()
    )
}

/// The lines from the owners above to this object. The root has none.
fn indent(lines: &[bool], node: &TreeNode<'_>) -> String {
    if node.depth == 0 {
        return String::new();
    }
    let above = lines
        .iter()
        .skip(1)
        .map(|continues| if *continues { "│ " } else { "  " });
    let own = if node.is_last { "└─" } else { "├─" };
    above.chain([own]).collect()
}

/// An age in kubectl's format: the longer, the coarser.
fn age(created: Timestamp, now: Timestamp) -> String {
    let seconds = now.duration_since(created).as_secs().max(0);
    let (minutes, hours, days) = (seconds / 60, seconds / 3600, seconds / 86400);
    let and = |large: String, rest: i64, unit: char| match rest {
        0 => large,
        rest => format!("{large}{rest}{unit}"),
    };
    match seconds {
        0..120 => format!("{seconds}s"),
        120..600 => and(format!("{minutes}m"), seconds % 60, 's'),
        600..10_800 => format!("{minutes}m"),
        10_800..28_800 => and(format!("{hours}h"), minutes % 60, 'm'),
        28_800..172_800 => format!("{hours}h"),
        172_800..691_200 => and(format!("{days}d"), hours % 24, 'h'),
        _ if days < 730 => format!("{days}d"),
        _ if days < 2920 => and(format!("{}y", days / 365), days % 365, 'd'),
        _ => format!("{}y", days / 365),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tree::owner_tree::owner_tree;
    use crate::tree::owner_tree::tests::item;

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(second).unwrap()
    }

    /// TO6
    #[test]
    fn to6_a_tree_is_drawn_with_its_branches() {
        let items = [
            item("App/root", &[]),
            item("Map/notes", &["root"]),
            item("Set/a", &["root"]),
            item("Pod/p", &["a"]),
            item("Pod/q", &["a"]),
            item("Set/b", &["root"]),
            item("Pod/r", &["b"]),
        ];
        let objects = items
            .iter()
            .map(|item| (item.object.uid().to_owned(), item.object.clone()));
        let rows = rows(&owner_tree("root", &items), &objects.collect());
        let names: Vec<&str> = rows.iter().map(|row| row.name.as_str()).collect();
        let expected = [
            "App/root",
            "├─Map/notes",
            "├─Set/a",
            "│ ├─Pod/p",
            "│ └─Pod/q",
            "└─Set/b",
            "  └─Pod/r",
        ];
        assert_eq!(names, expected);
    }

    #[test]
    fn columns_are_as_wide_as_their_cells() {
        let row = |namespace: &str, name: &str| Row {
            namespace: namespace.to_owned(),
            name: name.to_owned(),
            readiness: Readiness {
                ready: "1/1".to_owned(),
                reason: String::new(),
            },
            created: Some(at(0)),
        };
        let one = table(&[row("a", "App/x"), row("a", "└─Pod/y")], at(90));
        assert_eq!(
            one,
            "NAME      READY   REASON   AGE\nApp/x     1/1              90s\n└─Pod/y   1/1              90s\n"
        );
        let two = table(&[row("", "App/x"), row("a", "└─Pod/y")], at(90));
        assert!(
            two.starts_with("NAMESPACE   NAME") && two.contains("\na           └─Pod/y"),
            "{two}"
        );
    }

    #[test]
    fn ages_have_kubectls_format() {
        let rows = [
            (0, "0s"),
            (119, "119s"),
            (120, "2m"),
            (125, "2m5s"),
            (3600, "60m"),
            (10_800, "3h"),
            (11_100, "3h5m"),
            (90_000, "25h"),
            (172_800, "2d"),
            (180_000, "2d2h"),
            (691_200, "8d"),
            (86_400 * 800, "2y70d"),
        ];
        for (seconds, expected) in rows {
            assert_eq!(age(at(0), at(seconds)), expected);
        }
    }
}
