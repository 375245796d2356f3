//! Tables in YAML, which are compared as text: without column descriptions, which are not compared in JSON either.

const DESCRIPTION: &str = "description:";

/// The text of a YAML body; of a Table, without the descriptions of its columns.
pub(crate) fn without_descriptions(text: &str) -> String {
    if !text.lines().any(|line| line == "kind: Table") {
        return text.to_owned();
    }
    let mut lines = Vec::new();
    let mut in_description = false;
    let mut starts_item = false;
    for line in text.lines() {
        let content = line.strip_prefix("- ").or_else(|| line.strip_prefix("  "));
        let is_field = content.is_some_and(|content| !content.starts_with([' ', '\n']));
        if is_field && content.is_some_and(|content| content.starts_with(DESCRIPTION)) {
            in_description = true;
            starts_item = line.starts_with("- ");
        } else if !is_field && in_description && (line.is_empty() || line.starts_with(' ')) {
            // The description goes on.
        } else {
            in_description = false;
            match (std::mem::take(&mut starts_item), content) {
                (true, Some(content)) => lines.push(format!("- {content}")),
                _ => lines.push(line.to_owned()),
            }
        }
    }
    lines.join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(text: &str, expected: &str) {
        assert_eq!(without_descriptions(text), expected);
    }

    #[test]
    fn descriptions_of_columns_are_dropped() {
        let table = "columnDefinitions:\n- description: 'a: b\n    c'\n  format: name\n- description: |-\n    d\n\n    e\n  format: \"\"\nkind: Table\nrows: []";
        let expected = "columnDefinitions:\n- format: name\n- format: \"\"\nkind: Table\nrows: []";
        check(table, expected);
    }

    #[test]
    fn other_objects_stay_as_they_are() {
        check(
            "kind: Pod\nspec:\n  description: x\n",
            "kind: Pod\nspec:\n  description: x\n",
        );
    }
}
