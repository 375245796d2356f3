//! List: the objects of a resource at one revision, all of them or page by page.

use std::sync::Arc;
use std::time::Duration;

use setpoint_api::call::Body;
use setpoint_api::field::Errors;
use setpoint_api::options::{ListOptions, VersionMatch};
use setpoint_api::selector::{FieldSelector, selects};
use setpoint_api::{Gvk, Key, List, ResourceVersion, Response, Status, Stored};

use crate::call::Call;
use crate::page::Page;
use crate::{error, key};

/// How long a read waits for a revision that is not there yet.
const PATIENCE: Duration = Duration::from_secs(3);

/// Lists the objects that the options select.
pub(crate) async fn list(call: &Call<'_>, options: &ListOptions) -> Result<Response, Status> {
    Ok(Response::of(Body::List(collect(call, options).await?)))
}

/// The list itself.
pub(crate) async fn collect(call: &Call<'_>, options: &ListOptions) -> Result<List, Status> {
    check_options(options)?;
    check_fields(call, &options.fields)?;
    let page = options
        .continue_token
        .as_deref()
        .map(Page::from_token)
        .transpose()?;
    let objects = objects_of_page(call, options, page.as_ref()).await?;
    let start = page.map_or_else(String::new, |page| page.start);
    Ok(cut(call, options, objects, &start))
}

/// All objects in scope, in order, at one revision.
struct Objects {
    version: ResourceVersion,
    items: Vec<Arc<Stored>>,
}

async fn objects_of_page(
    call: &Call<'_>,
    options: &ListOptions,
    page: Option<&Page>,
) -> Result<Objects, Status> {
    let exact = match page {
        Some(page) => page.version,
        None => exact_version(options),
    };
    if let Some(version) = exact {
        return objects_at(call, version, page);
    }
    match options.resource_version {
        Some(ResourceVersion::ZERO) => {}
        Some(version) if page.is_none() => wait_for(call, version).await?,
        _ => wait_until_fresh(call).await,
    }
    Ok(objects_now(call, &options.fields))
}

/// A version that must be met exactly, by the caller's word or since pages are to come.
fn exact_version(options: &ListOptions) -> Option<ResourceVersion> {
    let version = options.resource_version?;
    match options.version_match {
        Some(VersionMatch::Exact) => Some(version),
        Some(VersionMatch::NotOlderThan) => None,
        None => (options.limit.is_some() && version != ResourceVersion::ZERO).then_some(version),
    }
}

/// What the cache holds now. A selector that pins the name or the namespace narrows what is looked at.
fn objects_now(call: &Call<'_>, fields: &FieldSelector) -> Objects {
    let snapshot = call.resource.cache.snapshot();
    let pinned = fields.pinned("metadata.namespace").unwrap_or_default();
    let namespace = match call.namespace() {
        "" if call.about().is_namespaced() => pinned,
        own => own,
    };
    let items = match fields.pinned("metadata.name") {
        Some(name) if !namespace.is_empty() || !call.about().is_namespaced() => {
            let key = Key::new(namespace, name);
            snapshot.find(&key).cloned().into_iter().collect()
        }
        _ if namespace.is_empty() => snapshot.iter().cloned().collect(),
        _ => snapshot.in_namespace(namespace).cloned().collect(),
    };
    Objects {
        version: snapshot.version,
        items,
    }
}

/// What the store held then, as far back as it remembers.
fn objects_at(call: &Call<'_>, version: ResourceVersion, page: Option<&Page>) -> Result<Objects, Status> {
    let snapshot = call
        .registry
        .store
        .snapshot_at(key::revision(version))
        .map_err(|failed| expired(failed, page))?;
    let mut prefix = call.resource.prefix.clone();
    if !call.namespace().is_empty() {
        prefix.push_str(call.namespace());
        prefix.push('/');
    }
    let mut items = Vec::new();
    for record in snapshot.prefix(prefix.as_bytes()) {
        let (_, text) = key::split(&record.key).expect("keys under a resource's prefix have its form");
        let Ok(key) = text.parse::<Key>() else { continue };
        items.push(call.resource.shared(&key, &record).map_err(error::unreadable)?);
    }
    Ok(Objects { version, items })
}

