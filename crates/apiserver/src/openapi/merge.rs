//! Merging of v2 OpenAPI documents: extracts the part of a remote version and adds it to this server's.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Map, Value, json};

/// Prefix of a reference within an OpenAPI document.
const REFERENCE_PREFIX: &str = "#/";
/// Keys of a schema that do not constrain values; ignored when schemas are compared.
const IGNORED_KEYS: [&str; 3] = ["x-kubernetes-group-version-kind", "description", "default"];

/// The paths of an OpenAPI document with this prefix, and everything they refer to.
pub(crate) fn extract(document: &Value, prefix: &str) -> Value {
    let paths = entries(&document["paths"]).filter(|(path, _)| path.starts_with(prefix));
    let paths: Map<String, Value> = paths.map(|(path, item)| (path.clone(), item.clone())).collect();
    let mut part = json!({ "paths": paths });
    let mut waiting = references(&part);
    while let Some(reference) = waiting.pop_first() {
        let Some((section, name)) = split(&reference) else {
            continue;
        };
        let Some(found) = document[section]
            .get(name)
            .filter(|_| part[section].get(name).is_none())
        else {
            continue;
        };
        waiting.extend(references(found));
        part[section][name] = found.clone();
    }
    part
}

/// Adds an extracted part. A schema whose name is taken by a different schema is renamed.
pub(super) fn add(document: &mut Value, part: &Value) {
    let mut names = BTreeMap::new();
    for (section, found) in entries(part).filter(|(section, _)| *section != "paths") {
        for (name, value) in entries(found) {
            let new_name = available_name(&document[section], name, value);
            names.insert(
                format!("{REFERENCE_PREFIX}{section}/{name}"),
                format!("{REFERENCE_PREFIX}{section}/{new_name}"),
            );
        }
    }
    for (section, found) in entries(part) {
        for (name, value) in entries(found) {
            let reference = names.get(&format!("{REFERENCE_PREFIX}{section}/{name}"));
            let name = reference
                .and_then(|new| split(new))
                .map_or(name.as_str(), |(_, name)| name);
            if document[section].get(name).is_none() {
                document[section][name] = renamed(value, &names);
            }
        }
    }
}

/// The first name that is unused or has the same schema.
fn available_name(section: &Value, name: &str, value: &Value) -> String {
    let later = (2..).map(|number| format!("{name}_v{number}"));
    let mut all = std::iter::once(name.to_owned()).chain(later);
    let fits = |name: &String| section.get(name).is_none_or(|own| is_same(own, value));
    all.find(fits).expect("there is always a higher number")
}

/// Whether two schemas have the same constraints.
fn is_same(one: &Value, other: &Value) -> bool {
    constraints(one) == constraints(other)
}

/// A schema without the ignored keys.
fn constraints(schema: &Value) -> Value {
    let Some(members) = schema.as_object() else {
        return schema.clone();
    };
    let compared = members
        .iter()
        .filter(|(key, _)| !IGNORED_KEYS.contains(&key.as_str()));
    let member = |(key, value): (&String, &Value)| {
        let value = match key.as_str() {
            "properties" => entries(value)
                .map(|(name, value)| (name.clone(), constraints(value)))
                .collect(),
            _ => constraints(value),
        };
        (key.clone(), value)
    };
    compared.map(member).collect()
}

fn renamed(value: &Value, names: &BTreeMap<String, String>) -> Value {
    match value {
        Value::Object(members) => members
            .iter()
            .map(|(key, value)| {
                let new = value
                    .as_str()
                    .filter(|_| key == "$ref")
                    .and_then(|old| names.get(old));
                let value = new.map_or_else(|| renamed(value, names), |new| new.as_str().into());
                (key.clone(), value)
            })
            .collect(),
        Value::Array(items) => items.iter().map(|item| renamed(item, names)).collect(),
        plain => plain.clone(),
    }
}

fn references(value: &Value) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    collect(value, &mut found);
    found
}

fn collect(value: &Value, found: &mut BTreeSet<String>) {
    match value {
        Value::Object(members) => {
            for (key, value) in members {
                match value.as_str().filter(|_| key == "$ref") {
                    Some(reference) => drop(found.insert(reference.to_owned())),
                    None => collect(value, found),
                }
            }
        }
        Value::Array(items) => items.iter().for_each(|item| collect(item, found)),
        _ => {}
    }
}

/// The section and name that a reference points to.
fn split(reference: &str) -> Option<(&str, &str)> {
    reference.strip_prefix(REFERENCE_PREFIX)?.split_once('/')
}

fn entries(value: &Value) -> impl Iterator<Item = (&String, &Value)> {
    value.as_object().into_iter().flatten()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn remote() -> Value {
        json!({
            "paths": {
                "/apis/a/v1/": {"get": {"$ref": "#/parameters/p"}},
                "/apis/a/v1/xs": {"get": {"schema": {"$ref": "#/definitions/X"}}},
                "/apis/b/v1/ys": {"get": {"schema": {"$ref": "#/definitions/Y"}}},
            },
            "definitions": {
                "X": {"properties": {"meta": {"$ref": "#/definitions/Meta"}, "self": {"$ref": "#/definitions/X"}}},
                "Y": {"type": "object"},
                "Meta": {"type": "object", "description": "theirs", "properties": {"description": {"type": "string"}}},
            },
            "parameters": {"p": {"in": "query"}, "q": {}},
        })
    }

    #[test]
    fn a_part_has_everything_its_paths_refer_to() {
        let part = extract(&remote(), "/apis/a/v1/");
        let names = |section: &str| {
            entries(&part[section])
                .map(|(name, _)| name.as_str())
                .collect::<Vec<_>>()
        };
        assert_eq!(names("paths"), ["/apis/a/v1/", "/apis/a/v1/xs"]);
        assert_eq!(names("parameters"), ["p"]);
        let mut definitions = names("definitions");
        definitions.sort_unstable();
        assert_eq!(definitions, ["Meta", "X"]);
    }

    #[test]
    fn a_schema_whose_name_is_taken_is_renamed() {
        let mut own = json!({
            "paths": {"/own": {}},
            "definitions": {"Meta": {"type": "object"}},
            "parameters": {"p": {"in": "query"}},
        });
        add(&mut own, &extract(&remote(), "/apis/a/v1/"));
        assert_eq!(own["definitions"]["Meta"], json!({"type": "object"}));
        assert_eq!(own["definitions"]["Meta_v2"]["description"], "theirs");
        let x = &own["definitions"]["X"]["properties"];
        assert_eq!(x["meta"]["$ref"], "#/definitions/Meta_v2");
        assert_eq!(x["self"]["$ref"], "#/definitions/X");
        assert_eq!(own["parameters"], json!({"p": {"in": "query"}}));
        assert!(own["paths"]["/own"].is_object() && own["paths"]["/apis/a/v1/xs"].is_object());
    }

    #[test]
    fn a_schema_with_the_same_constraints_is_shared() {
        let properties = json!({"description": {"type": "string", "default": ""}});
        let meta = json!({"type": "object", "properties": properties, "description": "ours"});
        let mut own = json!({"definitions": {"Meta": meta}});
        add(&mut own, &extract(&remote(), "/apis/a/v1/"));
        assert!(own["definitions"].get("Meta_v2").is_none());
        assert_eq!(own["definitions"]["Meta"]["description"], "ours");
    }
}
