//! The `scale` subresource: the replicas of an object as `autoscaling/v1` Scale, the same for every kind.

use std::sync::Arc;

use bytes::Bytes;

use setpoint_api::call::Body;
use setpoint_api::field::Errors;
use setpoint_api::options::{FieldValidation, PatchType, WriteOptions};
use setpoint_api::{GroupResource, Gvk, Response, Status, Stored, Verb};
use setpoint_codec::{json, strict};
use setpoint_schema::apply::{SCALE_VERSION, ScaleHandler};
use setpoint_schema::{Pack, Shape, Tree, fields, patch};
use setpoint_strategy::label_selector;
use setpoint_strategy::{SubresourceKind, meta};

use crate::request_context::RequestContext;
use crate::verbs::{
    self, AppliedConfiguration, PatchProblems, UpdatedObject, guaranteed_update, require_version,
};
use crate::{error, field_managers};

/// Upstream's error for a Scale of a custom kind that cannot be decoded.
const UNREGISTERED_SCALE: &str = "no kind is registered for the type v1.Scale in scheme \
    \"k8s.io/apiextensions-apiserver/pkg/apiserver/customresource_handler.go:781\"";

/// The new object of a write to its Scale: the stored one with the replicas and managed fields of the desired Scale.
struct ScaledObject<'a> {
    input: ScaleInput,
    options: &'a WriteOptions,
}

/// The body of a write, from which the desired Scale is computed.
enum ScaleInput {
    Update(Tree),
    Patch(PatchType, Tree, PatchProblems),
    Apply(AppliedConfiguration),
}

/// Reads or writes the Scale of the object in the URL.
pub(crate) async fn scale(context: &RequestContext<'_>, verb: Verb) -> Result<Response, Status> {
    match verb {
        Verb::Get(_) => {
            let stored = context.require(&context.key()?)?;
            let object = context.in_request_version(&stored).await;
            let object = object.map_err(|error| error.into_read_error(context.kind_info(), &stored))?;
            response(context, &object)
        }
        Verb::Update(payload, options) => {
            let decoded = context.decode_as(&payload, shape(), options.field_validation);
            let mut desired = decoded.map_err(|status| decode_error(context, status))?;
            if desired.at(&[fields::SPEC, fields::REPLICAS]).is_none() {
                desired.set(&[fields::SPEC, fields::REPLICAS], 0);
            }
            write(context, ScaleInput::Update(desired), &options).await
        }
        Verb::Patch(PatchType::Apply, payload, options) => {
            verbs::require_manager(&options)?;
            let applied = AppliedConfiguration::parse(&payload)?;
            applied.require_type(SCALE_VERSION, "Scale")?;
            let warnings = applied.warnings(options.field_validation);
            let response = write(context, ScaleInput::Apply(applied), &options).await?;
            context.set_warnings(warnings);
            Ok(response)
        }
        Verb::Patch(patch_type, payload, options) => {
            verbs::require_patch_type(context, patch_type)?;
            let patch = json::parse(&payload.bytes).map_err(|_| Status::bad_request("invalid JSON patch"))?;
            let problems = PatchProblems::of(patch_type, &patch, options.field_validation);
            write(context, ScaleInput::Patch(patch_type, patch, problems), &options).await
        }
        _ => Err(Status::method_not_allowed()),
    }
}

/// The error of a Scale that cannot be decoded. For a custom kind upstream fails to describe it: the scheme of its handler
/// does not have the type.
fn decode_error(context: &RequestContext<'_>, status: Status) -> Status {
    const OTHER_ERRORS: [&str; 2] = ["strict decoding error", "the API version in the data"];
    let is_described = OTHER_ERRORS.iter().any(|other| status.message.starts_with(other));
    match context.kind_info().is_custom && status.code == 400 && !is_described {
        true => Status::bad_request(UNREGISTERED_SCALE),
        false => status,
    }
}

async fn write(
    context: &RequestContext<'_>,
    input: ScaleInput,
    options: &WriteOptions,
) -> Result<Response, Status> {
    let scaled = ScaledObject { input, options };
    let stored = guaranteed_update(context, Some(SubresourceKind::Scale), options, &scaled).await?;
    let object = context.in_request_version(&stored).await;
    let object = object.map_err(|error| error.into_update_error(stored.resource_version()))?;
    response(context, &object)
}