/// Of a page that is too old, the caller learns how to go on with what is there now.
fn expired(failed: setpoint_store::Error, page: Option<&Page>) -> Status {
    let (setpoint_store::Error::Compacted { .. }, Some(page)) = (&failed, page) else {
        return error::status(failed);
    };
    let fresh = Page {
        version: None,
        start: page.start.clone(),
    };
    let mut status = Status::expired(
        "The provided continue parameter is too old to display a consistent list result. You can start a new list without the continue parameter, or use the continue token in this response to retrieve the remainder of the results. Continuing with the provided token results in an inconsistent list - objects that were created, modified, or deleted between the time the first chunk was returned and now may show up in the list.",
    );
    status.metadata.continue_token = fresh.to_token();
    status
}

/// Selects from the objects, and cuts the page.
fn cut(call: &Call<'_>, options: &ListOptions, objects: Objects, start: &str) -> List {
    let limit = options.limit.filter(|limit| *limit > 0);
    let ignored = options.resource_version == Some(ResourceVersion::ZERO);
    let limit = limit
        .filter(|_| !ignored)
        .and_then(|limit| usize::try_from(limit).ok());
    let all = options.labels.is_empty() && options.fields.is_empty();
    let relative = |object: &Stored| relative_key(call, object.key());
    let mut rest = objects
        .items
        .into_iter()
        .skip_while(|object| relative(object).as_str() < start)
        .filter(|object| all || selects(&options.labels, &options.fields, object));
    let mut list = List {
        items: rest.by_ref().take(limit.unwrap_or(usize::MAX)).collect(),
        resource_version: objects.version,
        ..List::default()
    };
    let remaining = rest.count();
    if let Some(last) = list.items.last().filter(|_| remaining > 0) {
        list.continue_token = Some(Page::after(objects.version, &relative(last)).to_token());
        list.remaining = all.then(|| u64::try_from(remaining).unwrap_or(u64::MAX));
    }
    list
}

/// The key as a page token has it: without what the whole list shares.
fn relative_key(call: &Call<'_>, key: &Key) -> String {
    match call.namespace() {
        "" => key.as_str().to_owned(),
        _ => key.name().to_owned(),
    }
}

/// Waits until the cache has reached what the store has now.
pub(crate) async fn wait_until_fresh(call: &Call<'_>) {
    let now = key::version(call.registry.store.revision());
    call.resource.cache.reached(now).await;
}

/// Waits for a revision that may be yet to come, but not for long.
pub(crate) async fn wait_for(call: &Call<'_>, version: ResourceVersion) -> Result<(), Status> {
    tokio::select! {
        biased;
        () = call.resource.cache.reached(version) => Ok(()),
        () = call.registry.clock.sleep(PATIENCE) => {
            let current = key::version(call.registry.store.revision());
            Err(Status::too_large_resource_version(version, current))
        }
    }
}

/// Refuses selectors on fields that this kind does not select by.
pub(crate) fn check_fields(call: &Call<'_>, fields: &FieldSelector) -> Result<(), Status> {
    for label in fields.fields() {
        call.about().check_field(label).map_err(Status::bad_request)?;
    }
    Ok(())
}

fn check_options(options: &ListOptions) -> Result<(), Status> {
    let errors = Errors::default();
    let at = errors.at("resourceVersionMatch");
    if options.version_match.is_some() {
        if options.resource_version.is_none() {
            at.forbidden("resourceVersionMatch is forbidden unless resourceVersion is provided");
        }
        if options.continue_token.is_some() {
            at.forbidden("resourceVersionMatch is forbidden when continue is provided");
        }
    }
    let zero = options.resource_version == Some(ResourceVersion::ZERO);
    if options.version_match == Some(VersionMatch::Exact) && zero {
        at.forbidden(r#"resourceVersionMatch "exact" is forbidden for resourceVersion "0""#);
    }
    refuse(errors)?;
    if options.continue_token.is_some() && options.resource_version.is_some_and(|_| !zero) {
        return Err(Status::bad_request(
            "specifying resource version is not allowed when using continue",
        ));
    }
    Ok(())
}

/// Turns what is wrong with the options into one answer.
pub(crate) fn refuse(errors: Errors<'_>) -> Result<(), Status> {
    if errors.is_empty() {
        return Ok(());
    }
    let subject = Gvk::new("meta.k8s.io", "v1", "ListOptions");
    Err(Status::invalid(&subject, "", &errors.into_vec()))
}
