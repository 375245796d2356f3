//! The second version is one document for all servers: a part of another server's document, and how it is taken in.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Map, Value, json};

/// How a reference to something else in a document starts.
const LOCAL: &str = "#/";
/// What a schema says besides what it asks for: the kinds that have it, what it is for, what stands for nothing.
const WORDS: [&str; 3] = ["x-kubernetes-group-version-kind", "description", "default"];

/// The paths of a document that start so, and all that they refer to.
pub(crate) fn part(document: &Value, start: &str) -> Value {
    let paths = entries(&document["paths"]).filter(|(path, _)| path.starts_with(start));
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

/// Takes a part of another document in. What has the name of something else gets another name.
pub(super) fn add(document: &mut Value, part: &Value) {
    let mut names = BTreeMap::new();
    for (section, found) in entries(part).filter(|(section, _)| *section != "paths") {
        for (name, value) in entries(found) {
            let free = free_name(&document[section], name, value);
            names.insert(
                format!("{LOCAL}{section}/{name}"),
                format!("{LOCAL}{section}/{free}"),
            );
        }
    }
    for (section, found) in entries(part) {
        for (name, value) in entries(found) {
            let reference = names.get(&format!("{LOCAL}{section}/{name}"));
            let name = reference
                .and_then(|new| split(new))
                .map_or(name.as_str(), |(_, name)| name);
            if document[section].get(name).is_none() {
                document[section][name] = renamed(value, &names);
            }
        }
    }
}

/// The first name that stands for nothing else.
fn free_name(section: &Value, name: &str, value: &Value) -> String {
    let later = (2..).map(|number| format!("{name}_v{number}"));
    let mut all = std::iter::once(name.to_owned()).chain(later);
    let fits = |name: &String| section.get(name).is_none_or(|own| is_same(own, value));
    all.find(fits).expect("there is always a greater number")
}

/// Whether two schemas ask for the same, whatever else they say.
fn is_same(one: &Value, other: &Value) -> bool {
    bare(one) == bare(other)
}

/// What a schema asks for.
fn bare(schema: &Value) -> Value {
    let Some(members) = schema.as_object() else {
        return schema.clone();
    };
    let asked = members.iter().filter(|(key, _)| !WORDS.contains(&key.as_str()));
    let member = |(key, value): (&String, &Value)| {
        let value = match key.as_str() {
            "properties" => entries(value)
                .map(|(name, value)| (name.clone(), bare(value)))
                .collect(),
            _ => bare(value),
        };
        (key.clone(), value)
    };
    asked.map(member).collect()
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

/// The section and the name that a reference leads to.
fn split(reference: &str) -> Option<(&str, &str)> {
    reference.strip_prefix(LOCAL)?.split_once('/')
}

fn entries(value: &Value) -> impl Iterator<Item = (&String, &Value)> {
    value.as_object().into_iter().flatten()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn other() -> Value {
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
    fn a_part_has_what_its_paths_lead_to() {
        let part = part(&other(), "/apis/a/v1/");
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
    fn what_has_the_name_of_something_else_gets_another() {
        let mut own = json!({
            "paths": {"/own": {}},
            "definitions": {"Meta": {"type": "object"}},
            "parameters": {"p": {"in": "query"}},
        });
        add(&mut own, &part(&other(), "/apis/a/v1/"));
        assert_eq!(own["definitions"]["Meta"], json!({"type": "object"}));
        assert_eq!(own["definitions"]["Meta_v2"]["description"], "theirs");
        let x = &own["definitions"]["X"]["properties"];
        assert_eq!(x["meta"]["$ref"], "#/definitions/Meta_v2");
        assert_eq!(x["self"]["$ref"], "#/definitions/X");
        assert_eq!(own["parameters"], json!({"p": {"in": "query"}}));
        assert!(own["paths"]["/own"].is_object() && own["paths"]["/apis/a/v1/xs"].is_object());
    }

    #[test]
    fn a_schema_that_asks_for_the_same_is_shared() {
        let properties = json!({"description": {"type": "string", "default": ""}});
        let meta = json!({"type": "object", "properties": properties, "description": "ours"});
        let mut own = json!({"definitions": {"Meta": meta}});
        add(&mut own, &part(&other(), "/apis/a/v1/"));
        assert!(own["definitions"].get("Meta_v2").is_none());
        assert_eq!(own["definitions"]["Meta"]["description"], "ours");
    }
}
