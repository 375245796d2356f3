//! From a definition to the kinds it defines.

use std::sync::{Arc, OnceLock};

use compact_str::CompactString;

use setpoint_api::{Gvk, Gvr};
use setpoint_schema::custom::{Judge, Schema};
use setpoint_schema::{Pack, Shape, Tree};

use super::lazy::{Lazy, Source};
use super::versions::{Rank, Versions};
use super::{Custom, columns};
use crate::apiextensions::custom_resource_definition::stored_outline;
use crate::header::Reader;
use crate::kind::{About, Kind, Named, Scale, Selectable};
use crate::strategy::{Rules, Scope, Subresource};

/// What is offered for objects of a definition that is going.
const WHILE_GOING: &[&str] = &["delete", "deletecollection", "get", "list", "watch"];

/// The kinds of an accepted definition, one for each version that is served. Its schemas are not looked
/// at before one of its kinds is used. `judge` judges their rules that are expressions.
pub fn kinds_of(source: &Arc<Source>, judge: Option<&Arc<dyn Judge>>) -> Vec<Arc<dyn Kind>> {
    let Ok(definition) = setpoint_codec::json::parse(&stored_outline(&source.stored())) else {
        return Vec::new();
    };
    let definition = &definition;
    let spec = definition.get("spec").cloned().unwrap_or_default();
    let served = || {
        let versions = spec.items("versions").iter();
        versions.filter(|version| flag(version, "served"))
    };
    let Some(home) = served()
        .find(|version| flag(version, "storage"))
        .or(served().next())
    else {
        return Vec::new();
    };
    let names = accepted_names(definition, &spec);
    let going = crate::meta::is_deleting(definition);
    let versions = Arc::new(versions(&spec, source));
    let of_version = |version: &Tree| -> Arc<dyn Kind> {
        let mut custom = custom(&spec, &names, version, str(home, "name"), &versions);
        custom.judge = judge.cloned();
        if going {
            custom.about.rules.verbs = WHILE_GOING;
        }
        Arc::new(custom)
    };
    served().map(of_version).collect()
}

fn versions(spec: &Tree, definition: &Arc<Source>) -> Versions {
    let named = |version: &Tree| api_version(spec, str(version, "name"));
    let versions = spec.items("versions");
    let stored = versions.iter().find(|version| flag(version, "storage"));
    Versions {
        schemas: versions
            .iter()
            .map(|version| (named(version), Lazy::new(definition, str(version, "name"))))
            .collect(),
        stored: stored.map(named).unwrap_or_default(),
    }
}

/// The name of a version in documents.
fn api_version(spec: &Tree, version: &str) -> CompactString {
    compact_str::format_compact!("{}/{version}", str(spec, "group"))
}

/// What the kind is called, as far as nobody else is called that.
fn accepted_names(definition: &Tree, spec: &Tree) -> Tree {
    let accepted = definition.at(&["status", "acceptedNames"]);
    let accepted = accepted.filter(|names| !str(names, "plural").is_empty());
    accepted.or(spec.get("names")).cloned().unwrap_or_default()
}

fn custom(spec: &Tree, names: &Tree, version: &Tree, home: &str, versions: &Arc<Versions>) -> Custom {
    let group = str(spec, "group");
    let name = str(version, "name");
    let kind = str(names, "kind");
    let gvk = Gvk::new(group, name, kind);
    let gvr = Gvr::new(group, name, str(names, "plural"));
    let columns = columns::of(version.items("additionalPrinterColumns"));
    let mut about = About {
        defined: true,
        deprecation: None,
        home: Gvr::new(group, home, str(names, "plural")),
        gvr,
        list_kind: match str(names, "listKind") {
            "" => format!("{kind}List"),
            list_kind => list_kind.to_owned(),
        },
        names: named(names),
        scope: match str(spec, "scope") {
            "Cluster" => Scope::Cluster,
            _ => Scope::Namespaced,
        },
        columns: columns.iter().map(|column| column.definition.clone()).collect(),
        fields: selectable(version),
        subresources: subresources(version),
        scale: version.at(&["subresources", "scale"]).map(scale),
        rules: Rules {
            unconditional_update: false,
            status_resets: &[&["metadata"], &["spec"]],
            ..Rules::DEFAULT
        },
        gvk,
    };
    about.deprecation = deprecation(spec, version, &about);
    Custom {
        reader: Reader::whole(&about),
        own: versions.place(&about.gvk.api_version()),
        judge: None,
        versions: versions.clone(),
        head: head(&about),
        shape: OnceLock::new(),
        about,
        columns,
    }
}

