//! Patch: changes an object by a JSON patch, a merge patch, a strategic merge patch or an applied configuration.
//!
//! A patch is applied to the newest object, and again after a conflict. It is rejected with a conflict only if it sets
//! the resource version itself.

use std::sync::Arc;

use setpoint_api::call::Body;
use setpoint_api::field::{DisplayJson, ErrorType, FieldError};
use setpoint_api::options::{FieldValidation, PatchType, WriteOptions};
use setpoint_api::{Gvk, Payload, Response, Status, Stored};
use setpoint_codec::json;
use setpoint_schema::patch::{self, Error};
use setpoint_schema::{Map, Tree, fields};
use setpoint_strategy::SubresourceKind;

use super::guaranteed_update::{UpdatedObject, guaranteed_update};
use crate::owner_references::{self, Phase};
use crate::request_context::RequestContext;
use crate::{error, field_managers};

/// The patch types of custom kinds, which have no strategic merge.
const CUSTOM_PATCH_TYPES: &str =
    "application/json-patch+json, application/merge-patch+json, application/apply-patch+yaml";

/// The prefix of the errors of strict decoding.
const STRICT_PREFIX: &str = "strict decoding error: ";

/// The new object of a patch: the stored one with the patch applied.
#[derive(Debug)]
struct PatchedObject<'a> {
    patch_type: PatchType,
    patch: Tree,
    problems: PatchProblems,
    options: &'a WriteOptions,
}

/// Problems of a patch itself, such as duplicate fields: warnings, or errors under strict validation.
#[derive(Debug)]
pub(crate) struct PatchProblems {
    texts: Vec<String>,
    is_strict: bool,
}

/// Patches an object, or the fields of it that the subresource covers.
pub(crate) async fn patch(
    context: &RequestContext<'_>,
    subresource: Option<SubresourceKind>,
    patch_type: PatchType,
    payload: Payload,
    options: WriteOptions,
) -> Result<Response, Status> {
    let options = &options;
    require_patch_type(context, patch_type)?;
    if patch_type == PatchType::Apply {
        return super::apply::apply(context, subresource, &payload, options).await;
    }
    let patch = json::parse(&payload.bytes).map_err(|_| Status::bad_request("invalid JSON patch"))?;
    let problems = PatchProblems::of(patch_type, &patch, options.field_validation);
    let patched = PatchedObject {
        patch_type,
        patch,
        problems,
        options,
    };
    let object = guaranteed_update(context, subresource, options, &patched).await?;
    Ok(Response::new(Body::Object(object)))
}

impl UpdatedObject for PatchedObject<'_> {
    fn compute(
        &self,
        context: &RequestContext<'_>,
        old: &Arc<Stored>,
        old_tree: &Tree,
    ) -> Result<Tree, Status> {
        let patched = self.apply(context, old)?;
        let (mut object, dropped) = match self.patch_type {
            PatchType::StrategicMerge => self.conform_strategic(context, patched, old)?,
            _ => self.conform(context, patched, old)?,
        };
        let duplicate_owners = owner_references::dedup(&mut object, Phase::Mutated);
        let warnings = self.problems.warnings().chain(dropped);
        context.set_warnings(warnings.chain(duplicate_owners).collect());
        context.check_name(&object)?;
        context.default_namespace(&mut object)?;
        require_version(context, &object, old)?;
        super::update::require_some_version(context, &object, old)?;
        field_managers::update(context, Some(old_tree), &mut object, self.options);
        Ok(object)
    }
}

