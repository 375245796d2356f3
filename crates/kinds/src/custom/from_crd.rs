//! Builds the kinds of a CRD.

use std::sync::{Arc, OnceLock};

use compact_str::CompactString;

use setpoint_api::{Gvk, Gvr};
use setpoint_schema::custom::{RuleEvaluator, Schema};
use setpoint_schema::{Pack, Shape, Tree};

use super::lazy_schema::{LazySchema, StoredCrd};
use super::versions::{KubeAwareVersion, Versions};
use super::{CustomKind, columns};
use crate::apiextensions::custom_resource_definition::stored_outline;
use crate::header::HeaderReader;
use crate::kind::{Kind, KindInfo, ResourceNames, ScalePaths, SelectableField};
use crate::strategy::{Rules, Scope, Subresource};

/// The verbs that are served while a CRD is terminating.
const TERMINATING_VERBS: &[&str] = &["delete", "deletecollection", "get", "list", "watch"];

/// The kinds of an established CRD, one for each served version. Schemas are compiled only when a kind is first used.
/// `evaluator` evaluates their CEL rules.
pub fn kinds_of(source: &Arc<StoredCrd>, evaluator: Option<&Arc<dyn RuleEvaluator>>) -> Vec<Arc<dyn Kind>> {
    let Ok(crd) = setpoint_codec::json::parse(&stored_outline(&source.bytes())) else {
        return Vec::new();
    };
    let crd = &crd;
    let spec = crd.get("spec").cloned().unwrap_or_default();
    let served = || {
        let versions = spec.items("versions").iter();
        versions.filter(|version| flag(version, "served"))
    };
    let Some(storage) = served()
        .find(|version| flag(version, "storage"))
        .or(served().next())
    else {
        return Vec::new();
    };
    let names = accepted_names(crd, &spec);
    let terminating = crate::meta::is_deleting(crd);
    let versions = Arc::new(versions(&spec, source));
    let of_version = |version: &Tree| -> Arc<dyn Kind> {
        let mut custom = custom(&spec, &names, version, str(storage, "name"), &versions);
        custom.evaluator = evaluator.cloned();
        if terminating {
            custom.info.rules.verbs = TERMINATING_VERBS;
        }
        Arc::new(custom)
    };
    served().map(of_version).collect()
}

fn versions(spec: &Tree, crd: &Arc<StoredCrd>) -> Versions {
    let named = |version: &Tree| api_version(spec, str(version, "name"));
    let versions = spec.items("versions");
    let stored = versions.iter().find(|version| flag(version, "storage"));
    Versions {
        schemas: versions
            .iter()
            .map(|version| (named(version), LazySchema::new(crd, str(version, "name"))))
            .collect(),
        stored: stored.map(named).unwrap_or_default(),
    }
}

/// The `apiVersion` of a version.
fn api_version(spec: &Tree, version: &str) -> CompactString {
    compact_str::format_compact!("{}/{version}", str(spec, "group"))
}

/// The accepted names, which conflict with no other kind's; before acceptance those of the spec.
fn accepted_names(crd: &Tree, spec: &Tree) -> Tree {
    let accepted = crd.at(&["status", "acceptedNames"]);
    let accepted = accepted.filter(|names| !str(names, "plural").is_empty());
    accepted.or(spec.get("names")).cloned().unwrap_or_default()
}

fn custom(spec: &Tree, names: &Tree, version: &Tree, storage: &str, versions: &Arc<Versions>) -> CustomKind {
    let group = str(spec, "group");
    let name = str(version, "name");
    let kind = str(names, "kind");
    let gvk = Gvk::new(group, name, kind);
    let gvr = Gvr::new(group, name, str(names, "plural"));
    let columns = columns::of(version.items("additionalPrinterColumns"));
    let mut info = KindInfo {
        is_custom: true,
        deprecation_warning: None,
        storage: Gvr::new(group, storage, str(names, "plural")),
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
        columns: columns.iter().map(|column| column.header.clone()).collect(),
        fields: selectable(version),
        subresources: subresources(version),
        scale: version.at(&["subresources", "scale"]).map(scale),
        rules: Rules {
            unconditional_update: false,
            status_reset_fields: &[&["metadata"], &["spec"]],
            ..Rules::DEFAULT
        },
        gvk,
    };
    info.deprecation_warning = deprecation(spec, version, &info);
    CustomKind {
        reader: HeaderReader::with_type_meta(&info),
        version_index: versions.index_of(&info.gvk.api_version()),
        evaluator: None,
        versions: versions.clone(),
        head: head(&info),
        shape: OnceLock::new(),
        info,
        columns,
    }
}