/// What every object has, under the names of the kind.
fn head(about: &About) -> Shape {
    let any = Pack::builtin().shape_of("", "v1", "ConfigMap");
    let metadata = any.and_then(|shape| shape.member("metadata"));
    let metadata = metadata.expect("the pack has config maps, and they have metadata");
    titled(Shape::new(&id(about), true, vec![metadata.clone()]), about)
}

/// What patches and apply walk.
pub(super) fn shape(about: &About, schema: &Schema) -> Shape {
    titled(schema.to_shape(&id(about)), about)
}

fn id(about: &About) -> String {
    let Gvk { group, version, kind } = &about.gvk;
    format!("{group}.{version}.{kind}")
}

fn titled(mut shape: Shape, about: &About) -> Shape {
    shape.gvk = Some(setpoint_schema::Gvk {
        group: about.gvk.group.clone(),
        version: about.gvk.version.clone(),
        kind: about.gvk.kind.clone(),
    });
    shape
}

fn named(names: &Tree) -> Named {
    let texts = |field: &str| {
        let texts = names.items(field).iter().filter_map(Tree::as_str);
        texts.map(str::to_owned).collect()
    };
    Named {
        plural: str(names, "plural").to_owned(),
        singular: match str(names, "singular") {
            "" => str(names, "kind").to_lowercase(),
            singular => singular.to_owned(),
        },
        short: texts("shortNames"),
        categories: texts("categories"),
    }
}

fn subresources(version: &Tree) -> Vec<Subresource> {
    let has = |name: &str| {
        version
            .at(&["subresources", name])
            .is_some_and(|part| !part.is_null())
    };
    let mut parts = Vec::new();
    if has("scale") {
        parts.push(Subresource::SCALE);
    }
    if has("status") {
        parts.push(Subresource::STATUS);
    }
    parts
}

fn selectable(version: &Tree) -> Vec<Selectable> {
    let fields = version.items("selectableFields").iter();
    fields
        .map(|field| {
            let path = path(str(field, "jsonPath"));
            Selectable {
                label: path.join("."),
                stored_as: path.join("."),
                paths: vec![path],
                absent: "",
            }
        })
        .collect()
}

fn scale(scale: &Tree) -> Scale {
    let selector = Some(str(scale, "labelSelectorPath")).filter(|text| !text.is_empty());
    Scale {
        replicas: path(str(scale, "specReplicasPath")),
        status_replicas: path(str(scale, "statusReplicasPath")),
        selector: selector.map(path),
    }
}

/// A simple path: `.spec.replicas`.
fn path(text: &str) -> Vec<String> {
    let steps = text.trim_start_matches('.').split('.');
    steps.map(str::to_owned).collect()
}

fn deprecation(spec: &Tree, version: &Tree, about: &About) -> Option<String> {
    if !flag(version, "deprecated") {
        return None;
    }
    if let own @ Some(_) = version.str_at(&["deprecationWarning"]) {
        return own.map(str::to_owned);
    }
    let kind = &about.gvk.kind;
    let own = Rank::of(str(version, "name"));
    let better = spec.items("versions").iter();
    let better = better
        .filter(|other| flag(other, "served") && !flag(other, "deprecated"))
        .map(|other| str(other, "name"))
        .filter(|other| Rank::of(other) > own)
        .max_by_key(|other| Rank::of(other));
    let instead = better.map(|better| format!("; use {} {kind}", api_version(spec, better)));
    Some(format!(
        "{} {kind} is deprecated{}",
        about.gvk.api_version(),
        instead.unwrap_or_default()
    ))
}

fn flag(tree: &Tree, name: &str) -> bool {
    tree.get(name).and_then(Tree::as_bool) == Some(true)
}

fn str<'a>(tree: &'a Tree, name: &str) -> &'a str {
    tree.str_at(&[name]).unwrap_or_default()
}
