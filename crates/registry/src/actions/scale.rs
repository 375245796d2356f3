//! Scale: how many replicas an object asks for, in a document that is the same for every kind.

use bytes::Bytes;

use setpoint_api::call::Body;
use setpoint_api::field::Errors;
use setpoint_api::options::{FieldValidation, PatchType, WriteOptions};
use setpoint_api::{GroupResource, Gvk, Payload, Response, Status, Stored, Verb};
use setpoint_codec::{json, strict};
use setpoint_kinds::shared::label_selector;
use setpoint_kinds::{Part, meta};
use setpoint_schema::apply::{SCALE_VERSION, Scaled};
use setpoint_schema::{Pack, Shape, Tree, patch};

use crate::call::Call;
use crate::verbs::{self, Attempt, require_version, revise_until_written};
use crate::{error, managers};

/// Reads or writes the scale of the object the request points at.
pub(crate) async fn scale(call: &Call<'_>, verb: Verb) -> Result<Response, Status> {
    match verb {
        Verb::Get(_) => {
            let key = call.key()?;
            let object = call.find(&key)?.ok_or_else(|| call.not_found(&key))?;
            answer(call, &object)
        }
        Verb::Update(payload, options) => {
            let read = call.read(&payload, shape(), options.field_validation)?;
            write(call, &options, |scale| {
                let mut wanted = read.tree.clone();
                if wanted.at(&["spec", "replicas"]).is_none() {
                    wanted.set(&["spec", "replicas"], 0);
                }
                managers::update_scale(call, scale, &mut wanted, shape(), &options);
                Ok((wanted, read.warnings.clone()))
            })
            .await
        }
        Verb::Patch(PatchType::Apply, payload, options) => {
            verbs::require_manager(&options)?;
            let (applied, said) = verbs::read_applied(&payload)?;
            verbs::require_type(&applied, (SCALE_VERSION, "Scale"))?;
            write(call, &options, |scale| {
                let tree = managers::apply_scale(call, scale, &applied, shape(), &options)?;
                let said = verbs::judged(&said, options.field_validation)?;
                Ok((conformed(tree)?, said.to_vec()))
            })
            .await
        }
        Verb::Patch(form, payload, options) => {
            let asked = parse(&payload)?;
            write(call, &options, |scale| {
                let mut patched = patched(form, &asked, scale.clone())?;
                managers::update_scale(call, scale, &mut patched, shape(), &options);
                Ok((patched, Vec::new()))
            })
            .await
        }
        _ => Err(Status::method_not_allowed()),
    }
}

/// Writes the number and the owners that the wanted scale has, made of the scale that is there.
async fn write(
    call: &Call<'_>,
    options: &WriteOptions,
    wanted: impl Fn(&Tree) -> Result<(Tree, Vec<String>), Status>,
) -> Result<Response, Status> {
    let paths = call.about().scale.clone().ok_or_else(Status::no_such_resource)?;
    let path: Vec<&str> = paths.replicas.iter().map(String::as_str).collect();
    let scaled = Scaled {
        api_version: &call.about().gvk.api_version(),
        replicas: &path,
    };
    let (object, warnings) = revise_until_written(call, Some(Part::Scale), options, |old, before| {
        let mut scale = of(call, old)?;
        scaled.lend(before, &mut scale);
        let (wanted, warnings) = wanted(&scale)?;
        check(call, &wanted)?;
        require_version(call, &wanted, old)?;
        require_uid(call, &wanted, old)?;
        let mut object = before.clone();
        object.set(&path, number(call, &wanted, &path)?);
        scaled.give_back(&wanted, &mut object);
        Ok(Attempt {
            object,
            version: None,
            warnings,
        })
    })
    .await?;
    Ok(Response {
        warnings,
        ..answer(call, &object)?
    })
}

/// The number that is wanted. A kind that a definition made may have none so far, and then one must be given.
fn number(call: &Call<'_>, wanted: &Tree, path: &[&str]) -> Result<i64, Status> {
    let replicas = wanted.at(&["spec", "replicas"]).and_then(Tree::as_i64);
    match replicas {
        None if call.about().defined => Err(Status::bad_request(format!(
            "the spec replicas field \".{}\" cannot be empty",
            path.join(".")
        ))),
        replicas => Ok(replicas.unwrap_or_default()),
    }
}