impl UpdatedObject for ScaledObject<'_> {
    /// The desired Scale, which admission sees instead of the object.
    fn compute(
        &self,
        context: &RequestContext<'_>,
        old: &Arc<Stored>,
        old_tree: &Tree,
    ) -> Result<Tree, Status> {
        let path = replicas_path(context)?;
        let mut scale = scale_of(context, old)?;
        let handler = ScaleHandler {
            api_version: &context.kind_info().gvk.api_version(),
            replicas_path: &path,
        };
        handler.to_subresource(old_tree, &mut scale);
        self.desired_scale(context, &scale)
    }

    fn old_body(&self, context: &RequestContext<'_>, old: &Arc<Stored>) -> Result<Option<Tree>, Status> {
        scale_of(context, old).map(Some)
    }

    fn finish(
        &self,
        context: &RequestContext<'_>,
        (old, old_tree): (&Arc<Stored>, &Tree),
        desired: Tree,
    ) -> Result<Tree, Status> {
        check(context, &desired)?;
        require_version(context, &desired, old)?;
        self.require_uid(context, &desired, old)?;
        let path = replicas_path(context)?;
        let mut object = old_tree.clone();
        let is_unset = old_tree.at(&path).is_none_or(Tree::is_null);
        object.set(&path, desired_replicas(context, &desired, &path, is_unset)?);
        let handler = ScaleHandler {
            api_version: &context.kind_info().gvk.api_version(),
            replicas_path: &path,
        };
        handler.to_parent(&desired, &mut object);
        Ok(object)
    }

    fn new_body(&self, context: &RequestContext<'_>, object: &Tree) -> Result<Option<Tree>, Status> {
        scale_of_tree(context, object).map(Some)
    }
}

/// The path of the replicas in the object.
fn replicas_path<'a>(context: &'a RequestContext<'_>) -> Result<Vec<&'a str>, Status> {
    let paths = context.kind_info().scale.as_ref();
    let paths = paths.ok_or_else(Status::no_such_resource)?;
    Ok(paths.replicas.iter().map(String::as_str).collect())
}

impl ScaledObject<'_> {
    /// The UID of the Scale is a precondition; in a patch of a custom object's Scale it is ignored.
    fn require_uid(&self, context: &RequestContext<'_>, desired: &Tree, old: &Stored) -> Result<(), Status> {
        match &self.input {
            _ if !context.kind_info().is_custom => require_uid(context, desired, old),
            ScaleInput::Update(_) => verbs::require_uid(context, desired, old),
            ScaleInput::Patch(..) | ScaleInput::Apply(_) => Ok(()),
        }
    }

    fn desired_scale(&self, context: &RequestContext<'_>, scale: &Tree) -> Result<Tree, Status> {
        let mut desired = match &self.input {
            ScaleInput::Update(desired) => desired.clone(),
            ScaleInput::Patch(patch_type, patch, problems) => {
                let (patched, dropped) = self.patch(*patch_type, patch, scale, problems)?;
                context.set_warnings(problems.warnings().chain(dropped).collect());
                patched
            }
            ScaleInput::Apply(applied) => {
                let merged =
                    field_managers::apply_scale(context, scale, &applied.tree, shape(), self.options)?;
                applied.check_duplicates(self.options.field_validation)?;
                return conform(merged);
            }
        };
        context.check_name(&desired)?;
        context.default_namespace(&mut desired)?;
        field_managers::update_scale(context, scale, &mut desired, shape(), self.options);
        Ok(desired)
    }

    /// The patched Scale, with warnings of dropped fields. An error shows the patched Scale, or the patch if it is a
    /// strategic merge patch.
    fn patch(
        &self,
        patch_type: PatchType,
        patch: &Tree,
        scale: &Tree,
        problems: &PatchProblems,
    ) -> Result<(Tree, Vec<String>), Status> {
        let quoted = || patch::quoted_strategic(scale, patch, shape());
        let patched = match apply_patch(patch_type, patch, scale.clone()) {
            Ok(patched) => patched,
            Err(patch::Error::TypeMismatch(why)) => return Err(verbs::invalid_patch(&quoted(), &why)),
            Err(failed) => return Err(verbs::patch_error(failed)),
        };
        let why = match problems.strict_error() {
            Some(why) => why,
            None => match strict::conform_tree(patched, shape(), self.options.field_validation) {
                Ok(decoded) => return Ok((decoded.tree, decoded.warnings)),
                Err(error) => error.cause(),
            },
        };
        let shown = match patch_type {
            PatchType::StrategicMerge => quoted(),
            _ => verbs::patched_text(
                apply_patch(patch_type, patch, scale.clone()).map_err(verbs::patch_error)?,
            ),
        };
        Err(verbs::invalid_patch(&shown, &why))
    }
}

/// The desired replicas. If an object of a custom kind has no replicas, a patch of its Scale must set them.
fn desired_replicas(
    context: &RequestContext<'_>,
    desired: &Tree,
    path: &[&str],
    is_unset: bool,
) -> Result<i64, Status> {
    let replicas = desired
        .at(&[fields::SPEC, fields::REPLICAS])
        .and_then(Tree::as_i64);
    match replicas {
        None if is_unset && context.kind_info().is_custom => Err(Status::bad_request(format!(
            "the spec replicas field \".{}\" cannot be empty",
            path.join(".")
        ))),
        replicas => Ok(replicas.unwrap_or_default()),
    }
}

