//! What a document says it is, and whether that is what is wanted.

use compact_str::CompactString;
use setpoint_schema::{Gvk, Map, Pack, Shape, Tree, prune};

use super::error::{DecodeError, Found};

const FINDS_KIND: &str = "couldn't get version/kind; json parse error: ";
const KIND_HOLDER: &str =
    r#"struct { APIVersion string "json:\"apiVersion,omitempty\""; Kind string "json:\"kind,omitempty\"" }"#;

/// The kind of a document. What it leaves out is taken from the shape it is read as.
pub(super) fn find(tree: &Tree, shape: &Shape) -> Result<Found, String> {
    let empty = Map::default();
    let map = match tree {
        Tree::Map(map) => map,
        Tree::Null => &empty,
        other => {
            let given = other.type_name();
            return Err(format!(
                "{FINDS_KIND}json: cannot unmarshal {given} into Go value of type {KIND_HOLDER}"
            ));
        }
    };
    let (group, version) = split(text(map, "apiVersion")?)?;
    let mut found = Found {
        group: group.into(),
        version: version.into(),
        kind: text(map, "kind")?.into(),
    };
    if let Some(wanted) = &shape.gvk {
        complete(&mut found, wanted);
    }
    Ok(found)
}

fn text<'a>(map: &'a Map, key: &str) -> Result<&'a str, String> {
    match map.get(key) {
        None | Some(Tree::Null) => Ok(""),
        Some(Tree::Str(text)) => Ok(text),
        Some(other) => {
            let given = other.type_name();
            Err(format!(
                "{FINDS_KIND}json: cannot unmarshal {given} into Go struct field .{key} of type string"
            ))
        }
    }
}

/// Group and version of an apiVersion.
fn split(api_version: &str) -> Result<(&str, &str), String> {
    match api_version.split_once('/') {
        None => Ok(("", api_version)),
        Some((group, version)) if !version.contains('/') => Ok((group, version)),
        Some(_) => Err(format!("unexpected GroupVersion string: {api_version}")),
    }
}

fn complete(found: &mut Found, wanted: &Gvk) {
    if found.kind.is_empty() {
        found.kind = wanted.kind.clone();
    }
    if found.version.is_empty() && (found.group.is_empty() || found.group == wanted.group) {
        found.group = wanted.group.clone();
        found.version = wanted.version.clone();
    }
}

/// Whether a document of the kind found can be read as the shape. One of another kind must be one before it is said
/// that it is the wrong one.
pub(super) fn check(found: &Found, shape: &Shape, tree: &Tree) -> Result<(), DecodeError> {
    let Some(wanted) = &shape.gvk else { return Ok(()) };
    let same_kind = found.kind == wanted.kind;
    if same_kind && found.group == wanted.group && found.version == wanted.version {
        return Ok(());
    }
    // A kind of its own is compared by name only: nothing is converted into it.
    let own = Pack::builtin()
        .shape_of(&wanted.group, &wanted.version, &wanted.kind)
        .is_none();
    if own && same_kind && found.group == wanted.group {
        return Err(version(found, wanted));
    }
    let Some(given) = registered(found, shape) else {
        return Err(DecodeError::unhandled(shape, found, unregistered(found, wanted)));
    };
    match same_kind {
        true if shape.any_group => Ok(()),
        true if found.group == wanted.group => Err(version(found, wanted)),
        _ => {
            let cause = prune(given, &mut tree.clone()).mismatch.unwrap_or_else(|| {
                let (given, wanted) = (given.versioned_name(), hub_name(shape));
                format!("converting ({given}) to ({wanted}): unknown conversion")
            });
            Err(DecodeError::unhandled(shape, found, cause))
        }
    }
}

/// The shape of the kind found, if there is one; a kind that is in every group is there wherever the group is.
fn registered<'a>(found: &Found, shape: &'a Shape) -> Option<&'a Shape> {
    let pack = Pack::builtin();
    if shape.any_group && shape.gvk.as_ref().is_some_and(|gvk| gvk.kind == found.kind) {
        let api_version = found.api_version();
        return pack
            .group_versions()
            .iter()
            .any(|known| known.name == api_version)
            .then_some(shape);
    }
    pack.shape_of(&found.group, &found.version, &found.kind)
}

/// It is the right kind in another version.
fn version(found: &Found, wanted: &Gvk) -> DecodeError {
    let wanted = Found {
        group: wanted.group.clone(),
        version: wanted.version.clone(),
        ..Found::default()
    };
    DecodeError::Version {
        given: found.api_version(),
        wanted: wanted.api_version(),
    }
}

fn unregistered(found: &Found, wanted: &Gvk) -> String {
    let (kind, version, scheme) = (&found.kind, found.api_version(), scheme(&wanted.group));
    format!("no kind \"{kind}\" is registered for version \"{version}\" in scheme \"{scheme}\"")
}

/// Where the reference server keeps the kinds of a group: part of the text clients see.
fn scheme(group: &str) -> &'static str {
    match group {
        "apiextensions.k8s.io" => "k8s.io/apiextensions-apiserver/pkg/apiserver/apiserver.go:56",
        "apiregistration.k8s.io" => "k8s.io/kube-aggregator/pkg/apiserver/scheme/scheme.go:28",
        _ => "pkg/api/legacyscheme/scheme.go:30",
    }
}

/// The name of a type without its version: `autoscaling.Scale`.
fn hub_name(shape: &Shape) -> String {
    let mut parts = shape.id.rsplit('.');
    let (name, _version, package) = (parts.next(), parts.next(), parts.next());
    format!("{}.{}", package.unwrap_or_default(), name.unwrap_or_default())
}

/// Writes the kind into a document that left it out.
pub(super) fn fill(tree: &mut Tree, found: &Found) {
    let map = tree.map_or_default();
    if text(map, "apiVersion") == Ok("") {
        map.insert("apiVersion", found.api_version());
    }
    if text(map, "kind") == Ok("") {
        map.insert("kind", CompactString::clone(&found.kind));
    }
}