fn check(call: &Call<'_>, wanted: &Tree) -> Result<(), Status> {
    let name = call.target.name.as_deref().unwrap_or_default();
    if meta::name(wanted) != name {
        return Err(Status::bad_request(format!(
            "the name of the object ({}) does not match the name on the URL ({name})",
            meta::name(wanted)
        )));
    }
    let replicas = wanted.at(&["spec", "replicas"]).and_then(Tree::as_i64);
    let errors = Errors::default();
    // A kind that a definition made judges the number itself.
    if let Some(replicas) = replicas.filter(|replicas| *replicas < 0 && !call.about().defined) {
        let at = errors.at("spec").at("replicas");
        at.invalid(replicas, "must be greater than or equal to 0");
    }
    if errors.is_empty() {
        return Ok(());
    }
    let subject = Gvk::new("autoscaling", "", "Scale");
    Err(Status::invalid(&subject, name, &errors.into_vec()))
}

fn require_uid(call: &Call<'_>, wanted: &Tree, old: &Stored) -> Result<(), Status> {
    let uid = meta::str(wanted, "uid");
    if uid.is_empty() || uid == old.uid() || call.about().defined {
        return Ok(());
    }
    let resource = GroupResource::new(&call.name.group, &format!("{}/scale", call.name.resource));
    let why = format!(
        "Precondition failed: UID in precondition: {uid}, UID in object meta: {}",
        old.uid()
    );
    Err(Status::conflict(&resource, old.key().name(), &why))
}

fn parse(payload: &Payload) -> Result<Tree, Status> {
    json::parse(&payload.bytes).map_err(|_| Status::bad_request("invalid JSON patch"))
}

fn patched(form: PatchType, asked: &Tree, mut scale: Tree) -> Result<Tree, Status> {
    let applied = match form {
        PatchType::Json => patch::apply_json(&mut scale, asked),
        PatchType::StrategicMerge => patch::apply_strategic(&mut scale, asked, shape()),
        PatchType::Merge | PatchType::Apply => patch::apply_merge(&mut scale, asked),
    };
    applied.map_err(verbs::refused_patch)?;
    conformed(scale)
}

fn conformed(scale: Tree) -> Result<Tree, Status> {
    let conformed = strict::conform_tree(scale, shape(), FieldValidation::Ignore);
    Ok(conformed
        .map_err(|error| Status::bad_request(error.to_string()))?
        .tree)
}

fn answer(call: &Call<'_>, object: &Stored) -> Result<Response, Status> {
    let mut json = Vec::new();
    setpoint_schema::write_into(shape(), &of(call, object)?, &mut json);
    Ok(Response::of(Body::Document(Bytes::from(json))))
}

/// The scale of an object.
fn of(call: &Call<'_>, object: &Stored) -> Result<Tree, Status> {
    let paths = call.about().scale.as_ref();
    let paths = paths.ok_or_else(Status::no_such_resource)?;
    let document = call.kind.revise(object).map_err(error::unreadable)?;
    let at = |path: &[String]| {
        let path: Vec<&str> = path.iter().map(String::as_str).collect();
        document.at(&path).cloned().unwrap_or_default()
    };
    let mut scale = Tree::default();
    scale.set(&["kind"], "Scale");
    scale.set(&["apiVersion"], "autoscaling/v1");
    for field in ["name", "namespace", "uid", "creationTimestamp"] {
        meta::copy(&mut scale, &document, field);
    }
    meta::set(
        &mut scale,
        "resourceVersion",
        object.resource_version().to_string(),
    );
    if let Some(replicas) = at(&paths.replicas).as_i64() {
        scale.set(&["spec", "replicas"], replicas);
    }
    scale.set(&["status", "replicas"], at(&paths.status_replicas));
    if let Some(selector) = &paths.selector {
        let text = selector_text(&at(selector));
        scale.set(&["status", "selector"], text);
    }
    Ok(scale)
}

/// A selector is an object, a plain map of labels, or a text already.
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
            whole.set(&["matchLabels"], selector.clone());
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
