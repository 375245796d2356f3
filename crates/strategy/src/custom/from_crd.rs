//! Builds the kinds of a CRD.

use std::sync::{Arc, OnceLock};

use compact_str::CompactString;

use setpoint_api::{ApiVerb, ApiVerbs, Gvk, Gvr};
use setpoint_schema::custom::Schema;
use setpoint_schema::{Pack, Shape, Tree, fields};

use super::compression::outline as stored_outline;
use super::lazy_schema::{LazySchema, StoredCrd};
use super::versions::{Converter, KubeAwareVersion, Versions};
use super::{CustomKind, columns};
use crate::header::HeaderReader;
use crate::kind::{ConversionWebhook, Kind, KindInfo, ResourceNames, ScalePaths, SelectableField};
use crate::strategy::{Rules, Scope, Subresource};

/// The verbs that are served while a CRD is terminating.
const TERMINATING_VERBS: ApiVerbs = ApiVerbs::new(&[
    ApiVerb::Delete,
    ApiVerb::DeleteCollection,
    ApiVerb::Get,
    ApiVerb::List,
    ApiVerb::Watch,
]);

/// The kinds of an established CRD, one for each served version. Schemas are compiled only when a kind is first used.
pub fn kinds_of(source: &Arc<StoredCrd>) -> Vec<Arc<dyn Kind>> {
    let Ok(crd) = setpoint_codec::json::parse(&stored_outline(&source.bytes())) else {
        return Vec::new();
    };
    let crd = &crd;
    let spec = crd.get(fields::SPEC).cloned().unwrap_or_default();
    let served = || {
        let versions = spec.items(fields::VERSIONS).iter();
        versions.filter(|version| flag(version, fields::SERVED))
    };
    let Some(storage) = served()
        .find(|version| flag(version, fields::STORAGE))
        .or(served().next())
    else {
        return Vec::new();
    };
    let names = accepted_names(crd, &spec);
    let terminating = crate::meta::is_deleting(crd);
    let versions = Arc::new(versions(&spec, source));
    let of_version = |version: &Tree| -> Arc<dyn Kind> {
        let mut custom = custom(&spec, &names, version, str(storage, fields::NAME), &versions);
        if terminating {
            custom.info.rules.resource.verbs = TERMINATING_VERBS;
        }
        Arc::new(custom)
    };
    served().map(of_version).collect()
}

fn versions(spec: &Tree, crd: &Arc<StoredCrd>) -> Versions {
    let named = |version: &Tree| api_version(spec, str(version, fields::NAME));
    let versions = spec.items(fields::VERSIONS);
    let stored = versions.iter().find(|version| flag(version, fields::STORAGE));
    Versions {
        schemas: versions
            .iter()
            .map(|version| (named(version), LazySchema::new(crd, str(version, fields::NAME))))
            .collect(),
        stored: stored.map(named).unwrap_or_default(),
        converter: match spec.str_at(&[fields::CONVERSION, fields::STRATEGY]) {
            Some("Webhook") => Converter::Webhook(Arc::new(conversion_webhook(spec))),
            _ => Converter::None,
        },
    }
}

fn conversion_webhook(spec: &Tree) -> ConversionWebhook {
    let webhook = spec.at(&[fields::CONVERSION, fields::WEBHOOK]);
    let webhook = webhook.cloned().unwrap_or_default();
    let plural = spec.str_at(&[fields::NAMES, fields::PLURAL]).unwrap_or_default();
    let versions = webhook.items(fields::CONVERSION_REVIEW_VERSIONS).iter();
    ConversionWebhook {
        crd_name: format!("{plural}.{}", str(spec, fields::GROUP)),
        client_config: webhook.get(fields::CLIENT_CONFIG).cloned().unwrap_or_default(),
        review_versions: versions.filter_map(Tree::as_str).map(str::to_owned).collect(),
    }
}

/// The `apiVersion` of a version.
fn api_version(spec: &Tree, version: &str) -> CompactString {
    compact_str::format_compact!("{}/{version}", str(spec, fields::GROUP))
}

/// The accepted names, which conflict with no other kind's; before acceptance those of the spec.
fn accepted_names(crd: &Tree, spec: &Tree) -> Tree {
    let accepted = crd.at(&[fields::STATUS, fields::ACCEPTED_NAMES]);
    let accepted = accepted.filter(|names| !str(names, fields::PLURAL).is_empty());
    accepted.or(spec.get(fields::NAMES)).cloned().unwrap_or_default()
}

