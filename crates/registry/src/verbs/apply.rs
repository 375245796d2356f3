//! Server-side apply: merges an applied configuration into the object, which records the owned fields of each manager.

use std::sync::Arc;

use setpoint_api::call::Body;
use setpoint_api::field::Errors;
use setpoint_api::options::{FieldValidation, WriteOptions};
use setpoint_api::{Gvk, Payload, Response, Status, Stored};
use setpoint_codec::yaml::{self, ParsedYaml};
use setpoint_schema::{Tree, apply, fields, patch};
use setpoint_strategy::{SubresourceKind, meta};

use super::create::{NewObject, create_object};
use super::guaranteed_update::{UpdatedObject, guaranteed_update};
use super::patch::require_version;
use crate::object_size::SizePolicy;
use crate::request_context::RequestContext;
use crate::{error, field_managers};

/// The body of an apply.
#[derive(Debug)]
pub(crate) struct AppliedConfiguration {
    pub(crate) tree: Tree,
    /// One message per duplicate key.
    duplicates: Vec<String>,
}

/// The new object of an apply: the stored one merged with the configuration.
#[derive(Debug)]
struct MergedObject<'a> {
    applied: &'a AppliedConfiguration,
    options: &'a WriteOptions,
}

/// Applies the configuration in the body; creates the object if it does not exist.
pub(crate) async fn apply(
    context: &RequestContext<'_>,
    subresource: Option<SubresourceKind>,
    payload: &Payload,
    options: &WriteOptions,
) -> Result<Response, Status> {
    require_manager(options)?;
    let applied = AppliedConfiguration::parse(payload)?;
    let gvk = &context.kind_info().gvk;
    applied.require_type(&gvk.api_version(), &gvk.kind)?;
    let key = context.key()?;
    let response = if subresource.is_none() && context.find(&key)?.is_none() {
        create_object(context, NewObject::Apply(&applied), options).await?
    } else {
        let applied = &applied;
        let merged = MergedObject { applied, options };
        let object = guaranteed_update(context, subresource, options, &merged).await?;
        Response::new(Body::Object(object))
    };
    context.set_warnings(applied.warnings(options.field_validation));
    Ok(response)
}

impl UpdatedObject for MergedObject<'_> {
    fn compute(
        &self,
        context: &RequestContext<'_>,
        old: &Arc<Stored>,
        _old_tree: &Tree,
    ) -> Result<Tree, Status> {
        let live = context.to_request_version(old)?;
        let object = self.applied.merge(context, Some(&live), self.options)?;
        self.applied.check_duplicates(self.options.field_validation)?;
        require_version(context, &object, old)?;
        Ok(object)
    }

    fn size_policy(&self) -> SizePolicy {
        SizePolicy::Reject
    }
}

impl AppliedConfiguration {
    pub(crate) fn parse(payload: &Payload) -> Result<Self, Status> {
        let ParsedYaml { tree, duplicates } = yaml::parse_with_duplicates(&payload.bytes)
            .map_err(|error| Status::bad_request(format!("error encoding patch: {error}")))?;
        if tree.as_map().is_none() && !tree.is_null() {
            return Err(Status::bad_request(format!(
                "error decoding patch: error unmarshaling JSON: while decoding JSON: json: cannot unmarshal {} into Go value of type map[string]interface {{}}",
                tree.type_name()
            )));
        }
        Ok(Self { tree, duplicates })
    }

    /// The configuration must have the kind of the URL.
    pub(crate) fn require_type(&self, api_version: &str, kind: &str) -> Result<(), Status> {
        let text = |field: &str| self.tree.str_at(&[field]).unwrap_or_default();
        let own = (text("apiVersion"), text("kind"));
        if own == (api_version, kind) {
            return Ok(());
        }
        let (version, kind) = own;
        let slash = if version.contains('/') { "" } else { "/" };
        Err(Status::bad_request(format!(
            "invalid object type: {slash}{version}, Kind={kind}"
        )))
    }

    /// Merges the configuration into the live object, and sets its defaults.
    pub(super) fn merge(
        &self,
        context: &RequestContext<'_>,
        live: Option<&Tree>,
        options: &WriteOptions,
    ) -> Result<Tree, Status> {
        let tree = field_managers::apply(context, live, &self.tree, options)?;
        let mut object = prepare_merged(context, tree, &apply::describe(&self.tree))?;
        context.check_name(&object)?;
        if live.is_none() {
            meta::clear(&mut object, "resourceVersion");
            require_no_uid(context, &object)?;
        }
        context.default_namespace(&mut object)?;
        Ok(object)
    }

    /// Rejects duplicate keys under strict validation. Checked after the merge: an object that does not fit its kind is
    /// rejected first.
    pub(crate) fn check_duplicates(&self, validation: FieldValidation) -> Result<(), Status> {
        if validation != FieldValidation::Strict || self.duplicates.is_empty() {
            return Ok(());
        }
        Err(Status::bad_request(format!(
            "error strict decoding patch: error converting YAML to JSON: yaml: unmarshal errors:\n  {}",
            self.duplicates.join("\n  ")
        )))
    }