fn check(context: &RequestContext<'_>, desired: &Tree) -> Result<(), Status> {
    let name = context.target.name.as_deref().unwrap_or_default();
    context.check_name(desired)?;
    let replicas = desired
        .at(&[fields::SPEC, fields::REPLICAS])
        .and_then(Tree::as_i64);
    let errors = Errors::default();
    // A custom kind validates the number by its schema.
    if let Some(replicas) = replicas.filter(|replicas| *replicas < 0 && !context.kind_info().is_custom) {
        let at = errors.at(fields::SPEC).at(fields::REPLICAS);
        at.invalid(replicas, "must be greater than or equal to 0");
    }
    if errors.is_empty() {
        return Ok(());
    }
    let subject = Gvk::new("autoscaling", "", "Scale");
    Err(Status::invalid(&subject, name, &errors.into_vec()))
}

fn require_uid(context: &RequestContext<'_>, desired: &Tree, old: &Stored) -> Result<(), Status> {
    let uid = meta::str(desired, "uid");
    if uid.is_empty() || uid == old.uid() {
        return Ok(());
    }
    let resource = GroupResource::new(&context.name.group, &format!("{}/scale", context.name.resource));
    let why = format!(
        "Precondition failed: UID in precondition: {uid}, UID in object meta: {}",
        old.uid()
    );
    Err(Status::conflict(&resource, old.key().name(), &why))
}

fn apply_patch(patch_type: PatchType, patch: &Tree, mut scale: Tree) -> Result<Tree, patch::Error> {
    match patch_type {
        PatchType::Json => patch::apply_json(&mut scale, patch)?,
        PatchType::StrategicMerge => patch::apply_strategic(&mut scale, patch, shape())?,
        PatchType::Merge | PatchType::Apply => patch::apply_merge(&mut scale, patch)?,
    }
    Ok(scale)
}

fn conform(scale: Tree) -> Result<Tree, Status> {
    let conformed = strict::conform_tree(scale, shape(), FieldValidation::Ignore);
    Ok(conformed
        .map_err(|error| Status::bad_request(error.to_string()))?
        .tree)
}

fn response(context: &RequestContext<'_>, object: &Stored) -> Result<Response, Status> {
    let mut json = Vec::new();
    setpoint_schema::write_into(shape(), &scale_of(context, object)?, &mut json);
    Ok(Response::new(Body::Json(Bytes::from(json))))
}

/// The Scale of a stored object.
fn scale_of(context: &RequestContext<'_>, object: &Stored) -> Result<Tree, Status> {
    let mut object_tree = context.kind.decode_stored(object).map_err(error::undecodable)?;
    let version = object.resource_version().to_string();
    meta::set(&mut object_tree, "resourceVersion", version);
    scale_of_tree(context, &object_tree)
}

/// The Scale of an object, with its resource version if the object has one.
fn scale_of_tree(context: &RequestContext<'_>, object_tree: &Tree) -> Result<Tree, Status> {
    let paths = context.kind_info().scale.as_ref();
    let paths = paths.ok_or_else(Status::no_such_resource)?;
    let at = |path: &[String]| {
        let path: Vec<&str> = path.iter().map(String::as_str).collect();
        object_tree.at(&path).cloned().unwrap_or_default()
    };
    let mut scale = Tree::default();
    scale.set(&[fields::KIND], "Scale");
    scale.set(&[fields::API_VERSION], "autoscaling/v1");
    for field in ["name", "namespace", "uid", "resourceVersion", "creationTimestamp"] {
        meta::copy(&mut scale, object_tree, field);
    }
    if let Some(replicas) = at(&paths.replicas).as_i64() {
        scale.set(&[fields::SPEC, fields::REPLICAS], replicas);
    }
    let status_replicas = at(&paths.status_replicas).as_i64().unwrap_or_default();
    scale.set(&[fields::STATUS, fields::REPLICAS], status_replicas);
    let selector = paths
        .selector
        .as_ref()
        .map(|selector| selector_text(&at(selector)));
    if let Some(text) = selector.filter(|text| !text.is_empty()) {
        scale.set(&[fields::STATUS, fields::SELECTOR], text);
    }
    Ok(scale)
}

/// The selector as text. It is a LabelSelector, a plain map of labels, or text already.
fn selector_text(selector: &Tree) -> String {
    if let Some(text) = selector.as_str() {
        return text.to_owned();
    }
    let plain = selector
        .as_map()
        .is_some_and(|map| map.values().all(|value| value.as_str().is_some()));
    let parsed = match plain {
        true => {
            let mut whole = Tree::default();
            whole.set(&[fields::MATCH_LABELS], selector.clone());
            label_selector::parse(&whole)
        }
        false => label_selector::parse(selector),
    };
    parsed.map(|selector| selector.to_string()).unwrap_or_default()
}

fn shape() -> &'static Shape {
    let shape = Pack::builtin().shape_of("autoscaling", "v1", "Scale");
    shape.expect("the pack has every built-in kind")
}
