//! Patch: a change to an object, told as the difference.
//!
//! A patch is applied to the newest object, and again whenever someone else was faster. It only conflicts if it names
//! a version itself.

use std::sync::Arc;

use setpoint_api::call::Body;
use setpoint_api::field::{Cause, FieldError, Shown};
use setpoint_api::options::{FieldValidation, PatchType, WriteOptions};
use setpoint_api::{Gvk, Payload, Response, Status, Stored};
use setpoint_codec::json;
use setpoint_kinds::Part;
use setpoint_schema::Tree;
use setpoint_schema::patch::{self, Error};

use super::update::{Attempt, revise_until_written};
use crate::call::Call;
use crate::owners::{self, Moment};
use crate::{error, managers};

/// The patches of kinds whose shape says nothing of strategic merge.
const OF_DEFINED: &str =
    "application/json-patch+json, application/merge-patch+json, application/apply-patch+yaml";

/// How the list of what a strict reader refuses begins.
const STRICT: &str = "strict decoding error: ";

/// Changes an object, or the part of it that the subresource is about.
pub(crate) async fn patch(
    call: &Call<'_>,
    part: Option<Part>,
    form: PatchType,
    payload: &Payload,
    options: &WriteOptions,
) -> Result<Response, Status> {
    if form == PatchType::StrategicMerge && call.about().defined {
        return Err(Status::unsupported_media_type(OF_DEFINED));
    }
    if form == PatchType::Apply {
        return super::apply::apply(call, part, payload, options).await;
    }
    let patch = json::parse(&payload.bytes).map_err(|_| Status::bad_request("invalid JSON patch"))?;
    let said = problems(form, &patch, options.field_validation);
    let (object, warnings) = revise_until_written(call, part, options, |old, before| {
        let tree = applied(call, form, &patch, old)?;
        let (mut object, mut dropped) = match form {
            PatchType::StrategicMerge => merged(call, tree, &patch, &said, options.field_validation)?,
            _ => {
                refuse_problems(&tree, &said, options.field_validation)?;
                conformed(call, tree, options.field_validation)?
            }
        };
        dropped.extend(owners::dedup(&mut object, Moment::Admitted));
        call.say(&[said.as_slice(), &dropped].concat());
        call.settle_name(&object)?;
        call.settle_namespace(&mut object)?;
        require_version(call, &object, old)?;
        managers::update(call, Some(before), &mut object, options);
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

/// The object's document with the patch applied.
fn applied(call: &Call<'_>, form: PatchType, patch: &Tree, old: &Arc<Stored>) -> Result<Tree, Status> {
    let shape = call.kind.shape();
    let mut tree = call.presented(old)?;
    let applied = match form {
        PatchType::Json => patch::apply_json(&mut tree, patch),
        PatchType::Merge => patch::apply_merge(&mut tree, patch),
        PatchType::StrategicMerge | PatchType::Apply => patch::apply_strategic(&mut tree, patch, shape),
    };
    applied.map_err(refused)?;
    Ok(tree)
}

/// The document held to its shape again, and what was dropped of it.
pub(super) fn conformed(
    call: &Call<'_>,
    tree: Tree,
    validation: FieldValidation,
) -> Result<(Tree, Vec<String>), Status> {
    let shown = shown(&tree);
    held(call, tree, validation).map_err(|why| unfit(&shown, &why))
}

/// The same after a strategic merge, whose mistakes are told with those of the patch, and shown as the patch.
fn merged(
    call: &Call<'_>,
    tree: Tree,
    patch: &Tree,
    said: &[String],
    validation: FieldValidation,
) -> Result<(Tree, Vec<String>), Status> {
    let strict = validation == FieldValidation::Strict && !said.is_empty();
    let why = match (held(call, tree, validation), strict) {
        (Ok(held), false) => return Ok(held),
        (Err(why), false) => why,
        (Ok(_), true) => format!("{STRICT}{}", said.join(", ")),
        (Err(why), true) => match why.strip_prefix(STRICT) {
            Some(more) => format!("{STRICT}{}, {more}", said.join(", ")),
            None => why,
        },
    };
    Err(unfit(&patch::go_text(patch), &why))
}

fn held(call: &Call<'_>, tree: Tree, validation: FieldValidation) -> Result<(Tree, Vec<String>), String> {
    let decoded = call
        .kind
        .conform(tree, validation)
        .map_err(|error| error.cause())?;
    let mut object = decoded.tree;
    call.take_in(&mut object).map_err(|problem| problem.to_string())?;
    Ok((object, decoded.warnings))
}

/// What is wrong with the patch by itself.
fn problems(form: PatchType, patch: &Tree, validation: FieldValidation) -> Vec<String> {
    match (validation, form) {
        (FieldValidation::Ignore, _) => Vec::new(),
        (_, PatchType::Json) => patch::json_problems(patch),
        _ => patch::merge_problems(patch),
    }
}

/// Under strict validation what is wrong with a patch is said of the document it makes.
fn refuse_problems(patched: &Tree, said: &[String], validation: FieldValidation) -> Result<(), Status> {
    if validation != FieldValidation::Strict || said.is_empty() {
        return Ok(());
    }
    let why = format!("{STRICT}{}", said.join(", "));
    Err(unfit(&shown(patched), &why))
}

/// A patched document in messages: its parts are sorted, whatever order the patch left.
fn shown(patched: &Tree) -> String {
    let mut patched = patched.clone();
    patched
        .map_or_default()
        .pairs_mut()
        .sort_by(|(left, _), (right, _)| left.cmp(right));
    String::from_utf8_lossy(&json::write(&patched)).into_owned()
}

/// What the caller is told of a patch that cannot be applied.
pub(crate) fn refused(failed: Error) -> Status {
    match failed {
        Error::Malformed(why) => Status::bad_request(why),
        Error::TooManyOperations { .. } => Status {
            reason: "RequestEntityTooLarge".to_owned(),
            ..error::plain(413, format!("Request entity too large: {failed}"))
        },
        Error::Inapplicable(_) => Status {
            reason: "Invalid".to_owned(),
            details: Some(setpoint_api::status::Details::default()),
            ..error::plain(
                422,
                "the server rejected our request due to an error in our request",
            )
        },
        Error::Unmergeable(why) => error::plain(500, why),
        Error::Mistyped { patch, why } => unfit(&patch, &why),
    }
}

/// The patched document is no object of its kind; the answer shows it as the value of a field called `patch`.
fn unfit(shown: &str, why: &str) -> Status {
    let error = FieldError {
        path: "patch".to_owned(),
        cause: Cause::Invalid,
        message: format!("Invalid value: {}: {why}", shown.shown()),
    };
    Status::invalid(&Gvk::new("", "", ""), "", &[error])
}

/// The document has the version it was read at, unless the patch says otherwise.
pub(crate) fn require_version(call: &Call<'_>, object: &Tree, old: &Stored) -> Result<(), Status> {
    let version = super::update::asked_version(object)?;
    match version {
        Some(version) if version != old.resource_version() => {
            Err(Status::modified(&call.name, old.key().name()))
        }
        _ => Ok(()),
    }
}
