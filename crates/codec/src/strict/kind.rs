//! The kind of a body, and the check that it is the expected one.

use compact_str::CompactString;
use setpoint_schema::{Gvk, Map, Pack, Shape, Tree, prune};

use super::error::{ActualGvk, DecodeError};

const KIND_ERROR_PREFIX: &str = "couldn't get version/kind; json parse error: ";
const TYPE_META_STRUCT: &str =
    r#"struct { APIVersion string "json:\"apiVersion,omitempty\""; Kind string "json:\"kind,omitempty\"" }"#;

/// The group, version and kind of a body. Absent fields default to those of the expected shape.
pub(super) fn actual_gvk(tree: &Tree, shape: &Shape) -> Result<ActualGvk, String> {
    let (api_version, kind) = read_type_meta(tree)?;
    let (group, version) = split(api_version)?;
    let mut actual = ActualGvk {
        group: group.into(),
        version: version.into(),
        kind: kind.into(),
    };
    if let Some(expected) = &shape.gvk {
        complete(&mut actual, expected);
    }
    Ok(actual)
}

/// The `apiVersion` and `kind` of a body; empty if they are absent. The error is that of Kubernetes' decoder.
pub fn read_type_meta(tree: &Tree) -> Result<(&str, &str), String> {
    match tree {
        Tree::Map(map) => Ok((text(map, "apiVersion")?, text(map, "kind")?)),
        Tree::Null => Ok(("", "")),
        other => Err(format!(
            "{KIND_ERROR_PREFIX}json: cannot unmarshal {} into Go value of type {TYPE_META_STRUCT}",
            other.type_name()
        )),
    }
}

fn text<'a>(map: &'a Map, key: &str) -> Result<&'a str, String> {
    match map.get(key) {
        None | Some(Tree::Null) => Ok(""),
        Some(Tree::Str(text)) => Ok(text),
        Some(other) => {
            let actual = other.type_name();
            Err(format!(
                "{KIND_ERROR_PREFIX}json: cannot unmarshal {actual} into Go struct field .{key} of type string"
            ))
        }
    }
}

/// Splits an apiVersion into group and version.
fn split(api_version: &str) -> Result<(&str, &str), String> {
    match api_version.split_once('/') {
        None => Ok(("", api_version)),
        Some((group, version)) if !version.contains('/') => Ok((group, version)),
        Some(_) => Err(format!("unexpected GroupVersion string: {api_version}")),
    }
}

fn complete(actual: &mut ActualGvk, expected: &Gvk) {
    if actual.kind.is_empty() {
        actual.kind = expected.kind.clone();
    }
    if actual.version.is_empty() && (actual.group.is_empty() || actual.group == expected.group) {
        actual.group = expected.group.clone();
        actual.version = expected.version.clone();
    }
}

/// Checks that a body of the actual kind can be decoded as the shape. A body of another kind is decoded as that kind
/// first: its own errors take precedence over the wrong kind.
pub(super) fn check_expected(actual: &ActualGvk, shape: &Shape, tree: &Tree) -> Result<(), DecodeError> {
    let Some(expected) = &shape.gvk else { return Ok(()) };
    let same_kind = actual.kind == expected.kind;
    if same_kind && actual.group == expected.group && actual.version == expected.version {
        return Ok(());
    }
    // A custom kind is compared by name only: nothing is converted into it.
    let is_custom = Pack::builtin()
        .shape_of(&expected.group, &expected.version, &expected.kind)
        .is_none();
    if is_custom && same_kind && actual.group == expected.group {
        return Err(version_mismatch(actual, expected));
    }
    let Some(actual_shape) = registered_shape(actual, shape) else {
        return Err(DecodeError::unhandled(
            shape,
            actual,
            not_registered_message(actual, expected),
        ));
    };
    match same_kind {
        true if shape.any_group => Ok(()),
        true if actual.group == expected.group => Err(version_mismatch(actual, expected)),
        _ => {
            let cause = prune(actual_shape, &mut tree.clone())
                .type_error
                .unwrap_or_else(|| {
                    let (from, to) = (actual_shape.versioned_name(), hub_name(shape));
                    format!("converting ({from}) to ({to}): unknown conversion")
                });
            Err(DecodeError::unhandled(shape, actual, cause))
        }
    }
}

/// The shape of the actual kind, if it is registered. A kind that exists in every group (`DeleteOptions`) is registered
/// in all groups that are served.
fn registered_shape<'a>(actual: &ActualGvk, shape: &'a Shape) -> Option<&'a Shape> {
    let pack = Pack::builtin();
    if shape.any_group && shape.gvk.as_ref().is_some_and(|gvk| gvk.kind == actual.kind) {
        let api_version = actual.api_version();
        return pack
            .group_versions()
            .iter()
            .any(|known| known.name == api_version)
            .then_some(shape);
    }
    pack.shape_of(&actual.group, &actual.version, &actual.kind)
}

/// The error for the expected kind in another version.
fn version_mismatch(actual: &ActualGvk, expected: &Gvk) -> DecodeError {
    let expected = ActualGvk {
        group: expected.group.clone(),
        version: expected.version.clone(),
        ..ActualGvk::default()
    };
    DecodeError::VersionMismatch {
        actual: actual.api_version(),
        expected: expected.api_version(),
    }
}

fn not_registered_message(actual: &ActualGvk, expected: &Gvk) -> String {
    let (kind, version, scheme) = (&actual.kind, actual.api_version(), scheme(&expected.group));
    format!("no kind \"{kind}\" is registered for version \"{version}\" in scheme \"{scheme}\"")
}

/// The name of kube-apiserver's scheme for a group, which is part of the message.
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

/// Sets `apiVersion` and `kind` if they are absent.
pub(super) fn set_type_fields(tree: &mut Tree, actual: &ActualGvk) {
    let map = tree.map_or_default();
    if text(map, "apiVersion") == Ok("") {
        map.insert("apiVersion", actual.api_version());
    }
    if text(map, "kind") == Ok("") {
        map.insert("kind", CompactString::clone(&actual.kind));
    }
}