impl PatchedObject<'_> {
    /// The tree of the object with the patch applied.
    fn apply(&self, context: &RequestContext<'_>, old: &Arc<Stored>) -> Result<Tree, Status> {
        let shape = context.kind.shape();
        let mut tree = context.to_request_version(old)?;
        let applied = match self.patch_type {
            PatchType::Json => patch::apply_json(&mut tree, &self.patch),
            PatchType::Merge => patch::apply_merge(&mut tree, &self.patch),
            PatchType::StrategicMerge | PatchType::Apply => {
                patch::apply_strategic(&mut tree, &self.patch, shape)
            }
        };
        match applied {
            Ok(()) => Ok(tree),
            Err(Error::TypeMismatch(why)) => Err(invalid_patch(&self.quoted_strategic(context, old)?, &why)),
            Err(failed) => Err(patch_error(failed)),
        }
    }

    /// The text of a strategic merge patch after it was merged into this object.
    fn quoted_strategic(&self, context: &RequestContext<'_>, old: &Arc<Stored>) -> Result<String, Status> {
        let original = context.to_request_version(old)?;
        Ok(patch::quoted_strategic(
            &original,
            &self.patch,
            context.kind.shape(),
        ))
    }

    /// Conforms the patched object to its shape and sets its defaults. Returns warnings of dropped fields. An error shows
    /// the patched object, for which the patch is applied once more.
    fn conform(
        &self,
        context: &RequestContext<'_>,
        patched: Tree,
        old: &Arc<Stored>,
    ) -> Result<(Tree, Vec<String>), Status> {
        let why = match self.problems.strict_error() {
            Some(why) => why,
            None if is_unversioned(context, &patched) => self.reject_unversioned(context, &patched)?,
            None => match conform_and_prepare(context, patched, self.options.field_validation) {
                Ok(conformed) => return Ok(conformed),
                Err(why) => why,
            },
        };
        Err(invalid_patch(&patched_text(self.apply(context, old)?), &why))
    }

    /// Rejects an object without a version: upstream decodes it to a type without any of its fields, and so without a
    /// name. Returns the error of strict decoding.
    fn reject_unversioned(&self, context: &RequestContext<'_>, patched: &Tree) -> Result<String, Status> {
        let names = patched.as_map().into_iter().flat_map(Map::keys);
        let unknown: Vec<String> = names
            .filter(|name| *name != fields::KIND && *name != fields::API_VERSION)
            .map(|name| format!("unknown field {name:?}"))
            .collect();
        match self.options.field_validation {
            FieldValidation::Strict => return Ok(format!("{STRICT_PREFIX}{}", unknown.join(", "))),
            FieldValidation::Warn => context.set_warnings(self.problems.warnings().chain(unknown).collect()),
            FieldValidation::Ignore => {}
        }
        context.check_name(&Tree::Map(Map::default()))?;
        Ok("name must be provided".to_owned())
    }

    /// The same after a strategic merge. Its errors are joined with those of the patch, and show the patch.
    fn conform_strategic(
        &self,
        context: &RequestContext<'_>,
        mut patched: Tree,
        old: &Arc<Stored>,
    ) -> Result<(Tree, Vec<String>), Status> {
        // The object is converted to the type of the stored one, whatever kind the patch sets.
        let gvk = &context.kind_info().gvk;
        patched.set(&[fields::KIND], gvk.kind.as_str());
        patched.set(&[fields::API_VERSION], gvk.api_version());
        let conformed = conform_and_prepare(context, patched, self.options.field_validation);
        let why = match (conformed, self.problems.strict_error()) {
            (Ok((tree, mut warnings)), None) => {
                warnings.sort_unstable();
                return Ok((tree, warnings));
            }
            (Err(why), None) => with_sorted_fields(why),
            (Ok(_), Some(problems)) => problems,
            (Err(why), Some(problems)) => match with_sorted_fields(why).strip_prefix(STRICT_PREFIX) {
                Some(more) => format!("{problems}, {more}"),
                None => problems,
            },
        };
        Err(invalid_patch(&self.quoted_strategic(context, old)?, &why))
    }
}

impl PatchProblems {
    pub(crate) fn of(patch_type: PatchType, patch: &Tree, validation: FieldValidation) -> Self {
        let texts = match (validation, patch_type) {
            (FieldValidation::Ignore, _) => Vec::new(),
            (_, PatchType::Json) => patch::json_strict_errors(patch),
            _ => patch::merge_strict_errors(patch),
        };
        let is_strict = validation == FieldValidation::Strict;
        Self { texts, is_strict }
    }

