//! The verbs, each a story in the order things happen.

mod apply;
mod create;
mod delete;
mod delete_collection;
mod get;
mod list;
mod patch;
mod update;
mod watch;

use setpoint_api::{Response, Status, Verb};
use setpoint_kinds::{Part, Subresource};

use crate::actions;
use crate::call::Call;

pub(crate) use apply::{judged, read as read_applied, require_manager, require_type};
pub(crate) use create::set_system_fields;
pub(crate) use delete::delete_object;
pub(crate) use patch::{refused as refused_patch, require_version};
pub(crate) use update::{Attempt, revise_until_written};

/// Carries out a verb on what the request points at.
pub(crate) async fn carry_out(call: &Call<'_>, verb: Verb) -> Result<Response, Status> {
    let subresource = addressed(call, verb.name())?;
    let part = subresource.map(|subresource| subresource.part);
    match (verb, part) {
        (Verb::Create(payload, options), None) if !call.about().rules.stored => {
            match call.about().rules.carried_out_by {
                Some(action) => actions::carry_out_document(call, action, payload, options).await,
                None => actions::answer(call, &payload, &options).await,
            }
        }
        (Verb::Create(payload, options), Some(Part::Answer)) => {
            actions::answer(call, &payload, &options).await
        }
        (Verb::Create(payload, options), Some(Part::Action)) => {
            actions::carry_out(call, payload, options).await
        }
        (verb, Some(Part::Scale)) => actions::scale(call, verb).await,
        (_, Some(Part::Connect)) => Err(Status::method_not_allowed()),
        (Verb::Get(options), _) => get::get(call, &options).await,
        (Verb::List(options), None) => list::list(call, &options).await,
        (Verb::Watch(options), None) => watch::watch(call, options).await,
        (Verb::Create(payload, options), None) => create::create(call, &payload, &options).await,
        (Verb::Update(payload, options), part) => update::update(call, part, &payload, &options).await,
        (Verb::Patch(patch, payload, options), part) => {
            patch::patch(call, part, patch, &payload, &options).await
        }
        (Verb::Delete(options), None) => delete::delete(call, &options).await,
        (Verb::DeleteCollection(options, list), None) => {
            delete_collection::delete_collection(call, &options, &list).await
        }
        _ => Err(Status::method_not_allowed()),
    }
}

/// The subresource in the address, if there is one; an error if the verb does not apply there.
fn addressed(call: &Call<'_>, verb: &str) -> Result<Option<Subresource>, Status> {
    let about = call.about();
    let Some(name) = call.target.subresource.as_deref() else {
        let allowed = about.defined || about.allows(verb);
        return allowed.then_some(None).ok_or_else(Status::method_not_allowed);
    };
    let found = about.find_subresource(name);
    let found = found.ok_or_else(|| match (about.defined, call.key()) {
        (true, Ok(key)) => call.not_found(&key),
        _ => Status::no_such_resource(),
    })?;
    match found.verbs.contains(&verb) {
        true => Ok(Some(found)),
        false => Err(Status::method_not_allowed()),
    }
}