    /// Warnings for duplicate keys.
    pub(crate) fn warnings(&self, validation: FieldValidation) -> Vec<String> {
        match validation {
            FieldValidation::Ignore => Vec::new(),
            FieldValidation::Strict | FieldValidation::Warn => self.duplicates.clone(),
        }
    }
}

/// Conforms the merged object to its shape and sets its defaults. An error describes the configuration. In a custom kind a null is a value, which the schema
/// validates.
fn prepare_merged(context: &RequestContext<'_>, mut tree: Tree, described: &str) -> Result<Tree, Status> {
    let unfit = |cause: &str| conversion_error(described, cause);
    if !context.kind_info().is_custom {
        patch::convert_numbers(context.kind.shape(), &mut tree);
        let conformed = context.kind.conform(tree, FieldValidation::Ignore);
        tree = conformed.map_err(|error| unfit(&error.cause()))?.tree;
    }
    let taken = context.kind.prepare_applied(&mut tree);
    taken.map_err(|problem| unfit(&problem.to_string()))?;
    context.kind.default_for_request(&mut tree, &context.facts);
    Ok(tree)
}

/// A value that fits the shape but not the type of its field: a fraction in an integer, or invalid base64.
fn conversion_error(described: &str, cause: &str) -> Status {
    let kind = described.split_once("; ").map_or(described, |(_, kind)| kind);
    let cause = schema_error(cause).unwrap_or_else(|| converter_error(cause));
    error::plain(
        500,
        format!(
            "failed to convert new object ({described}) to proper version: unable to convert unstructured object to {kind}: {cause}"
        ),
    )
}

/// The error of the converter from JSON trees, which words the errors of its decoder in its own way.
fn converter_error(cause: &str) -> String {
    let number = cause.contains("cannot unmarshal number");
    match cause.rsplit_once(" of type ") {
        Some((_, expected)) if number && expected.starts_with("int") && !expected.contains('.') => {
            format!("cannot convert float64 to {expected}")
        }
        Some((found, expected)) => {
            // Such a field has a decoder of its own, which does not know the field.
            let found = found.split(" into Go struct field ").next().unwrap_or_default();
            let expected = match expected {
                "v1.Time" | "v1.MicroTime" => "string",
                "intstr.IntOrString" => "int32",
                expected => expected,
            };
            format!("{found} into Go value of type {expected}")
        }
        _ if cause.contains("base64") => format!("error decoding from json: {cause}"),
        _ => cause.to_owned(),
    }
}

/// The error of a value inside a type of CRDs with its own `UnmarshalJSON`, such as `items`: its path begins there.
fn schema_error(cause: &str) -> Option<String> {
    const OWN: [&str; 4] = ["items", "additionalProperties", "dependencies", "additionalItems"];
    if cause == "boolean or JSON schema expected" {
        return Some(cause.to_owned());
    }
    let (before, path) = cause.split_once(" JSONSchemaProps.")?;
    let (path, expected) = path.split_once(" of type ")?;
    let names: Vec<&str> = path.split('.').collect();
    let first = names.iter().position(|name| OWN.contains(name))?;
    let inside = names[first + 1..].join(".");
    Some(format!("{before} JSONSchemaProps.{inside} of type {expected}"))
}

pub(crate) fn require_manager(options: &WriteOptions) -> Result<(), Status> {
    if options
        .field_manager
        .as_deref()
        .is_some_and(|name| !name.is_empty())
    {
        return Ok(());
    }
    let errors = Errors::default();
    errors
        .at(fields::FIELD_MANAGER)
        .required("is required for apply patch");
    let subject = Gvk::new("meta.k8s.io", "v1", "PatchOptions");
    Err(Status::invalid(&subject, "", &errors.into_vec()))
}

/// A configuration with a UID applies to an existing object only.
fn require_no_uid(context: &RequestContext<'_>, applied: &Tree) -> Result<(), Status> {
    let uid = meta::str(applied, "uid");
    if uid.is_empty() {
        return Ok(());
    }
    let name = context.target.name.as_deref().unwrap_or_default();
    let why =
        format!("uid mismatch: the provided object specified uid {uid}, and no existing object was found");
    Err(Status::conflict(&context.name, name, &why))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(cause: &str, expected: &str) {
        let message = conversion_error("/a; v1, Kind=A", cause).message;
        assert_eq!(
            message.rsplit_once("Kind=A: ").map(|(_, end)| end),
            Some(expected)
        );
    }

    #[test]
    fn a_field_with_a_decoder_of_its_own_has_that_decoders_error() {
        let found = "json: cannot unmarshal number into Go struct field A.spec.n of type";
        check(&format!("{found} int32"), "cannot convert float64 to int32");
        check(
            &format!("{found} v1.MicroTime"),
            "json: cannot unmarshal number into Go value of type string",
        );
        check("parsing time \"x\"", "parsing time \"x\"");
        check(
            "illegal base64 data at input byte 0",
            "error decoding from json: illegal base64 data at input byte 0",
        );
    }
}
