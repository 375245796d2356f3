//! Apply: an object is what its managers say, each of them of its own fields.

use setpoint_api::call::Body;
use setpoint_api::field::Errors;
use setpoint_api::options::{FieldValidation, WriteOptions};
use setpoint_api::{Gvk, Payload, Response, Status};
use setpoint_codec::yaml::{self, Parsed};
use setpoint_kinds::{Part, meta};
use setpoint_schema::{Tree, apply};

use super::create::create_object;
use super::patch::require_version;
use super::update::{Attempt, revise_until_written};
use crate::call::Call;
use crate::{error, managers};

/// Makes the fields of a document those of the caller; creates the object if it is not there.
pub(crate) async fn apply(
    call: &Call<'_>,
    part: Option<Part>,
    payload: &Payload,
    options: &WriteOptions,
) -> Result<Response, Status> {
    require_manager(options)?;
    let (applied, said) = read(payload)?;
    require_kind(call, &applied)?;
    let key = call.key()?;
    if call.find(&key)?.is_none() && part.is_none() {
        return create(call, &applied, &said, options).await;
    }
    let (object, warnings) = revise_until_written(call, part, options, |old, _| {
        let live = call.presented(old)?;
        let object = merged(call, Some(&live), &applied, options)?;
        let said = judged(&said, options.field_validation)?;
        require_version(call, &object, old)?;
        Ok(Attempt {
            object,
            version: None,
            warnings: said.to_vec(),
        })
    })
    .await?;
    Ok(Response {
        warnings,
        ..Response::of(Body::Object(object))
    })
}

async fn create(
    call: &Call<'_>,
    applied: &Tree,
    said: &[String],
    options: &WriteOptions,
) -> Result<Response, Status> {
    if !meta::str(applied, "uid").is_empty() {
        return Err(uid_given(call, applied));
    }
    let (response, said) = create_object(call, options, || {
        let object = merged(call, None, applied, options)?;
        Ok((object, judged(said, options.field_validation)?))
    })
    .await?;
    Ok(Response {
        warnings: [said, &response.warnings].concat(),
        ..response
    })
}

/// The object that the document makes of the live one, taken in.
fn merged(
    call: &Call<'_>,
    live: Option<&Tree>,
    applied: &Tree,
    options: &WriteOptions,
) -> Result<Tree, Status> {
    let tree = managers::apply(call, live, applied, options)?;
    let mut object = taken_in(call, tree)?;
    if live.is_none() {
        meta::clear(&mut object, "resourceVersion");
    }
    if live.is_none() && meta::name(&object).is_empty() {
        let name = call.target.name.as_deref().unwrap_or_default();
        meta::set(&mut object, "name", name);
    }
    call.settle_name(&object)?;
    call.settle_namespace(&mut object)?;
    Ok(object)
}

/// What apply makes fits its shape. Of a kind that a definition made a null in it is meant, and judged by the schema.
fn taken_in(call: &Call<'_>, mut tree: Tree) -> Result<Tree, Status> {
    let described = apply::describe(&tree);
    let unfit = |cause: &str| unconverted(&described, cause);
    if !call.about().defined {
        let conformed = call.kind.conform(tree, FieldValidation::Ignore);
        tree = conformed.map_err(|error| unfit(&error.cause()))?.tree;
    }
    let taken = call.kind.take_in_applied(&mut tree);
    taken.map_err(|problem| unfit(&problem.to_string()))?;
    Ok(tree)
}

/// A value of a type that its field cannot hold, although it fits the shape: half a replica, or bytes that are none.
fn unconverted(described: &str, cause: &str) -> Status {
    let kind = described.split_once("; ").map_or(described, |(_, kind)| kind);
    let number = cause.contains("cannot unmarshal number");
    let cause = match cause.rsplit_once(" of type ") {
        Some((_, wanted)) if number => format!("cannot convert float64 to {wanted}"),
        _ => format!("error decoding from json: {cause}"),
    };
    error::plain(
        500,
        format!(
            "failed to convert new object ({described}) to proper version: unable to convert unstructured object to {kind}: {cause}"
        ),
    )
}

/// The document that is applied, and the keys that it has twice.
pub(crate) fn read(payload: &Payload) -> Result<(Tree, Vec<String>), Status> {
    let Parsed { tree, duplicates } = yaml::read(&payload.bytes)
        .map_err(|error| Status::bad_request(format!("error encoding patch: {error}")))?;
    if tree.as_map().is_none() && !tree.is_null() {
        return Err(Status::bad_request(format!(
            "error decoding patch: error unmarshaling JSON: while decoding JSON: json: cannot unmarshal {} into Go value of type map[string]interface {{}}",
            tree.type_name()
        )));
    }
    Ok((tree, duplicates))
}

/// What there is to say about keys that are given twice. It is said last: a document that does not fit is refused first.
pub(crate) fn judged(duplicates: &[String], validation: FieldValidation) -> Result<&[String], Status> {
    match validation {
        FieldValidation::Ignore => Ok(&[]),
        FieldValidation::Strict if !duplicates.is_empty() => Err(Status::bad_request(format!(
            "error strict decoding patch: error converting YAML to JSON: yaml: unmarshal errors:\n  {}",
            duplicates.join("\n  ")
        ))),
        FieldValidation::Strict | FieldValidation::Warn => Ok(duplicates),
    }
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
    errors.at("fieldManager").required("is required for apply patch");
    let subject = Gvk::new("meta.k8s.io", "v1", "PatchOptions");
    Err(Status::invalid(&subject, "", &errors.into_vec()))
}

fn require_kind(call: &Call<'_>, applied: &Tree) -> Result<(), Status> {
    let gvk = &call.about().gvk;
    let wanted = (gvk.api_version(), gvk.kind.as_str());
    require_type(applied, (&wanted.0, wanted.1))
}

/// The document must say what it is.
pub(crate) fn require_type(applied: &Tree, wanted: (&str, &str)) -> Result<(), Status> {
    let text = |field: &str| applied.str_at(&[field]).unwrap_or_default();
    let (version, kind) = (text("apiVersion"), text("kind"));
    if (version, kind) == wanted {
        return Ok(());
    }
    let slash = if version.contains('/') { "" } else { "/" };
    Err(Status::bad_request(format!(
        "invalid object type: {slash}{version}, Kind={kind}"
    )))
}

fn uid_given(call: &Call<'_>, applied: &Tree) -> Status {
    let name = call.target.name.as_deref().unwrap_or_default();
    let why = format!(
        "uid mismatch: the provided object specified uid {}, and no existing object was found",
        meta::str(applied, "uid")
    );
    Status::conflict(&call.name, name, &why)
}
