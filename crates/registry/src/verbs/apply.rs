//! Apply: an object is what its managers say, each of them of its own fields.

use setpoint_api::call::Body;
use setpoint_api::field::Errors;
use setpoint_api::options::WriteOptions;
use setpoint_api::{Gvk, Payload, Response, Status};
use setpoint_kinds::{Part, meta};
use setpoint_schema::Tree;

use super::create::create_object;
use super::patch::{conformed, require_version};
use super::update::{Attempt, revise_until_written};
use crate::call::Call;
use crate::managers;

/// Makes the fields of a document those of the caller; creates the object if it is not there.
pub(crate) async fn apply(
    call: &Call<'_>,
    part: Option<Part>,
    payload: &Payload,
    options: &WriteOptions,
) -> Result<Response, Status> {
    require_manager(options)?;
    let (applied, said) = read(call, payload, options)?;
    let key = call.key()?;
    if call.find(&key)?.is_none() && part.is_none() {
        return create(call, &applied, &said, options).await;
    }
    let (object, warnings) = revise_until_written(call, part, options, |old, _| {
        let live = call.presented(old)?;
        let (object, dropped) = merged(call, Some(&live), &applied, options)?;
        require_version(call, &object, old)?;
        Ok(Attempt {
            object,
            version: None,
            warnings: [said.as_slice(), &dropped].concat(),
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
    let (response, dropped) = create_object(call, options, || merged(call, None, applied, options)).await?;
    Ok(Response {
        warnings: [said, &dropped, &response.warnings].concat(),
        ..response
    })
}

/// The object that the document makes of the live one, taken in.
fn merged(
    call: &Call<'_>,
    live: Option<&Tree>,
    applied: &Tree,
    options: &WriteOptions,
) -> Result<(Tree, Vec<String>), Status> {
    let tree = managers::apply(call, live, applied, options)?;
    let (mut object, dropped) = conformed(call, tree, options.field_validation)?;
    if live.is_none() && meta::name(&object).is_empty() {
        let name = call.target.name.as_deref().unwrap_or_default();
        meta::set(&mut object, "name", name);
    }
    call.settle_name(&object)?;
    call.settle_namespace(&mut object)?;
    Ok((object, dropped))
}

/// The document that is applied: read strictly or not, but left as it is.
fn read(call: &Call<'_>, payload: &Payload, options: &WriteOptions) -> Result<(Tree, Vec<String>), Status> {
    let applied = setpoint_codec::yaml::parse(&payload.bytes)
        .map_err(|error| Status::bad_request(format!("error encoding patch: {error}")))?;
    if applied.as_map().is_none() && !applied.is_null() {
        return Err(Status::bad_request(format!(
            "error decoding patch: error unmarshaling JSON: while decoding JSON: json: cannot unmarshal {} into Go value of type map[string]interface {{}}",
            applied.type_name()
        )));
    }
    let conformed = call.kind.conform(applied.clone(), options.field_validation);
    let warnings = match conformed {
        Ok(decoded) => decoded.warnings,
        // A document that does not fit is refused when it is applied, in other words.
        Err(_) => Vec::new(),
    };
    require_kind(call, &applied)?;
    Ok((applied, warnings))
}

fn require_manager(options: &WriteOptions) -> Result<(), Status> {
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
    let version = applied.str_at(&["apiVersion"]).unwrap_or_default();
    let kind = applied.str_at(&["kind"]).unwrap_or_default();
    if version == gvk.api_version() && kind == gvk.kind {
        return Ok(());
    }
    Err(Status::bad_request(format!(
        "invalid object type: /{version}, Kind={kind}"
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
