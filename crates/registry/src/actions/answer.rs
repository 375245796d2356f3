//! Answers: a document comes in, and goes out with what was asked. Nothing is stored.

use bytes::Bytes;

use setpoint_api::call::Body;
use setpoint_api::options::WriteOptions;
use setpoint_api::{Gvk, Payload, Response, Status};
use setpoint_schema::{Pack, Shape};

use crate::answer::Question;
use crate::call::Call;
use crate::managers;

/// Answers the document: a review, or a question about the object the request points at.
pub(crate) async fn answer(
    call: &Call<'_>,
    payload: &Payload,
    options: &WriteOptions,
) -> Result<Response, Status> {
    let (gvk, shape) = asked(call)?;
    let mut decoded = call.read(payload, shape, options.field_validation)?;
    if call.target.subresource.is_none() {
        managers::update(call, None, &mut decoded.tree, options);
    }
    let subject = match call.target.name {
        Some(_) => {
            let key = call.key()?;
            let found = call.find(&key)?;
            Some(found.ok_or_else(|| call.not_found(&key))?)
        }
        None => None,
    };
    let question = Question {
        user: &call.user,
        gvk: &gvk,
        target: &call.target,
        subject,
        document: decoded.tree,
        caches: call.registry,
        now: call.facts.now,
    };
    let answer = call.registry.answer.answer(question).await?;
    let mut json = Vec::new();
    setpoint_schema::write_into(shape, &answer, &mut json);
    Ok(Response {
        created: true,
        warnings: decoded.warnings,
        ..Response::of(Body::Document(Bytes::from(json)))
    })
}

/// The kind of the document: that of the resource, or that of its subresource.
fn asked<'a>(call: &'a Call<'_>) -> Result<(Gvk, &'a Shape), Status> {
    let Some(name) = call.target.subresource.as_deref() else {
        return Ok((call.about().gvk.clone(), call.kind.shape()));
    };
    let part = call.about().find_subresource(name);
    let (group, version, kind) = part.ok_or_else(Status::no_such_resource)?.kind;
    let shape = Pack::builtin().shape_of(group, version, kind);
    let shape = shape.expect("the pack has every built-in kind");
    Ok((Gvk::new(group, version, kind), shape))
}