    /// The problems as warnings.
    pub(crate) fn warnings(&self) -> impl Iterator<Item = String> + '_ {
        self.texts.iter().cloned()
    }

    /// The problems as an error, under strict validation.
    pub(crate) fn strict_error(&self) -> Option<String> {
        let is_error = self.is_strict && !self.texts.is_empty();
        is_error.then(|| format!("{STRICT_PREFIX}{}", self.texts.join(", ")))
    }
}

/// Whether a patched object of a built-in kind has no version.
fn is_unversioned(context: &RequestContext<'_>, patched: &Tree) -> bool {
    let version = patched.get(fields::API_VERSION);
    !context.kind_info().is_custom && version.is_none_or(|version| version.as_str() == Some(""))
}

/// An error of strict decoding with its unknown fields sorted, as a strategic merge reports them; any other unchanged.
fn with_sorted_fields(why: String) -> String {
    let Some(list) = why.strip_prefix(STRICT_PREFIX) else {
        return why;
    };
    let mut fields: Vec<&str> = list.split(", ").collect();
    fields.sort_unstable();
    format!("{STRICT_PREFIX}{}", fields.join(", "))
}

/// Rejects a patch type that the kind does not have.
pub(crate) fn require_patch_type(context: &RequestContext<'_>, patch_type: PatchType) -> Result<(), Status> {
    match patch_type == PatchType::StrategicMerge && context.kind_info().is_custom {
        true => Err(Status::unsupported_media_type(CUSTOM_PATCH_TYPES)),
        false => Ok(()),
    }
}

fn conform_and_prepare(
    context: &RequestContext<'_>,
    tree: Tree,
    validation: FieldValidation,
) -> Result<(Tree, Vec<String>), String> {
    let decoded = context
        .kind
        .conform(tree, validation)
        .map_err(|error| error.cause())?;
    let mut object = decoded.tree;
    context
        .prepare_input(&mut object)
        .map_err(|problem| problem.to_string())?;
    Ok((object, decoded.warnings))
}

/// A patched object in messages, with its fields sorted.
pub(crate) fn patched_text(mut patched: Tree) -> String {
    patched
        .map_or_default()
        .pairs_mut()
        .sort_by(|(left, _), (right, _)| left.cmp(right));
    String::from_utf8_lossy(&json::write(&patched)).into_owned()
}

/// The status for a patch that cannot be applied.
pub(crate) fn patch_error(failed: Error) -> Status {
    match failed {
        Error::Malformed(why) => Status::bad_request(why),
        Error::TooManyOperations { .. } => Status {
            reason: "RequestEntityTooLarge".to_owned(),
            ..error::plain(413, format!("Request entity too large: {failed}"))
        },
        Error::Inapplicable(_) | Error::TestFailed(_) => Status {
            reason: "Invalid".to_owned(),
            details: Some(setpoint_api::status::Details::default()),
            ..error::plain(
                422,
                "the server rejected our request due to an error in our request",
            )
        },
        Error::Unmergeable(why) => error::plain(500, why),
        Error::TypeMismatch(why) => invalid_patch("", &why),
    }
}

/// The patched object does not fit its kind; the status shows it as the value of a field `patch`.
pub(crate) fn invalid_patch(patched: &str, why: &str) -> Status {
    let error = FieldError {
        path: "patch".to_owned(),
        error_type: ErrorType::Invalid,
        message: format!("Invalid value: {}: {why}", patched.display_json()),
    };
    Status::invalid(&Gvk::new("", "", ""), "", &[error])
}

/// The patched object has the version of the stored one, unless the patch sets another.
pub(crate) fn require_version(
    context: &RequestContext<'_>,
    object: &Tree,
    old: &Stored,
) -> Result<(), Status> {
    let version = super::update::requested_version(object)?;
    match version {
        Some(version) if version != old.resource_version() => {
            Err(Status::modified(&context.name, old.key().name()))
        }
        _ => Ok(()),
    }
}
