//! YAML manifests as JSON values: the objects of a text or of a file.

use std::path::Path;

use anyhow::{Context, Result};
use serde_json::Value;
use setpoint_codec::{from_tree, to_tree, yaml};

/// The objects of a YAML text, which are separated by lines `---`. Comments and white space alone are no object.
pub fn parse_objects(text: &str) -> Result<Vec<Value>, String> {
    let text = text.strip_prefix("---\n").unwrap_or(text);
    let mut objects = Vec::new();
    for chunk in text.split("\n---") {
        let object = parse_value(chunk)?;
        if !object.is_null() {
            objects.push(object);
        }
    }
    Ok(objects)
}

/// The value of one YAML document; null if there is none.
pub fn parse_value(text: &str) -> Result<Value, String> {
    let tree = yaml::parse(text.as_bytes()).map_err(|error| error.to_string())?;
    from_tree(&tree).map_err(|error| error.to_string())
}

/// The value as YAML in block style, with sorted keys and a line break at the end.
pub fn to_yaml(value: &Value) -> Result<String, String> {
    let tree = to_tree(value).map_err(|error| error.to_string())?;
    Ok(yaml::write(&tree))
}

/// The objects of a file.
pub fn read_objects(path: &Path) -> Result<Vec<Value>> {
    let text = std::fs::read_to_string(path).with_context(|| format!("cannot read {}", path.display()))?;
    parse_objects(&text).map_err(|error| anyhow::anyhow!("loading {}: {error}", path.display()))
}

/// The objects of a file, or of the YAML files of a directory in the order of their names.
pub fn read_objects_at(path: &Path) -> Result<Vec<Value>> {
    if !path.is_dir() {
        return read_objects(path);
    }
    let mut files = Vec::new();
    for entry in std::fs::read_dir(path).with_context(|| format!("cannot read {}", path.display()))? {
        let file = entry?.path();
        if file
            .extension()
            .is_some_and(|extension| extension == "yaml" || extension == "yml")
        {
            files.push(file);
        }
    }
    files.sort();
    let mut objects = Vec::new();
    for file in files {
        objects.extend(read_objects(&file)?);
    }
    Ok(objects)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[track_caller]
    fn check(text: &str, expected: Value) {
        assert_eq!(Value::from(parse_objects(text).unwrap()), expected);
    }

    #[test]
    fn objects_are_separated_by_lines_of_dashes() {
        check("---\na: 1\n---\nb: 2\n", json!([{"a": 1}, {"b": 2}]));
    }

    #[test]
    fn comments_alone_are_no_object() {
        check("a: 1\n---\n# nothing\n---\n\n", json!([{"a": 1}]));
    }
}
