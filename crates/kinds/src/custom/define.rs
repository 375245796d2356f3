//! From a definition to the kinds it defines.

use std::sync::Arc;

use setpoint_api::{Gvk, Gvr};
use setpoint_schema::custom::Schema;
use setpoint_schema::{Pack, Shape, Tree};

use super::{Custom, columns};
use crate::header::Reader;
use crate::kind::{About, Kind, Named, Scale, Selectable};
use crate::strategy::{Rules, Scope, Subresource};

/// What is still done with objects of a definition that is going.
const WITHOUT_CREATE: &[&str] = &[
    "delete",
    "deletecollection",
    "get",
    "list",
    "patch",
    "update",
    "watch",
];

/// The kinds of an accepted definition, one for each version that is served.
pub fn kinds_of(definition: &Tree) -> Vec<Arc<dyn Kind>> {
    let spec = definition.get("spec").cloned().unwrap_or_default();
    let versions: Vec<&Tree> = spec
        .items("versions")
        .iter()
        .filter(|version| flag(version, "served"))
        .collect();
    let stored = versions.iter().find(|version| flag(version, "storage"));
    let Some(stored) = stored.or(versions.first()) else {
        return Vec::new();
    };
    let names = accepted_names(definition, &spec);
    let going = crate::meta::is_deleting(definition);
    let stored_schema = Arc::new(schema_of(stored));
    let of_version = |version: &&Tree| -> Arc<dyn Kind> {
        let stored = (str(stored, "name"), &stored_schema);
        let mut custom = custom(&spec, &names, version, stored);
        custom.has_versions = versions.len() > 1;
        if going {
            custom.about.rules.verbs = WITHOUT_CREATE;
        }
        Arc::new(custom)
    };
    versions.iter().map(of_version).collect()
}

/// What the kind is called, as far as nobody else is called that.
fn accepted_names(definition: &Tree, spec: &Tree) -> Tree {
    let accepted = definition.at(&["status", "acceptedNames"]);
    let accepted = accepted.filter(|names| !str(names, "plural").is_empty());
    accepted.or(spec.get("names")).cloned().unwrap_or_default()
}

fn schema_of(version: &Tree) -> Schema {
    let schema = version.at(&["schema", "openAPIV3Schema"]);
    Schema::compile(schema.unwrap_or(&Tree::Null))
}

fn custom(
    spec: &Tree,
    names: &Tree,
    version: &Tree,
    (stored, stored_schema): (&str, &Arc<Schema>),
) -> Custom {
    let group = str(spec, "group");
    let name = str(version, "name");
    let kind = str(names, "kind");
    let gvk = Gvk::new(group, name, kind);
    let gvr = Gvr::new(group, name, str(names, "plural"));
    let columns = columns::of(version.items("additionalPrinterColumns"));
    let mut about = About {
        defined: true,
        deprecation: None,
        home: Gvr::new(group, stored, str(names, "plural")),
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
            ..Rules::DEFAULT
        },
        gvk,
    };
    about.deprecation = deprecation(version, &about);
    let schema = match name == stored {
        true => stored_schema.clone(),
        false => Arc::new(schema_of(version)),
    };
    let (shape, head) = shapes(&about, &schema);
    Custom {
        reader: Reader::whole(&about),
        stored_version: Gvk::new(group, stored, kind).api_version(),
        has_defaults: stored_schema.has_defaults(),
        has_versions: false,
        stored_schema: stored_schema.clone(),
        schema,
        about,
        shape,
        head,
        columns,
    }
}

fn shapes(about: &About, schema: &Schema) -> (Shape, Shape) {
    let gvk = setpoint_schema::Gvk {
        group: about.gvk.group.clone(),
        version: about.gvk.version.clone(),
        kind: about.gvk.kind.clone(),
    };
    let id = format!("{}.{}.{}", gvk.group, gvk.version, gvk.kind);
    let any = Pack::builtin().shape_of("", "v1", "ConfigMap");
    let metadata = any.and_then(|shape| shape.member("metadata"));
    let metadata = metadata.expect("the pack has config maps, and they have metadata");
    let head = Shape::new(&id, true, vec![metadata.clone()]);
    let named = |mut shape: Shape| {
        shape.gvk = Some(gvk.clone());
        shape
    };
    (named(schema.to_shape(&id)), named(head))
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

fn deprecation(version: &Tree, about: &About) -> Option<String> {
    if !flag(version, "deprecated") {
        return None;
    }
    let own = str(version, "deprecationWarning");
    Some(match own {
        "" => format!("{} {} is deprecated", about.gvk.api_version(), about.gvk.kind),
        own => own.to_owned(),
    })
}

fn flag(tree: &Tree, name: &str) -> bool {
    tree.get(name).and_then(Tree::as_bool) == Some(true)
}

fn str<'a>(tree: &'a Tree, name: &str) -> &'a str {
    tree.str_at(&[name]).unwrap_or_default()
}