/// The shape of `kind`, `apiVersion` and metadata, with the kind's names.
fn head(info: &KindInfo) -> Shape {
    let any = Pack::builtin().shape_of("", "v1", "ConfigMap");
    let metadata = any.and_then(|shape| shape.member("metadata"));
    let metadata = metadata.expect("the pack has config maps, and they have metadata");
    with_gvk(Shape::new(&id(info), true, vec![metadata.clone()]), info)
}

/// The shape that patches and apply use.
pub(super) fn shape(info: &KindInfo, schema: &Schema) -> Shape {
    with_gvk(schema.to_shape(&id(info)), info)
}

fn id(info: &KindInfo) -> String {
    let Gvk { group, version, kind } = &info.gvk;
    format!("{group}.{version}.{kind}")
}

fn with_gvk(mut shape: Shape, info: &KindInfo) -> Shape {
    shape.gvk = Some(setpoint_schema::Gvk {
        group: info.gvk.group.clone(),
        version: info.gvk.version.clone(),
        kind: info.gvk.kind.clone(),
    });
    shape
}

fn named(names: &Tree) -> ResourceNames {
    let texts = |field: &str| {
        let texts = names.items(field).iter().filter_map(Tree::as_str);
        texts.map(str::to_owned).collect()
    };
    ResourceNames {
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
            .is_some_and(|value| !value.is_null())
    };
    let mut subresources = Vec::new();
    if has("scale") {
        subresources.push(Subresource::SCALE);
    }
    if has("status") {
        subresources.push(Subresource::STATUS);
    }
    subresources
}

fn selectable(version: &Tree) -> Vec<SelectableField> {
    let fields = version.items("selectableFields").iter();
    fields
        .map(|field| {
            let path = path(str(field, "jsonPath"));
            SelectableField {
                label: path.join("."),
                stored_as: path.join("."),
                paths: vec![path],
                absent: "",
            }
        })
        .collect()
}

fn scale(scale: &Tree) -> ScalePaths {
    let selector = Some(str(scale, "labelSelectorPath")).filter(|text| !text.is_empty());
    ScalePaths {
        replicas: path(str(scale, "specReplicasPath")),
        status_replicas: path(str(scale, "statusReplicasPath")),
        selector: selector.map(path),
    }
}

/// Parses a simple path: `.spec.replicas`.
fn path(text: &str) -> Vec<String> {
    let steps = text.trim_start_matches('.').split('.');
    steps.map(str::to_owned).collect()
}

fn deprecation(spec: &Tree, version: &Tree, info: &KindInfo) -> Option<String> {
    if !flag(version, "deprecated") {
        return None;
    }
    if let custom_warning @ Some(_) = version.str_at(&["deprecationWarning"]) {
        return custom_warning.map(str::to_owned);
    }
    let kind = &info.gvk.kind;
    let priority = KubeAwareVersion::of(str(version, "name"));
    let better = spec.items("versions").iter();
    let better = better
        .filter(|other| flag(other, "served") && !flag(other, "deprecated"))
        .map(|other| str(other, "name"))
        .filter(|other| KubeAwareVersion::of(other) > priority)
        .max_by_key(|other| KubeAwareVersion::of(other));
    let instead = better.map(|better| format!("; use {} {kind}", api_version(spec, better)));
    Some(format!(
        "{} {kind} is deprecated{}",
        info.gvk.api_version(),
        instead.unwrap_or_default()
    ))
}

fn flag(tree: &Tree, name: &str) -> bool {
    tree.get(name).and_then(Tree::as_bool) == Some(true)
}

fn str<'a>(tree: &'a Tree, name: &str) -> &'a str {
    tree.str_at(&[name]).unwrap_or_default()
}
