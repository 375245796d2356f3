//! The verbs, each a sequence of steps in the order in which they run.

mod apply;
mod create;
mod delete;
mod delete_collection;
mod get;
mod guaranteed_update;
mod list;
mod patch;
mod read_virtual;
mod update;
mod watch;

use std::future::ready;

use setpoint_api::{ApiVerb, ServeFuture, Status, Verb};
use setpoint_strategy::{Subresource, SubresourceKind};

use crate::request_context::RequestContext;
use crate::subresources;

pub(crate) use apply::{AppliedConfiguration, require_manager};
pub(crate) use create::{NewObject, clear_system_fields, create_object, set_system_fields};
pub(crate) use delete::delete_object;
pub(crate) use guaranteed_update::{UpdatedObject, guaranteed_update};
pub(crate) use patch::{
    PatchProblems, invalid_patch, patch_error, patched_text, require_patch_type, require_version,
};
pub(crate) use update::require_uid;

/// The execution of the request's verb on its target; an error if the target does not have the verb. It is boxed, since the
/// future of a request would otherwise be as large as that of the largest verb.
pub(crate) fn dispatch<'a>(context: &'a RequestContext<'_>, verb: Verb) -> Result<ServeFuture<'a>, Status> {
    let subresource = requested_subresource(context, verb.api_verb())?;
    let subresource = subresource.map(|subresource| subresource.kind);
    let resource = &context.kind_info().rules.resource;
    let execution: ServeFuture<'a> = match (verb, subresource) {
        (Verb::Create(payload, options), None) if !resource.stored => match resource.delegates_to {
            Some(action) => Box::pin(subresources::delegate(context, action, payload, options)),
            None => Box::pin(subresources::create_virtual(context, payload, options)),
        },
        (Verb::Create(payload, options), Some(SubresourceKind::Virtual)) => {
            Box::pin(subresources::create_virtual(context, payload, options))
        }
        (Verb::Create(payload, options), Some(SubresourceKind::Action(action))) => {
            Box::pin(subresources::dispatch(context, action, payload, options))
        }
        (verb, Some(SubresourceKind::Scale)) => Box::pin(subresources::scale(context, verb)),
        (_, Some(SubresourceKind::Connect(_))) => return Err(Status::method_not_allowed()),
        (Verb::Get(_), None) if !resource.stored => Box::pin(ready(read_virtual::get(context))),
        (Verb::List(options), None) if !resource.stored => {
            Box::pin(ready(read_virtual::list(context, &options)))
        }
        (Verb::Get(options), _) => Box::pin(get::get(context, options)),
        (Verb::List(options), None) => Box::pin(list::list(context, options)),
        (Verb::Watch(options), None) => Box::pin(watch::watch(context, options)),
        (Verb::Create(payload, options), None) => Box::pin(create::create(context, payload, options)),
        (Verb::Update(payload, options), subresource) => {
            Box::pin(update::update(context, subresource, payload, options))
        }
        (Verb::Patch(patch, payload, options), subresource) => {
            Box::pin(patch::patch(context, subresource, patch, payload, options))
        }
        (Verb::Delete(options), None) => Box::pin(delete::delete(context, options)),
        (Verb::DeleteCollection(options, list), None) => {
            Box::pin(delete_collection::delete_collection(context, options, list))
        }
        _ => return Err(Status::method_not_allowed()),
    };
    Ok(execution)
}

/// The subresource in the URL, if there is one; an error if it does not have the verb.
fn requested_subresource(context: &RequestContext<'_>, verb: ApiVerb) -> Result<Option<Subresource>, Status> {
    let info = context.kind_info();
    let Some(name) = context.target.subresource.as_deref() else {
        let allowed = info.is_custom || info.allows(verb);
        return allowed.then_some(None).ok_or_else(Status::method_not_allowed);
    };
    let subresource = info.find_subresource(name);
    let subresource = subresource.ok_or_else(|| match (info.is_custom, context.key()) {
        (true, Ok(key)) => context.not_found(&key),
        _ => Status::no_such_resource(),
    })?;
    match subresource.verbs.contains(verb) {
        true => Ok(Some(subresource)),
        false => Err(Status::method_not_allowed()),
    }
}
