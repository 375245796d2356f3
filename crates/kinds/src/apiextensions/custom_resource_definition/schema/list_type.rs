//! `x-kubernetes-list-type` and `x-kubernetes-list-map-keys`.

use std::collections::BTreeSet;

use setpoint_schema::{Tree, fields};

use super::Node;
use super::keywords::require_type;

const SET_OF_OBJECTS: &str = "must be atomic as item of a list with x-kubernetes-list-type=set";

pub(super) fn validate(node: &Node<'_>) {
    let list = node.at(fields::X_KUBERNETES_LIST_TYPE);
    let kind = node.str(fields::X_KUBERNETES_LIST_TYPE);
    let keys = list_map_keys(node);
    if list.is_some() {
        let is_array = require_type(
            node,
            "array",
            "must be array if x-kubernetes-list-type is specified",
        );
        if is_array && kind == "set" {
            validate_set(node);
        }
    }
    if let Some(list) = list
        .as_ref()
        .filter(|_| !matches!(kind, "atomic" | "set" | "map"))
    {
        list.errors.not_supported(kind, &["atomic", "set", "map"]);
    }
    if !keys.is_empty() && kind != "map" {
        let message = "must be map if x-kubernetes-list-map-keys is non-empty";
        match &list {
            None => node.errors.at(fields::X_KUBERNETES_LIST_TYPE).required(message),
            Some(list) => list.errors.invalid(kind, message),
        }
    }
    if kind == "map" {
        validate_map(node, &keys);
    }
    if let Some(items) = node
        .schema(fields::ITEMS)
        .filter(|_| matches!(kind, "set" | "map"))
    {
        validate_items(&items, kind, &keys);
    }
}

fn list_map_keys<'a>(node: &Node<'a>) -> Vec<&'a str> {
    let keys = node.value.items(fields::X_KUBERNETES_LIST_MAP_KEYS).iter();
    keys.filter_map(Tree::as_str).collect()
}

/// The items of a set are compared as whole values.
fn validate_set(node: &Node<'_>) {
    let Some(items) = node.schema(fields::ITEMS) else {
        return;
    };
    let list_type = items.value.str_at(&[fields::X_KUBERNETES_LIST_TYPE]);
    match items.str(fields::TYPE) {
        // Upstream reports the list type of the items here.
        "object" if items.str(fields::X_KUBERNETES_MAP_TYPE) != "atomic" => {
            let at = items.errors.at(fields::X_KUBERNETES_MAP_TYPE);
            at.invalid(list_type, SET_OF_OBJECTS);
        }
        "array" if !matches!(list_type, None | Some("atomic")) => {
            let at = items.errors.at(fields::X_KUBERNETES_LIST_TYPE);
            at.invalid(list_type, SET_OF_OBJECTS);
        }
        _ => {}
    }
}

fn validate_map(node: &Node<'_>, keys: &[&str]) {
    let at = node.errors.at(fields::X_KUBERNETES_LIST_MAP_KEYS);
    if keys.is_empty() {
        at.required("must not be empty if x-kubernetes-list-type is map");
    }
    let Some(items) = node.schema(fields::ITEMS) else {
        if node.at(fields::ITEMS).is_none() {
            let at = node.errors.at(fields::ITEMS);
            at.required("must have a schema if x-kubernetes-list-type is map");
        }
        return;
    };
    let found = items.str(fields::TYPE);
    if found != "object" {
        let message = "must be object if parent array's x-kubernetes-list-type is map";
        items.errors.at(fields::TYPE).invalid(found, message);
        return;
    }
    let properties = items.properties();
    let mut seen = BTreeSet::new();
    for key in keys {
        match properties.iter().find(|(name, _)| name == key) {
            None => at.invalid(keys, "entries must all be names of item properties"),
            Some((_, property)) if matches!(property.str(fields::TYPE), "array" | "object") => {
                let message = "must be a scalar type if parent array's x-kubernetes-list-type is map";
                property.errors.at(fields::TYPE).invalid(found, message);
            }
            Some(_) => {}
        }
        if !seen.insert(key) {
            at.invalid(keys, "must not contain duplicate entries");
        }
    }
}

/// Items of sets and maps are never null, and the keys of a map's items always have a value.
fn validate_items(items: &Node<'_>, kind: &str, keys: &[&str]) {
    if items.flag(fields::NULLABLE) {
        let message = format!("cannot be nullable when x-kubernetes-list-type is {kind}");
        items.errors.at(fields::NULLABLE).forbidden(&message);
    }
    if kind != "map" {
        return;
    }
    let required = items.value.items(fields::REQUIRED);
    let properties = items.properties();
    for key in keys {
        let Some((_, property)) = properties.iter().find(|(name, _)| name == key) else {
            continue;
        };
        let is_required = required.iter().any(|name| name.as_str() == Some(key));
        if !is_required && property.at(fields::DEFAULT).is_none() {
            let at = property.errors.at(fields::DEFAULT);
            at.required("this property is in x-kubernetes-list-map-keys, so it must have a default or be a required property");
        }
        if property.flag(fields::NULLABLE) {
            let at = property.errors.at(fields::NULLABLE);
            at.forbidden("this property is in x-kubernetes-list-map-keys, so it cannot be nullable");
        }
    }
}