fn custom(spec: &Tree, names: &Tree, version: &Tree, storage: &str, versions: &Arc<Versions>) -> CustomKind {
    let group = str(spec, fields::GROUP);
    let name = str(version, fields::NAME);
    let kind = str(names, fields::KIND);
    let gvk = Gvk::new(group, name, kind);
    let gvr = Gvr::new(group, name, str(names, fields::PLURAL));
    let columns = columns::of(version.items(fields::ADDITIONAL_PRINTER_COLUMNS));
    let mut info = KindInfo {
        is_custom: true,
        deprecation_warning: None,
        storage: Gvr::new(group, storage, str(names, fields::PLURAL)),
        gvr,
        list_kind: match str(names, fields::LIST_KIND) {
            "" => format!("{kind}List"),
            list_kind => list_kind.to_owned(),
        },
        names: named(names),
        scope: match str(spec, fields::SCOPE) {
            "Cluster" => Scope::Cluster,
            _ => Scope::Namespaced,
        },
        columns: columns.iter().map(|column| column.header.clone()).collect(),
        fields: selectable(version),
        subresources: subresources(version),
        scale: version.at(&[fields::SUBRESOURCES, fields::SCALE]).map(scale),
        rules: Rules::DEFAULT
            .repeats_causes()
            .no_unconditional_update()
            .status_reset_fields(&[&[fields::METADATA], &[fields::SPEC]]),
        gvk,
    };
    info.deprecation_warning = deprecation(spec, version, &info);
    CustomKind {
        reader: HeaderReader::of_custom(&info),
        version_index: versions.index_of(&info.gvk.api_version()),
        versions: versions.clone(),
        head: head(&info),
        shape: OnceLock::new(),
        info,
        columns,
    }
}

/// The shape of `kind`, `apiVersion` and metadata, with the kind's names.
fn head(info: &KindInfo) -> Shape {
    with_gvk(common_shape(&id(info)), info)
}

/// The shape of `kind`, `apiVersion` and metadata, which every custom object has.
pub fn common_shape(id: &str) -> Shape {
    let any = Pack::builtin().shape_of("", "v1", "ConfigMap");
    let metadata = any.and_then(|shape| shape.member(fields::METADATA));
    let metadata = metadata.expect("the pack has config maps, and they have metadata");
    Shape::new(id, true, vec![metadata.clone()])
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
        plural: str(names, fields::PLURAL).to_owned(),
        singular: match str(names, fields::SINGULAR) {
            "" => str(names, fields::KIND).to_lowercase(),
            singular => singular.to_owned(),
        },
        short: texts(fields::SHORT_NAMES),
        categories: texts(fields::CATEGORIES),
    }
}

fn subresources(version: &Tree) -> Vec<Subresource> {
    let has = |name: &str| {
        version
            .at(&[fields::SUBRESOURCES, name])
            .is_some_and(|value| !value.is_null())
    };
    let mut subresources = Vec::new();
    if has(fields::SCALE) {
        subresources.push(Subresource::SCALE);
    }
    if has(fields::STATUS) {
        subresources.push(Subresource::STATUS);
    }
    subresources
}

fn selectable(version: &Tree) -> Vec<SelectableField> {
    let fields = version.items(fields::SELECTABLE_FIELDS).iter();
    fields
        .map(|field| {
            let path = path(str(field, fields::JSON_PATH));
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
    let selector = Some(str(scale, fields::LABEL_SELECTOR_PATH)).filter(|text| !text.is_empty());
    ScalePaths {
        replicas: path(str(scale, fields::SPEC_REPLICAS_PATH)),
        status_replicas: path(str(scale, fields::STATUS_REPLICAS_PATH)),
        selector: selector.map(path),
    }
}

/// Parses a simple path: `.spec.replicas`.
fn path(text: &str) -> Vec<String> {
    let steps = text.trim_start_matches('.').split('.');
    steps.map(str::to_owned).collect()
}

fn deprecation(spec: &Tree, version: &Tree, info: &KindInfo) -> Option<String> {
    if !flag(version, fields::DEPRECATED) {
        return None;
    }
    if let custom_warning @ Some(_) = version.str_at(&[fields::DEPRECATION_WARNING]) {
        return custom_warning.map(str::to_owned);
    }
    let kind = &info.gvk.kind;
    let priority = KubeAwareVersion::of(str(version, fields::NAME));
    let better = spec.items(fields::VERSIONS).iter();
    let better = better
        .filter(|other| flag(other, fields::SERVED) && !flag(other, fields::DEPRECATED))
        .map(|other| str(other, fields::NAME))
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
